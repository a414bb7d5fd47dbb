"""The purge of a person: in steps, past stops and late writers, after a restore, and by a model (G-197)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from projections.deletion import ERASURES, ErasureRow
from schemas.cases.log import LogEvent
from service.auth.authority import carry_out
from service.billing.plans import Retention
from service.deletion import people as commands
from service.deletion.advancing import to_erase_again
from service.deletion.ledger import erasures, people_erased, remember
from service.deletion.people import Eraser, people_to_erase_again, person_hash, sweep_erasures
from service.eventstore.store import EventStore
from service.history.rebuild import rebuild
from service.ids import new_id
from service.ingest.intake import Intake
from service.ingest.items import Item, Sender, take_analytics, take_log
from service.ingest.kept import purge
from service.registry import registry
from service.settings import load_settings
from service.sql import load_query
from statemachines.deletion.erasure import AskForErasure
from tests.service.deletion.test_restoring import copy
from tests.service.ingest.test_person_histories import item
from tests.support import few_or_many
from tests.support.accounts_store import make_project
from tests.support.cluster import TestCluster
from tests.support.ending import holding, problems
from tests.support.ingest import Sql, eventually, miscounted, running, send
from tests.support.server import ServerHandle

CANARY = "canary-41d7"
KEYS = [b"k" * 32]
NAMES = [f"{CANARY}-{letter}" for letter in "abc"]


def of(project: str) -> Sender:
    """Who sends to a project that accounts have made."""
    return Sender(project, project_hash[project], "req_1", None, "f")


project_hash: dict[str, str] = {}


async def shop(store: EventStore, sql: Sql) -> str:
    """A project whose DSN is known."""
    project = await make_project(store, "usr_owner")
    [[project_hash[project]]] = sql.execute("select dsn_hash from projects where id = %s", (project,)).fetchall()
    return project


def error(project: str, name: str, message: str = "boom", level: str = "error") -> Item:
    raw = msgspec.json.encode({"message": message, "level": level, "user": {"id": name, "email": f"{name}@x.y"}})
    return take_log(of(project), msgspec.json.decode(raw, type=LogEvent), raw)


def tracked(project: str, *step: Any) -> Item:
    made = item(project, *step)
    made.sender = of(project)
    return take_analytics(of(project), made.body, made.raw)  # type: ignore[arg-type] # it is not prepared


async def fenced(store: EventStore, project: str, name: str, key: str = "k") -> ErasureRow:
    person = await commands.person_of(store, project, name)
    wish = AskForErasure(new_id("del"), person_hash(KEYS[0], project, person), key)
    intent = commands.fence_person(project, name, person, wish)
    row = await carry_out(store, "test", "erase", intent, project=project)
    with psycopg.connect(store.conninfo, autocommit=True) as sql:  # The purge waits for the end of the second.
        sql.execute("select advance_service_clock(1)")
    return row


async def to_its_end(store: EventStore, ledger: Path, row: ErasureRow, seconds: float = 5) -> ErasureRow:
    eraser = Eraser(store, ledger, KEYS)
    for _ in range(400):
        if row.phase == "deleted":
            return row
        row = await eraser.advance(row, seconds)
    raise AssertionError("It does not end.")


async def leave_traces(intake: Intake, project: str) -> None:
    """Something of each kind under three names of one person, and of somebody else."""
    a, b, c = NAMES
    await send(intake, tracked(project, "page", a, None, {}, {}), tracked(project, "page", "bob", None, {}, {}))
    await send(intake, tracked(project, "$identify", b, a, {"x": 1}, {}))
    await send(intake, tracked(project, "$create_alias", b, c, {}, {"y": 1}), error(project, c, "one"))
    await send(intake, error(project, a), error(project, b), error(project, "bob"), error(project, b, level="info"))


async def test_an_erasure_that_is_stopped_after_every_step_goes_on(
    store: EventStore, ledger: Path, sql: Sql, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice is another process's: nothing but the database says how far it has come."""
    monkeypatch.setattr(commands, "BATCH", 1)
    monkeypatch.setattr(commands, "PAIRS", 1)
    project = await shop(store, sql)
    async with running(database_url) as intake:
        await leave_traces(intake, project)
    row, slices = await fenced(store, project, NAMES[0]), 0
    while row.phase != "deleted":
        row = await Eraser(store, ledger, KEYS).advance(row, 0)
        slices += 1
        assert slices < 400
    assert slices > 6
    assert (row.names, row.records) == (3, 7)
    assert holding(database_url, CANARY) == {}
    assert miscounted(sql) == {}
    assert problems(database_url) == []


async def test_nothing_goes_before_the_ledger_says_so(
    store: EventStore, tmp_path: Path, sql: Sql, database_url: str
) -> None:
    project = await shop(store, sql)
    async with running(database_url) as intake:
        await leave_traces(intake, project)
    row = await fenced(store, project, NAMES[0])
    before = holding(database_url, CANARY)
    nowhere = tmp_path / "a file" / "erasures.jsonl"
    nowhere.parent.write_text("in the way")
    eraser = Eraser(store, nowhere, KEYS)
    with pytest.raises(OSError, match="a file"):
        await eraser.advance(row, 5)
    assert (await eraser.move_on(row, 5)).phase == "fenced"
    assert holding(database_url, CANARY) == before


async def test_a_release_without_such_lines_erases_no_project_for_a_person(store: EventStore, tmp_path: Path) -> None:
    """What it reads of a line is no erasure of a scope."""
    ledger = tmp_path / "ledger"
    project = await make_project(store, "usr_owner")
    row = await to_its_end(store, ledger, await fenced(store, project, "nobody"))
    assert erasures(ledger) == []
    assert to_erase_again(store.conninfo, ledger) == []
    [known] = people_erased(ledger)
    assert (known.project_id, known.deletion_id, known.names) == (project, row.deletion_id, [row.person_hash])
    remember(ledger, known)
    assert len(people_erased(ledger)) == 1


async def test_who_comes_while_it_goes_on_is_somebody_new(
    store: EventStore, ledger: Path, sql: Sql, database_url: str
) -> None:
    """Between the fence and each step: records, errors of a case that the one before met, a link, properties."""
    project = await shop(store, sql)
    a, b, _ = NAMES
    async with running(database_url) as intake:
        await leave_traces(intake, project)
        row = await fenced(store, project, a)
        await send(intake, error(project, b), tracked(project, "$identify", b, "new-name", {"z": 1}, {}))
        row = await to_its_end(store, ledger, row)
        assert sql.execute("select name, person from person_names order by 1").fetchall() == [(b, b), ("new-name", b)]
        assert sql.execute("select id, properties from telemetry_people").fetchall() == [(b, {"z": 1})]
        users = "select user_id, error_count, user_email from case_users order by user_id"
        assert sql.execute(users).fetchall() == [("bob", 1, "bob@x.y"), (b, 1, None)]
        assert sql.execute(
            "select event_count, users_affected, erased_errors, erased_people from case_stats where title = 'boom'"
        ).fetchall() == [(4, 4, 2, 2)]
        assert sql.execute("select count(*) from log_events where user_id = %s", (b,)).fetchall() == [(1,)]
    assert miscounted(sql) == {}


async def test_a_purge_waits_for_the_end_of_the_second(
    store: EventStore, ledger: Path, sql: Sql, database_url: str
) -> None:
    """What is stored within the second of the fence goes, too: it is there, and counted, before anything goes."""
    project = await shop(store, sql)
    async with running(database_url) as intake:
        await send(intake, error(project, NAMES[0]), error(project, "bob"))
        row = await fenced(store, project, NAMES[0])
        sql.execute("update erasure_names set until = service_seconds() + 1000")
        assert (await to_purge(store, ledger, row)).phase == "purging"
        assert sql.execute("select count(*) from case_users").fetchall() == [(2,)]
        await send(intake, error(project, NAMES[0]))
        sql.execute("select advance_service_clock(1001)")
        assert (await to_its_end(store, ledger, row)).records == 2
    assert holding(database_url, CANARY) == {}
    assert miscounted(sql) == {}


@pytest.mark.parametrize("whole", [False, True], ids=["rows of a plan", "a whole day"])
async def test_retention_in_the_middle_of_a_purge_keeps_no_sample_of_the_person(
    store: EventStore, ledger: Path, sql: Sql, database_url: str, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    """It makes samples of the last errors that expire, also of the person's, and its rows are gone before the purge."""
    project = await shop(store, sql)
    async with running(database_url) as intake:
        await send(intake, error(project, "bob"))
        sql.execute("select advance_service_clock(1)")
        await send(intake, error(project, NAMES[0]))
        row = await fenced(store, project, NAMES[0])
        tables = commands.partitions_of

        async def after_retention(connection: Any, telemetry: str) -> list[str]:
            sql.execute("select advance_service_clock(%s)", (31 * 86400,))
            days = {project: 30 if whole else 29}
            async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
                await purge(other, Retention(days, {project: "usr_owner"}, 30 if whole else 400))
            monkeypatch.setattr(commands, "partitions_of", tables)
            return await tables(connection, telemetry)

        monkeypatch.setattr(commands, "partitions_of", after_retention)
        await to_its_end(store, ledger, row)
    assert sql.execute("select count(*) from log_events").fetchall() == [(0,)]
    [[kept]] = sql.execute("select sample from case_stats").fetchall()
    assert (kept["user_id"], kept["message"]) == (None, "")
    assert holding(database_url, CANARY) == {}
    assert miscounted(sql) == {}


async def test_a_sample_of_an_error_under_erasure_waits_for_its_end(store: EventStore, sql: Sql) -> None:
    """Retention passes over a row that a purge has removed meanwhile, and takes the one before it."""
    project = await shop(store, sql)
    async with running(store.conninfo) as intake:
        await send(intake, error(project, "bob"))
        sql.execute("select advance_service_clock(1)")
        await send(intake, error(project, NAMES[0]))
    [table] = sql.execute("select tableoid::regclass::text from log_events").fetchall()[0]
    query = load_query("ingest", "keep_samples").filled(table=table)
    waiting = "select count(*) from pg_stat_activity where application_name = 'sampling' and wait_event_type = 'Lock'"

    def sample() -> None:
        with psycopg.connect(store.conninfo, autocommit=True, application_name="sampling") as other:
            place = {"after_project": "", "after_case": "", "most": 500, "ends": 1 << 40}
            other.execute(query, place)

    with psycopg.connect(store.conninfo) as purge_of_one:
        purge_of_one.execute("delete from log_events where user_id = %s", (NAMES[0],))
        taking = asyncio.get_running_loop().run_in_executor(None, sample)
        await eventually(lambda: taking.done() or sql.execute(waiting).fetchall() == [(1,)])
        purge_of_one.commit()
        await taking
    [[kept]] = sql.execute("select sample from case_stats").fetchall()
    assert kept["user_id"] == "bob"


async def to_purge(store: EventStore, ledger: Path, row: ErasureRow) -> ErasureRow:
    """Move an erasure on as far as it goes for now."""
    return await Eraser(store, ledger, KEYS).advance(row, 0.5)


async def test_no_purge_outlives_its_round(store: EventStore, ledger: Path, sql: Sql, database_url: str) -> None:
    """One that was read as under way, and has ended since, removes nothing of who came after."""
    project = await shop(store, sql)
    async with running(database_url) as intake:
        row = await fenced(store, project, NAMES[0])
        row = await Eraser(store, ledger, KEYS).advance(row, 0)
        assert row.phase == "purging"
        await to_its_end(store, ledger, row)
        await send(intake, error(project, NAMES[0]))

    async def end() -> None:
        raise AssertionError("It has ended.")

    assert not await commands.purge_person(store.conninfo, row, time.monotonic() + 5, end)
    assert sql.execute("select count(*) from log_events").fetchall() == [(1,)]


async def test_a_sweep_ends_every_erasure_but_of_projects_that_go_themselves(
    store: EventStore, ledger: Path, sql: Sql
) -> None:
    mine, other, gone = [await make_project(store, "usr_owner") for _ in range(3)]
    for project in (mine, mine, other, gone):
        await fenced(store, project, new_id("usr"))
    sql.execute("update projects set status = 'fenced' where id = %s", (gone,))
    assert await sweep_erasures(store, Eraser(store, ledger, KEYS), 20) == 3
    assert sql.execute("select distinct project_id from erasures where phase <> 'deleted'").fetchall() == [(gone,)]


async def test_a_rebuild_is_what_was_there(store: EventStore, ledger: Path, sql: Sql) -> None:
    project = await make_project(store, "usr_owner")
    for number in range(3):
        await to_its_end(store, ledger, await fenced(store, project, "ann", f"k{number}"))
    await fenced(store, project, "bob")
    done = rebuild(store.conninfo, ERASURES)
    assert (done.rows, done.old_digest) == (2, done.new_digest)
    assert problems(store.conninfo) == []


@pytest.fixture
def backup(cluster: TestCluster, tmp_path: Path) -> Iterator[ServerHandle]:
    """A server that would serve from a copy of the database, with a ledger of its own; not started."""
    with cluster.database("template0") as url:
        handle = ServerHandle(tmp_path, database_url=url, env={"SERVICE_ERASURE_LEDGER": str(tmp_path / "ledger")})
        yield handle
        handle.stop()


async def test_a_backup_does_not_bring_a_person_back(
    database_url: str, backup: ServerHandle, cluster: TestCluster, sql: Sql
) -> None:
    """Backup, erase, restore, start: also names that were joined after the backup; nobody who came afterwards."""
    ledger = Path(backup.env["SERVICE_ERASURE_LEDGER"])
    store = EventStore(database_url, registry())
    await store.start()
    project = await shop(store, sql)
    other = await shop(store, sql)
    settings = load_settings({name: text for name, text in backup.env.items() if name.startswith("SERVICE_")})
    a, b, c = NAMES
    async with running(database_url) as intake:
        await send(intake, tracked(project, "page", a, None, {}, {}), error(project, b), error(project, "kept"))
        await send(intake, tracked(other, "page", "kept-there", None, {}, {}))
        assert backup.database_url is not None
        await store.stop()
    sql.close()
    copy(cluster, database_url, backup.database_url)
    store = EventStore(database_url, registry())
    await store.start()
    eraser = Eraser.of(store, settings)
    async with running(database_url) as intake:
        await send(intake, tracked(project, "$identify", b, a, {}, {}), tracked(project, "page", c, None, {}, {}))
    person = await commands.person_of(store, project, a)
    wish = AskForErasure(new_id("del"), eraser.hash_of(project, person), "k")
    intent = commands.fence_person(project, a, person, wish)
    row = await carry_out(store, "test", "erase", intent, project=project)
    while row.phase != "deleted":
        row = await eraser.advance(row, 5)
    await store.stop()
    assert people_to_erase_again(database_url, ledger) == []
    assert holding(backup.database_url, a, b).keys() == {a, b}
    assert [one.deletion_id for one in people_to_erase_again(backup.database_url, ledger)] == [wish.deletion_id]
    backup.start()
    assert holding(backup.database_url, a, b) == {}
    assert holding(backup.database_url, "kept", "kept-there").keys() == {"kept", "kept-there"}
    assert "carried out again before the service is ready" in backup.log()
    assert people_to_erase_again(backup.database_url, ledger) == []
    assert problems(backup.database_url) == []
    with psycopg.connect(backup.database_url, autocommit=True) as restored:
        assert miscounted(restored) == {}
        [[records]] = restored.execute("select records from erasures").fetchall()
        assert records == 2


async def test_a_restore_finds_people_who_only_wrote_something(store: EventStore, sql: Sql) -> None:
    """By their id, by their address, and by the error that they wrote about: one after the other, in order."""
    project = await shop(store, sql)
    for number, column in enumerate(("user_id", "email", "error_user", "user_id")):
        columns = f"project_id, received_at, id, sent_key, source, message, public, {column}"
        values = (project, str(number), str(number), f"writer-{number}")
        insert = f"insert into feedback_reports ({columns}) values (%s, 1, %s, %s, 'feedback', '', false, %s)"
        sql.execute(insert.encode(), values)
    query, found, after = load_query("deletion", "names_of_project"), list[str](), ""
    while rows := await store.fetch(query, project_id=project, after=after, most=1):
        [[after]] = rows
        found.append(after)
    assert found == [f"writer-{number}" for number in range(4)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("event"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("error"), st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("join"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("fence"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.just(0)),
    ),
    min_size=4,
    max_size=18,
)


@few_or_many(
    8,
    25,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(steps=STEPS)
async def test_any_history_leaves_what_a_model_leaves(
    store: EventStore, ledger: Path, sql: Sql, database_url: str, steps: list[tuple[str, int, int]]
) -> None:
    """Records with their names, in seconds of their own; an erasure takes those of its names until its fence."""
    project = await shop(store, sql)
    names = ["n0", "n1", "n2", "n3"]
    people = {name: {name} for name in names}
    records: list[tuple[str, int]] = []
    gone: list[tuple[set[str], int]] = []
    eraser = Eraser(store, ledger, KEYS)
    under_way: set[str] = set()
    async with running(database_url) as intake:
        for number, (what, one, two) in enumerate(steps):
            sql.execute("select advance_service_clock(1)")
            [[now]] = sql.execute("select service_seconds()").fetchall()
            if what == "event":
                [answer] = await send(intake, tracked(project, "page", names[one], None, {}, {}))
                records.append((names[one], answer["received_at"]))
            elif what == "error":
                [answer] = await send(intake, error(project, names[one], f"kind {'abc'[two]}"))
                records.append((names[one], answer["received_at"]))
            elif what == "join":
                step = ("$merge_dangerously", names[one], names[two], {}, {})
                [answer] = await send(intake, tracked(project, *step))
                records.append((names[one], answer["received_at"]))
                joined = people[names[one]] | people[names[two]]
                people.update(dict.fromkeys(joined, joined))
            elif what == "fence":
                person = await commands.person_of(store, project, names[one])
                if person in under_way:
                    continue
                row = await fenced(store, project, names[one], f"k{number}")
                under_way.add(person)
                assert (row.names, row.fenced_at >= now) == (len(people[names[one]]), True)
                gone.append((people[names[one]], row.fenced_at))
                people.update({name: {name} for name in people[names[one]]})
                # Nobody is asked of, or joined, before the names are somebody new's.
                await eraser.advance(row, 0)
                await to_its_end(store, ledger, row)
                under_way.discard(person)
            else:
                await sweep_erasures(store, eraser, 5)
        left = sorted(
            (name, at) for name, at in records if not any(name in names and at <= until for names, until in gone)
        )
        found = sql.execute(
            "select distinct_id, received_at from analytics_events where project_id = %s union all "
            "select user_id, received_at from log_events where project_id = %s",
            (project, project),
        ).fetchall()
        assert sorted(found) == left
        joined = sql.execute("select name, person from person_names where project_id = %s", (project,)).fetchall()
        sets = {frozenset(name for name, of_whom in joined if of_whom == person) for _, person in joined}
        assert sets == {frozenset(some) for some in people.values() if len(some) > 1}
    assert miscounted(sql) == {}
