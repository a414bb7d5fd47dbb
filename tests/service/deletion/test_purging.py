"""The purge: every table, in steps, past rebuilds, kills and late writers (R-DEL-03, G-130)."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from projections.accounts import MEMBERSHIPS
from projections.credentials import CREDENTIAL_USES
from projections.deletion import DeletionRow
from service.auth.authenticator import Uses
from service.auth.authority import carry_out
from service.deletion import purging, removal
from service.deletion.advancing import Advancer, in_turn, sweep
from service.deletion.purging import FACTS, KEPT, Purge
from service.eventstore.read import statements
from service.eventstore.schema.migrations import TELEMETRY
from service.eventstore.store import EventStore
from service.history.rebuild import rebuild
from service.ids import new_id
from service.registry import read_models
from service.runs import sweep as sweeps
from statemachines.deletion.removal import AskForDeletion
from tests.support.accounts_store import make_project
from tests.support.ending import left_of, problems

Sql = psycopg.Connection[Any]
CANARY = "canary-3e90"

_COLUMNS = """
select c.table_name::text, array_agg(c.column_name::text), array_agg(c.data_type::text)
from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
where c.table_schema = current_schema() and t.table_type = 'BASE TABLE' and c.is_identity = 'NO'
  and c.is_generated = 'NEVER'
  and c.table_name not like '%%\\_2_______' and c.table_name not like '%%\\_default'
group by c.table_name having bool_or(c.column_name = 'project_id') order by 1
"""
_VALUES = {
    "text": CANARY,
    "bigint": 1,
    "integer": 1,
    "smallint": 1,
    "double precision": 1.0,
    "boolean": False,
    "jsonb": f'["{CANARY}"]',
    "bytea": CANARY.encode(),
    "ARRAY": "{}",
}


def tables(sql: Sql) -> dict[str, dict[str, str]]:
    """Every table with rows of a scope: its columns and their types."""
    return {name: dict(zip(columns, types, strict=True)) for name, columns, types in sql.execute(_COLUMNS).fetchall()}


def fill(sql: Sql, scope: str, rows: int = 1) -> None:
    """Put rows of a scope into every table that is no part of the log, as if its product had written there."""
    for name, columns in tables(sql).items():
        if name in {"events", "stream_heads", "deletions", "rebuilds", "people", "projects"}:
            continue
        for number in range(rows):
            row = {column: _VALUES.get(kind, "2026-01-01") for column, kind in columns.items()}
            keys = ("id", "key", "stream_id", "user_id", "automation_id", "account_id")
            row |= {key: f"{CANARY}-{number}" for key in keys if key in columns}
            row |= {"project_id": scope} | ({"automations": "[]"} if "automations" in columns else {})
            marks = ", ".join(["%s"] * len(row))
            sql.execute(
                f"insert into {name} ({', '.join(row)}) values ({marks}) on conflict do nothing".encode(),
                list(row.values()),
            )


async def fenced(store: EventStore, scope: str, owner: str = "usr_owner") -> DeletionRow:
    wish = AskForDeletion("project", scope, owner, "k" * 64)
    return await carry_out(store, "test", "delete", removal.fence_project(wish, new_id("del")))


async def purging_of(store: EventStore, ledger: Path, scope: str, monkeypatch: pytest.MonkeyPatch) -> DeletionRow:
    """A deletion whose purge has begun and has removed nothing."""
    row = await fenced(store, scope)
    with monkeypatch.context() as patched:
        patched.setattr(Purge, "run", _nothing)
        row = await Advancer(store, ledger).advance(row, 5)
    assert row.phase == "purging"
    return row


async def _nothing(*_: object) -> Any:
    return False


def test_every_table_of_a_scope_is_purged_or_kept_on_purpose(sql: Sql):
    """A new table with rows of projects has to be named: in the purge, or among what stays."""
    models = set(read_models())
    assert set(tables(sql)) == models | set(FACTS) | set(KEPT) | set(TELEMETRY)


async def test_a_purge_empties_every_table_and_no_neighbours(store: EventStore, ledger: Path, sql: Sql):
    mine, other = await make_project(store, "usr_owner"), await make_project(store, "usr_other")
    fill(sql, mine, rows=3)
    fill(sql, other, rows=2)
    neighbour = left_of(store.conninfo, other)
    assert len(neighbour) > 30
    sql.execute(
        "insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status, "
        "body, created_at) values ('usr_owner', 'key:1', %s, 'a', '', '', true, 200, null, now()), "
        "('usr_owner', 'key:1', 'POST /v1/projects', 'b', '', '', true, 201, convert_to(%s, 'UTF8'), now()), "
        "('usr_owner', 'key:1', 'POST /v1/projects', 'c', '', '', true, 201, convert_to('{}', 'UTF8'), now())",
        (f"POST /v1/projects/{mine}/dsn/rotate", f'{{"project_id": "{mine}", "name": "{CANARY}"}}'),
    )
    sql.execute(
        "insert into procrastinate_jobs (queue_name, task_name, args) values ('default', 'deliver', %s), "
        "('default', 'deliver', %s)",
        tuple(f'{{"project_id": "{scope}", "text": "{CANARY}"}}' for scope in (mine, other)),
    )
    row = await Advancer(store, ledger).advance(await fenced(store, mine), 20)
    assert row.phase == "deleted"
    jobs = sql.execute("select args ->> 'project_id' from procrastinate_jobs where task_name = 'deliver'").fetchall()
    assert jobs == [(other,)]
    assert left_of(store.conninfo, mine).keys() <= {"usage_days", "usage_deploys"}
    assert left_of(store.conninfo, other) == neighbour
    records = sql.execute("select key from idempotency where project_id = 'usr_owner' and principal = 'key:1'")
    assert [key for (key,) in records.fetchall()] == ["c"]


async def test_a_purge_that_is_stopped_after_every_step_goes_on(
    store: EventStore, ledger: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """Each slice is another process's: nothing but the database says how far it has come."""
    monkeypatch.setattr(purging, "BATCH", 2)
    monkeypatch.setattr(purging, "PAYLOADS", 1)
    scope = await make_project(store, "usr_owner")
    fill(sql, scope, rows=5)
    row, slices = await fenced(store, scope), 0
    while row.phase != "deleted":
        row = await Advancer(store, ledger).advance(row, 0)
        slices += 1
        assert slices < 500
    assert slices > 50
    assert left_of(store.conninfo, scope).keys() <= {"usage_days", "usage_deploys"}


async def test_nothing_goes_before_the_ledger_says_so(store: EventStore, tmp_path: Path, sql: Sql):
    scope = await make_project(store, "usr_owner")
    fill(sql, scope)
    before = left_of(store.conninfo, scope)
    row = await fenced(store, scope)
    nowhere = tmp_path / "a file" / "erasures.jsonl"
    nowhere.parent.write_text("in the way")
    with pytest.raises(OSError, match="a file"):
        await Advancer(store, nowhere).advance(row, 5)
    assert left_of(store.conninfo, scope).keys() == before.keys()
    latest = await removal.get_deletion(store, row.id)
    assert latest is not None
    assert latest.phase == "fenced"


async def test_a_rebuild_under_way_brings_nothing_back(
    store: EventStore, ledger: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """It has folded the project before the purge; the deletion waits for its swap, which leaves the project out."""
    scope, other = await make_project(store, "usr_owner"), await make_project(store, "usr_other")
    row = await purging_of(store, ledger, scope, monkeypatch)
    seen = []

    def purge_meanwhile(*_: int) -> None:
        [[folded]] = sql.execute("select count(*) from memberships_rebuild where project_id = %s", (scope,)).fetchall()
        gone = sql.execute("delete from memberships where project_id = %s", (scope,)).rowcount
        seen.append((folded, gone))

    done = rebuild(store.conninfo, MEMBERSHIPS, purge_meanwhile)
    assert seen[0] == (1, 1)
    assert sql.execute("select project_id from memberships").fetchall() == [(other,)]
    assert done.rows == 1
    assert done.old_digest == done.new_digest
    assert (await Advancer(store, ledger).advance(row, 20)).phase == "deleted"
    assert problems(store.conninfo) == []


async def test_a_deletion_waits_for_a_rebuild_and_undoes_a_killed_one(
    store: EventStore, ledger: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    scope = await make_project(store, "usr_owner")
    row = await purging_of(store, ledger, scope, monkeypatch)
    phases = []

    class Killed(Exception):
        pass

    def look(*_: int) -> None:
        async def advance() -> str:
            found = await Purge(row).run(store.conninfo, time.monotonic() + 5, _nothing)
            return str(found)

        with ThreadPoolExecutor(1) as thread:
            phases.append(thread.submit(asyncio.run, advance()).result())
        raise Killed

    with pytest.raises(Killed):
        rebuild(store.conninfo, MEMBERSHIPS, look)
    assert phases == ["False"]
    assert sql.execute("select count(*) from memberships_rebuild").fetchall() == [(1,)]
    assert (await Advancer(store, ledger).advance(row, 20)).phase == "deleted"
    assert sql.execute("select to_regclass('memberships_rebuild')").fetchall() == [(None,)]
    assert sql.execute("select count(*) from rebuilds").fetchall() == [(0,)]


async def test_what_is_written_late_is_not_written(
    store: EventStore, ledger: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """A snapshot of a history that is erased, a turn in the sweep, the use of a credential."""
    scope = await make_project(store, "usr_owner")
    row = await purging_of(store, ledger, scope, monkeypatch)
    late = (scope, scope, 3, 0, 1, '{"name": "late"}', 10)
    assert sql.execute(statements.KEEP_SNAPSHOT, late).fetchall() == [(3,)], "its last event can be read yet"
    assert (await Advancer(store, ledger).advance(row, 20)).phase == "deleted"
    assert sql.execute(statements.KEEP_SNAPSHOT, late).fetchall() == []
    [[now]] = sql.execute("select clock_timestamp()").fetchall()
    assert await sweeps.take(store.facts, sweeps.Turn.ENABLED, [(scope, scope)], now) == []
    uses = Uses(store)
    uses.note(CREDENTIAL_USES, scope, "cred_1")
    await uses.stop()
    assert left_of(store.conninfo, scope) == {}


async def test_no_purge_outlives_its_deletion(
    store: EventStore, ledger: Path, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """One that was read as under way, and has ended since, removes nothing of what came after."""
    scope = await make_project(store, "usr_owner")
    row = await purging_of(store, ledger, scope, monkeypatch)
    assert (await Advancer(store, ledger).advance(row, 20)).phase == "deleted"
    fill(sql, scope)
    after = left_of(store.conninfo, scope)
    assert not await Purge(row).run(store.conninfo, time.monotonic() + 5, _nothing)
    assert (await Advancer(store, ledger).advance(row, 5)).phase == "deleted"
    assert left_of(store.conninfo, scope) == after


async def test_a_sweep_ends_everybodys_deletions_in_turn(store: EventStore, ledger: Path):
    """Who deletes many projects does not keep another's waiting behind them."""
    many = [await fenced(store, await make_project(store, "usr_many"), "usr_many") for _ in range(3)]
    one = await fenced(store, await make_project(store, "usr_one"), "usr_one")
    assert [row.id for row in in_turn([*many, one], lambda row: row.account_id)] == [
        many[0].id,
        one.id,
        many[1].id,
        many[2].id,
    ]
    assert await sweep(store, Advancer(store, ledger), longest=20) == 4
    assert await removal.open_deletions(store, 10) == []


async def test_two_who_advance_one_deletion_do_no_harm(store: EventStore, ledger: Path, sql: Sql):
    scope = await make_project(store, "usr_owner")
    fill(sql, scope, rows=3)
    row = await fenced(store, scope)

    async def advance() -> None:
        latest: DeletionRow | None = row
        while latest is not None and latest.phase != "deleted":
            latest = await Advancer(store, ledger).advance(latest, 0.05)

    await asyncio.gather(*(advance() for _ in range(4)))
    topics = sql.execute("select topic from events where project_id = %s order by revision", (row.id,)).fetchall()
    assert [topic for (topic,) in topics] == [
        "deletion.fenced.v1",
        "deletion.purging_began.v1",
        "deletion.completed.v1",
    ]
    assert left_of(store.conninfo, scope).keys() <= {"usage_days", "usage_deploys"}
