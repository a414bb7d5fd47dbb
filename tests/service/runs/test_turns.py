"""Nobody starves: what a sweep takes up in turn, in the database, across sweeps, workers and kills (P27)."""

from __future__ import annotations

from datetime import datetime

import pytest

from service.eventstore.store import EventStore
from service.runs import sweep as sweeping
from service.runs import sweep as sweeps
from service.runs.sweep import Turn
from tests.support.enabled import AUTOMATION, enable, one
from tests.support.ingest import OWNER, PROJECT, Sql, make_project
from tests.support.sweeping import make_sweep

BOUND = 5


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "AT_MOST", BOUND)


def moment(sql: Sql) -> datetime:
    found = one(sql, "select service_now()")
    assert isinstance(found, datetime)
    return found


def considered(sql: Sql, turn: Turn, since: datetime) -> set[str]:
    query = "select id from sweep_turns where step = %s and considered_at >= %s"
    return {name for (name,) in sql.execute(query.encode(), (turn.value, since)).fetchall()}


async def sweep(store: EventStore, sql: Sql, turn: Turn = Turn.ENABLED) -> set[str]:
    """Sweep once; returns what was considered."""
    began = moment(sql)
    await make_sweep(store).run()
    return considered(sql, turn, began)


@pytest.mark.usefixtures("bounded")
async def test_each_of_four_times_as_many_projects_is_considered_within_five_sweeps(store: EventStore, sql: Sql):
    """And every round again; each sweep is another worker's, so that only the database remembers."""
    names = [f"proj_{number:08}" for number in range(100, 100 + 4 * BOUND)]
    enable(sql, names)
    for _ in range(2):
        found = [await sweep(store, sql) for _ in range(5)]
        assert {len(some) for some in found} == {BOUND}
        assert set().union(*found) == set(names)
    looked = sql.execute("select distinct project_id from automation_looks where automation_id = %s", (AUTOMATION,))
    assert {name for (name,) in looked.fetchall()} == set(names)


@pytest.mark.usefixtures("bounded")
async def test_an_account_with_one_project_does_not_wait_behind_one_with_many(store: EventStore, sql: Sql):
    many = [f"proj_{number:08}" for number in range(100, 140)]
    enable(sql, many, owner="usr_many")
    alone = ["proj_99999997", "proj_99999998", "proj_99999999"]
    enable(sql, alone)
    first = [await sweep(store, sql) for _ in range(3)]
    assert set().union(*first) > set(alone)
    assert all(len(some & set(many)) >= BOUND - 1 for some in first)
    rest = [await sweep(store, sql) for _ in range(8)]
    assert set().union(*first, *rest) == {*many, *alone}, "and those with many have their turn"


@pytest.mark.usefixtures("bounded")
async def test_what_kills_a_sweep_costs_itself_the_turn(store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch):
    """Turns are taken some at a time, before anything is done: those of later ones stay where they were."""
    monkeypatch.setattr(sweeping, "TOGETHER", 2)
    names = [f"proj_{number:08}" for number in range(100, 106)]
    enable(sql, names)
    killed = await sweeps.take(store.facts, Turn.ENABLED, [(name, name) for name in names[:2]], moment(sql))
    assert [name for _, name in killed] == names[:2]
    assert await sweep(store, sql) == {*names[2:], names[0]}


async def test_a_turn_is_taken_once(store: EventStore, sql: Sql):
    """Of two sweeps that began together only one works on a project; the next sweep may."""
    enable(sql, ["proj_00000100", "proj_00000101"])
    due = await sweeps.waiting(store, Turn.ENABLED, BOUND)
    began = moment(sql)
    first = await sweeps.take(store.facts, Turn.ENABLED, due[:1], began)
    second = await sweeps.take(store.facts, Turn.ENABLED, due, began)
    assert (first, second) == (due[:1], due[1:])
    assert await sweeps.take(store.facts, Turn.ENABLED, due, moment(sql)) == due


@pytest.mark.usefixtures("bounded")
async def test_runs_are_verified_in_turn(store: EventStore, sql: Sql):
    """However many wait for traffic that never comes, and whoever they belong to."""
    sql.execute(
        "insert into automation_runs (project_id, id, revision, automation_id, runner_id, receipt_id, phase, outcome, "
        "live, started_at, deadline_at, state) select %s, 'run_' || lpad(n::text, 26, '0'), 1, 'heal', 'r', 't', "
        "'provider_proof_pending', 'verifying', true, n, 9999999999, jsonb_build_object('deploy', jsonb_build_object("
        "'deploy_id', 'd', 'version', '1', 'environment', 'production', 'sha', 's', 'recorded_at', 0)) "
        "from generate_series(1, 12) n",
        (PROJECT,),
    )
    found = [await sweep(store, sql, Turn.VERIFYING) for _ in range(3)]
    assert [len(some) for some in found] == [BOUND, BOUND, BOUND]
    assert len(set().union(*found)) == 12


_OPEN = {
    Turn.RECEIPTS: "insert into trigger_receipts (project_id, id, revision, automation_id, kind, status, issued_at, "
    "expires_at, state) select {0}, {1}, 1, 'heal', 'case', 'issued', 0, {2}, '{{}}'",
    Turn.APPROVALS: "insert into approvals (project_id, id, revision, run_id, automation_id, status, requested_at, "
    "expires_at, state) select {0}, {1}, 1, 'run_none', 'heal', 'pending', 0, {2}, '{{}}'",
    Turn.GRANTS: "insert into grants (project_id, id, revision, run_id, automation_id, kind, status, authorized_at, "
    "expires_at, state) select {0}, {1}, 1, 'run_none', 'heal', 'auto_merge', 'authorized', 0, {2}, '{{}}'",
}


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("turn", _OPEN, ids=lambda turn: turn.value)
async def test_what_may_end_is_looked_at_in_turn(
    store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch, turn: Turn
):
    """However many open ones another account has, and however early these expire; none is looked at twice before."""
    make_project(sql, "proj_many", "usr_many")
    make_project(sql, "proj_alone", "usr_alone")
    for project, count, expires in (("proj_many", 20, 1), ("proj_alone", 1, 9999999999)):
        query = _OPEN[turn].format(f"'{project}'", f"'{project}_' || n", expires) + " from generate_series(1, %s) n"
        sql.execute(query.encode(), (count,))

    async def nothing(*_: object, **__: object) -> list[object]:
        return []

    monkeypatch.setattr(sweeping, "read_bundles", nothing)
    found = [await sweep(store, sql, turn) for _ in range(6)]
    assert "proj_alone_1" in found[0]
    assert [len(some) for some in found[:4]] == [BOUND] * 4
    assert len(set().union(*found)) == 21
    [wait] = await sweeps.waits(store, (turn,), BOUND)
    assert (wait.objects, wait.allowed) == (21, (6 + 2) * sweeps.EVERY_SECONDS)


async def test_a_stopped_or_fenced_project_takes_no_turn(store: EventStore, sql: Sql):
    enable(sql, ["proj_00000100", "proj_00000101", "proj_00000102"])
    sql.execute("update projects set status = 'fenced' where project_id = 'proj_00000100'")
    sql.execute("update automation_contracts set status = 'paused' where project_id = 'proj_00000101'")
    assert await sweep(store, sql) == {"proj_00000102"}


async def test_the_longest_wait_is_known(store: EventStore, sql: Sql):
    """Since a project was enabled, or had its last turn; it may last as long as its round, and two sweeps more."""
    enable(sql, ["proj_00000100"], ago=1000)
    enable(sql, ["proj_00000101"], ago=30)
    [wait, none] = await sweeps.waits(store, (Turn.ENABLED, Turn.VERIFYING), 500)
    assert (wait.objects, wait.allowed, wait.late) == (2, 180, True)
    assert 1000 <= wait.longest <= 1010
    assert (none.objects, none.longest, none.late) == (0, 0, False)
    await sweep(store, sql)
    [wait] = await sweeps.waits(store, (Turn.ENABLED,), 500)
    assert wait.longest <= 10
    assert sweeps.allowed_wait(2000, 500) == 7 * 60
    assert one(sql, "select count(*) from sweep_turns where project_id in (%s, %s)", PROJECT, OWNER) == 0
