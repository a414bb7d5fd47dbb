"""The stop of an installation: every contract is paused in turn, nobody enables meanwhile, the rest is told (G-148)."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from projections.contracts import AUTOMATION_CONTRACTS
from service.contracts import contract
from service.contracts.contract import NotStopped, resume_installation, stop_installation
from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.declare.names import gate, lock_number
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from statemachines.contracts import contract as contracts
from statemachines.contracts import stop
from statemachines.contracts.contract import EnableWish, command_of
from statemachines.contracts.policy import PauseInForce
from statemachines.kernel.machine import Rejection
from tests.support.ingest import Sql, make_project
from tests.support.later import LaterRelease, later_projection
from tests.support.loop.contracts import READY, make

NAMES = [f"proj_stop{number:04}" for number in range(6)]


def enabling(project_id: str) -> Command:
    """Save a contract and enable it, under the declarations of an enable."""
    stream, stopped = contracts.stream(project_id), stop.stream()

    def decide(unit: Unit) -> Answer:
        state = unit.state(stream)
        if state.status is contracts.Status.ABSENT:
            state = unit.append(
                stream,
                contracts.decide_save(
                    state, make("review_required"), contract_id=stream.id, if_match=None, saved_by="u", now=unit.now
                ),
            )
        wish = EnableWish(f"enr_{project_id}", None, state.etag, command_of("owner", project_id), "enable")
        stop.require_lifted(unit.state(stopped))
        unit.append(stream, contracts.decide_enable(state, wish, READY, enabled_by="u", now=unit.now))
        return Answer(204, None)

    return Command(
        origin=Origin("system", "test", "seed", "req_seed"),
        decide=decide,
        streams=[stream],
        reads=[stopped],
        gates=[project_id, stop.GATE],
    )


async def enable_all(store: EventStore, sql: Sql) -> None:
    for number, name in enumerate(NAMES):
        make_project(sql, name, owner=f"usr_stop{number:04}")
        await store.execute(enabling(name))


def statuses(sql: Sql) -> dict[str, str]:
    found = sql.execute("select project_id, status from automation_contracts").fetchall()
    return dict(found)


async def test_an_enable_is_under_the_stop(store: EventStore, sql: Sql) -> None:
    """It reads the stop, and holds the gate that the stop waits for: the races below declare the same."""
    await enable_all(store, sql)
    wish = EnableWish("enr_1", None, None, command_of("owner", "k"), "enable")
    intent = await contract.enable(store, NAMES[0], wish, enabled_by="u")
    declared = enabling(NAMES[0])
    assert intent.gates == [gate for gate in declared.gates if gate != NAMES[0]] == [stop.GATE]
    assert intent.reads == declared.reads == [stop.stream()]


async def test_every_contract_is_paused_and_stays_so(store: EventStore, sql: Sql) -> None:
    """With why, by the operator; while the stop is in force nobody enables, and its end enables nothing."""
    await enable_all(store, sql)
    tally = await stop_installation(store, "incident 7")
    assert (tally.paused, tally.not_stopped) == (NAMES, [])
    assert statuses(sql) == dict.fromkeys(NAMES, "paused")
    query = (
        "select distinct payload ->> 'reason', payload ->> 'paused_by', actor_kind, actor_id from events "
        "where topic = 'automation_contract.paused.v1'"
    )
    assert sql.execute(query).fetchall() == [("incident 7", "operator", "system", "operator")]
    with pytest.raises(PauseInForce):
        await store.execute(enabling(NAMES[0]))
    again = await stop_installation(store, "once more")
    assert (again.paused, again.stop) == ([], tally.stop)
    await resume_installation(store)
    assert statuses(sql) == dict.fromkeys(NAMES, "paused")


async def test_what_is_busy_is_stopped_later_and_what_cannot_be_is_told(
    store: EventStore, sql: Sql, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stalled session holds one project's gate, a later release wrote one contract, one project is being deleted."""
    monkeypatch.setattr(contract, "PAUSE_SECONDS", 0.01)
    await enable_all(store, sql)
    stalled, newer, fenced = NAMES[:3]
    with LaterRelease(database_url, contracts.MACHINE, later_projection(AUTOMATION_CONTRACTS)) as later:
        later.write(contracts.stream(newer))
    sql.execute("update projects set status = 'fenced' where project_id = %s", (fenced,))
    holder = psycopg.connect(database_url)
    holder.execute("select pg_advisory_xact_lock_shared(%s::bigint)", (lock_number(gate(stalled)),))
    tally = await stop_installation(store, "incident 8")
    holder.close()
    assert tally.paused == [stalled, *NAMES[3:]]
    assert tally.not_stopped == [NotStopped(newer, "stream_is_newer")]
    expected = dict.fromkeys(NAMES, "paused") | {newer: "enabled", fenced: "enabled"}
    assert statuses(sql) == expected


async def test_one_that_is_always_busy_is_told(store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for ever: after some rounds the tally names it, and the others are stopped."""
    monkeypatch.setattr(contract, "PAUSE_SECONDS", 0.0)
    await enable_all(store, sql)
    carry_out, tried = contract.carry_out, []

    async def busy(*words: object, project: str = "") -> object:
        if project == NAMES[1]:
            tried.append(project)
            raise CommandNotDone
        return await carry_out(*words, project=project)  # type: ignore[arg-type]

    monkeypatch.setattr(contract, "carry_out", busy)
    tally = await stop_installation(store, "incident 9")
    assert tally.not_stopped == [NotStopped(NAMES[1], "service_unavailable")]
    assert tally.paused == [NAMES[0], *NAMES[2:]]
    assert len(tried) == contract.ROUNDS


async def test_an_enable_at_the_same_time_is_before_or_refused(store: EventStore, sql: Sql) -> None:
    """Rivals for real: whatever was enabled was so before the stop, and is paused; nothing is on afterwards."""
    for round_number in range(5):
        names = [f"proj_race{round_number}{number:03}" for number in range(12)]
        for number, name in enumerate(names):
            make_project(sql, name, owner=f"usr_race{round_number}{number:03}")

        async def attempt(name: str) -> str:
            await asyncio.sleep(0.0005 * int(name[-3:]))
            try:
                await store.execute(enabling(name))
            except Rejection as refused:
                return refused.code
            return "enabled"

        stopped, *answers = await asyncio.gather(stop_installation(store, "race"), *map(attempt, names))
        assert set(answers) <= {"enabled", "automation_paused"}
        assert "enabled" not in statuses(sql).values(), answers
        assert stopped.not_stopped == []
        await resume_installation(store)
