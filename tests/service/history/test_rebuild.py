"""Read models are what their history folds to: compared, rebuilt while the service writes, resumed after a kill."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.eventstore.connect.connection import connect
from service.eventstore.declare.commands import Answer, Unit
from service.eventstore.log.sequencer import Sequencer, sequence_all
from service.eventstore.store import EventStore
from service.history import folding as fold_digest_module
from service.history import rebuild as rebuild_module
from service.history.audit import Difference, check_projection
from service.history.folding import RowDigest, fold_digest, fold_history, source_of, uncollected
from service.history.rebuild import RebuildRunning, rebuild, receipt_command
from service.registry import registry
from statemachines import audit as rebuilds
from statemachines.audit import ProjectionRebuilt
from statemachines.kernel.machine import Recorded
from tests.service.history.rebuilding import rebuild_until_killed
from tests.support.handwritten import begin_purging, erase
from tests.support.rounds import Bench, body, count, holding
from tests.support.toy import (
    LIVE_TOYS,
    PROJECTIONS,
    TOYS,
    FactRow,
    LiveToyRow,
    ToyClosed,
    ToyRow,
    command,
    simple_bump,
    toy_stream,
)

Sql = psycopg.Connection[Any]


def close(number: int | str) -> Any:
    stream = toy_stream(number)

    def decide(unit: Unit) -> Answer:
        unit.append(stream, [ToyClosed()])
        return Answer(200, None)

    return command(decide, stream)


def fill(bench: Bench, toys: int = 40) -> None:
    """Some toys, bumped differently, every fifth one closed."""
    for n in range(toys):
        bench.run(*(simple_bump(n, by=m, op=f"{n}.{m}") for m in range(n % 7 + 1)))
    for n in range(0, toys, 5):
        bench.run(close(n))


def rows(sql: Sql, table: str = "toys") -> list[tuple[Any, ...]]:
    return sql.execute(f"select * from {table} order by project_id, id".encode()).fetchall()


def differences(sql: Sql) -> list[Difference]:
    return [difference for projection in PROJECTIONS for difference in check_projection(sql, projection)]


def shape(sql: Sql, table: str) -> list[tuple[Any, ...]]:
    """Columns, constraints and indexes of a table, by name."""
    queries = (
        "select column_name, data_type, is_nullable from information_schema.columns where table_name = %s",
        "select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = to_regclass(%s) order by 1",
        "select indexname, indexdef from pg_indexes where tablename = %s order by 1",
    )
    return [row for query in queries for row in sql.execute(query.encode(), (table,)).fetchall()]


# ---- comparing ----------------------------------------------------------------------------------------------------


def test_what_the_loop_wrote_is_what_history_folds_to(bench: Bench, sql: Sql):
    """Every column, times and actors too; and rows that a fold has removed are not missed."""
    fill(bench)
    assert differences(sql) == []
    assert (count(sql, "toys"), count(sql, "live_toys")) == (40, 32)


def test_times_are_the_same_in_every_half_of_a_second(bench: Bench, sql: Sql):
    """Folded inline or again, a time is cut to its second, not rounded: no row differs by when it was written."""
    for n in range(12):
        bench.run(simple_bump(n))
        bench.connection.execute("select pg_sleep(0.09)")
    halves = {round(f) for (f,) in sql.execute("select extract(epoch from recorded_at) % 1 from events")}
    assert halves == {0, 1}
    assert differences(sql) == []


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("delete from toys where id = 'toy_3'", [Difference("missing", "proj_a", "toy_3")]),
        ("delete from toys where id = 'toy_0'", [Difference("missing", "proj_a", "toy_0")]),
        ("delete from toys where id = 'toy_9'", [Difference("missing", "proj_a", "toy_9")]),
        ("update toys set total = total + 1 where id = 'toy_4'", [Difference("different", "proj_a", "toy_4")]),
        ("update toys set revision = revision - 1 where id = 'toy_4'", [Difference("different", "proj_a", "toy_4")]),
        ("update toys set note = '' where id = 'toy_4'", [Difference("different", "proj_a", "toy_4")]),
        ("update toys set ops = '[]' where id = 'toy_4'", [Difference("different", "proj_a", "toy_4")]),
        ("update toys set seen_at = seen_at + 1 where id = 'toy_4'", [Difference("different", "proj_a", "toy_4")]),
        ("update toys set id = 'toy_0a' where id = 'toy_3'",
         [Difference("extra", "proj_a", "toy_0a"), Difference("missing", "proj_a", "toy_3")]),
        ("update toys set project_id = 'proj_0' where id = 'toy_3'",
         [Difference("extra", "proj_0", "toy_3"), Difference("missing", "proj_a", "toy_3")]),
        ("update toys set id = 'toy_z' where id = 'toy_9'",
         [Difference("missing", "proj_a", "toy_9"), Difference("extra", "proj_a", "toy_z")]),
        ("insert into live_toys values ('proj_a', 'toy_5', 1, 0)", [Difference("different", "proj_a", "toy_5")]),
        ("insert into live_toys values ('proj_a', 'toy_none', 1, 0)", [Difference("extra", "proj_a", "toy_none")]),
        ("truncate live_toys", [Difference("missing", "proj_a", f"toy_{n}") for n in (1, 2, 3, 4, 6, 7, 8, 9)]),
    ],
)  # fmt: skip
def test_every_kind_of_difference_is_found_and_mended(
    bench: Bench, toys_url: str, sql: Sql, damage: str, found: list[Difference]
):
    """Missing, extra and different rows are each named; a rebuild leaves none of them."""
    fill(bench, 10)
    sql.execute(damage.encode())
    assert differences(sql) == found
    for projection in PROJECTIONS:
        rebuild(toys_url, projection)
    assert differences(sql) == []


async def test_comparing_while_others_write_finds_nothing_wrong(store: EventStore, toys_url: str, sql: Sql):
    """One snapshot shows rows and events of the same moment."""
    stopped = asyncio.Event()

    async def write(worker: int) -> None:
        while not stopped.is_set():
            await store.execute(simple_bump(worker))

    writers = [asyncio.create_task(write(worker)) for worker in range(8)]
    for _ in range(10):
        await asyncio.sleep(0.02)
        assert await asyncio.to_thread(differences, sql) == []
    stopped.set()
    await asyncio.gather(*writers)
    assert count(sql, "events") > 100


# ---- rebuilding ---------------------------------------------------------------------------------------------------


def test_a_rebuild_of_what_is_right_changes_nothing(bench: Bench, toys_url: str, sql: Sql):
    """Same rows, same shape, same names of constraints and indexes; and again, as often as one likes."""
    fill(bench)
    sequence_all(bench.connection)
    before = {p.name: (rows(sql, p.name), shape(sql, p.name)) for p in PROJECTIONS}
    for _ in range(2):
        for projection in PROJECTIONS:
            receipt = rebuild(toys_url, projection)
            assert receipt.old_digest == receipt.new_digest
            assert receipt.rows == len(before[projection.name][0])
            assert (
                receipt.events
                == sql.execute(
                    "select count(*) from events where kind = any(%s)", (list(projection.kinds),)
                ).fetchone()[0]
            )
            assert (rows(sql, projection.name), shape(sql, projection.name)) == before[projection.name]
    left = sql.execute("select tablename from pg_tables where tablename ~ '_(old|rebuild)$'").fetchall()
    assert left == []
    assert count(sql, "rebuilds") == 0


def test_the_digests_tell_whether_something_was_mended(bench: Bench, toys_url: str, sql: Sql):
    fill(bench)
    right = rebuild(toys_url, TOYS).new_digest
    sql.execute("update toys set total = 0 where id = 'toy_3'")
    receipt = rebuild(toys_url, TOYS)
    assert receipt.old_digest != right
    assert receipt.new_digest == right
    assert receipt.finished_at >= receipt.started_at > 1_700_000_000


def test_what_has_no_position_yet_is_folded_too(bench: Bench, toys_url: str, sql: Sql):
    """Without a sequencer nothing has a position, and still the new table shows everything that is committed."""
    fill(bench)
    assert rebuild(toys_url, TOYS).position == 0
    bench.run(simple_bump("more"))
    assert differences(sql) == []


class Crowd(NamedTuple):
    """Writers, how often each table is rebuilt meanwhile, and the events that the last rebuild meets at least."""

    writers: int
    rebuilds: int
    events: int


@pytest.mark.parametrize("crowd", [Crowd(4, 1, 20), pytest.param(Crowd(12, 3, 200), marks=pytest.mark.release)])
async def test_a_rebuild_under_writers_loses_nothing(
    toys_url: str, store: EventStore, peer_store: EventStore, sql: Sql, sequencer: Sequencer, crowd: Crowd
):
    """Two processes write while each table is rebuilt, more than once: all are answered, no row differs after."""
    stopped = asyncio.Event()
    totals: dict[int, int] = {}

    async def write(worker: int) -> None:
        where = (store, peer_store)[worker % 2]
        while not stopped.is_set():
            totals[worker] = body(await where.execute(simple_bump(worker)))["total"]
            fresh = f"{worker}_{random.randint(0, 10**9)}"
            await where.execute(simple_bump(fresh))
            if random.random() < 0.2:
                await where.execute(close(fresh))

    writers = [asyncio.create_task(write(worker)) for worker in range(crowd.writers)]
    receipts: list[ProjectionRebuilt] = []
    for _ in range(crowd.rebuilds):
        for projection in (TOYS, LIVE_TOYS):
            await asyncio.sleep(0.1)
            receipts.append(await asyncio.to_thread(rebuild, toys_url, projection))
    stopped.set()
    await asyncio.gather(*writers)
    assert differences(sql) == []
    assert receipts[-1].events > crowd.events
    stored = dict(sql.execute("select id, total from toys").fetchall())
    assert {worker: stored[f"toy_{worker}"] for worker in totals} == totals


def test_a_receipt_counts_what_others_wrote_meanwhile(
    bench: Bench, toys_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """Rows and events are those of the moment of the swap, whether they were folded, caught up with or found by it."""
    monkeypatch.setattr(rebuild_module, "WRITE_EVERY", 2)
    monkeypatch.setattr(rebuild_module, "NEARLY_DONE", 1)
    for number in range(6):
        bench.run(simple_bump(number))
    told: list[tuple[int, int]] = []

    def meanwhile(done: int, total: int) -> None:
        if len(told) < 5:
            bench.run(simple_bump(f"0_{len(told)}"), simple_bump(5))  # one before the place that was reached, one after
            sequence_all(sql)
        elif len(told) == 5:
            bench.run(simple_bump("not_numbered"))
        told.append((done, total))

    receipt = rebuild(toys_url, TOYS, meanwhile)
    assert len(told) > 5
    assert all(done <= total for done, total in told)
    assert (receipt.rows, receipt.events) == (count(sql, "toys"), count(sql, "events"))
    assert differences(sql) == []


@pytest.mark.parametrize("last_look", ["before the damage", "after the damage"])
async def test_what_was_mended_stays_mended(toys_url: str, store: EventStore, sql: Sql, last_look: str):
    """A process that has a wrong row in memory forgets it with the swap, instead of folding on from it.

    That is the case a rebuild exists for: a fold was changed, and the processes that run it have loaded the rows
    that the old one made.
    """
    await store.execute(simple_bump(1, by=5))
    store.loop._cache.clear()
    if last_look == "before the damage":
        await store.execute(simple_bump(1, by=5))
    sql.execute("update toys set total = 1000, label = 'wrong'")
    if last_look == "after the damage":
        await store.execute(simple_bump(1, by=5))
    receipt = await asyncio.to_thread(rebuild, toys_url, TOYS)
    assert receipt.old_digest != receipt.new_digest
    outcome = await store.execute(simple_bump(1, by=5))
    assert body(outcome)["total"] == 15
    assert differences(sql) == []


def test_a_killed_rebuild_is_taken_up_where_it_was(bench: Bench, toys_url: str, sql: Sql):
    """Killed (-9) twice; streams on both sides of its place grow meanwhile, new ones appear on both sides."""
    fill(bench)
    sequence_all(bench.connection)
    rebuild_until_killed(toys_url, "toys", rows_a_page=7, pages=2)
    [(place, copied)] = sql.execute("select stream_id, rows from rebuilds").fetchall()
    assert copied == 14
    assert differences(sql) == []
    bench.run(simple_bump(1), simple_bump("0new"), simple_bump("9999"), simple_bump(9), simple_bump(11))
    rebuild_until_killed(toys_url, "toys", rows_a_page=7, pages=3)
    [(later, copied)] = sql.execute("select stream_id, rows from rebuilds").fetchall()
    assert (copied, later > place) == (35, True)
    bench.run(simple_bump(1), close(2), simple_bump(39))
    sequence_all(bench.connection)
    progressed: list[tuple[int, int]] = []
    receipt = rebuild(toys_url, TOYS, lambda done, total: progressed.append((done, total)))
    assert receipt.rows == count(sql, "toys") == 42
    assert receipt.old_digest == receipt.new_digest
    assert differences(sql) == []
    assert progressed[-1][0] <= progressed[-1][1] == count(sql, "events")


def doubled(row: ToyRow | None, recorded: Recorded) -> ToyRow | None:
    """Another version of the fold: totals count twice."""
    last = None if row is None else msgspec.structs.replace(row, total=row.total // 2)
    folded = TOYS.fold(last, recorded)
    return None if folded is None else msgspec.structs.replace(folded, total=folded.total * 2)


def test_a_killed_rebuild_is_not_taken_up_by_another_fold(bench: Bench, toys_url: str, sql: Sql):
    """It begins anew, so that no row of the first fold is among those of the second one; in both directions."""
    fill(bench)
    sequence_all(bench.connection)
    rebuild_until_killed(toys_url, "toys", rows_a_page=7, pages=2)
    changed = replace(TOYS, fold=doubled)
    receipt = rebuild(toys_url, changed)
    assert list(check_projection(sql, changed)) == []
    mended = rows(sql)
    assert (receipt.rows, receipt.events) == (40, count(sql, "events"))
    assert receipt.old_digest != receipt.new_digest
    again = rebuild(toys_url, changed)
    assert (again.new_digest, rows(sql)) == (receipt.new_digest, mended), "as if nothing had been begun before"
    rebuild_until_killed(toys_url, "toys", rows_a_page=7, pages=2)
    assert rebuild(toys_url, changed).new_digest == again.new_digest
    rebuild(toys_url, TOYS)
    assert differences(sql) == []


def test_a_killed_rebuild_is_not_taken_up_for_another_shape_of_the_table(bench: Bench, toys_url: str, sql: Sql):
    """Another type of a column, a constraint or an index that came meanwhile is in the new table too."""
    for change in (
        "alter table toys alter column label type varchar(200)",
        "alter table toys add constraint grown check (total >= 0)",
        "create index toys_by_total on toys (total)",
    ):
        fill(bench)
        sequence_all(bench.connection)
        rebuild_until_killed(toys_url, "toys", rows_a_page=7, pages=2)
        sql.execute(change.encode())
        before = shape(sql, "toys")
        rebuild(toys_url, TOYS)
        assert shape(sql, "toys") == before
        assert count(sql, "rebuilds") == 0


def test_a_rebuild_from_before_there_were_digests_begins_anew(bench: Bench, toys_url: str, sql: Sql):
    fill(bench)
    sequence_all(bench.connection)
    rebuild_until_killed(toys_url, "toys", rows_a_page=7, pages=2)
    sql.execute("update rebuilds set fingerprint = ''")
    sql.execute("update toys_rebuild set total = -1")
    rebuild(toys_url, TOYS)
    assert differences(sql) == []


def test_any_change_of_the_code_that_folds_is_another_digest(sql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Contents and names of files count, where they lie does not; nor does it matter who asks, or when."""
    first = fold_digest(sql, TOYS)
    assert fold_digest(sql, TOYS) == first
    assert fold_digest(sql, LIVE_TOYS) != first
    assert fold_digest(sql, replace(TOYS, lasts=lambda *_: True)) != first
    monkeypatch.setattr(fold_digest_module, "_source_of_rooms", lambda: "other rooms")
    assert fold_digest(sql, TOYS) != first

    def made(where: str, **files: str) -> str:
        folder = tmp_path / where / "room"
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        return source_of(folder.rglob("*.py"))

    one = made("a", fold="x = 1", help="y = 2")
    assert made("b", fold="x = 1", help="y = 2") == one
    others = [{"fold": "x = 2", "help": "y = 2"}, {"fold": "x = 1"}, {"fold": "x = 1", "helper": "y = 2"}]
    others.append({"fold": "x = 1", "help": "y = 2", "more": ""})
    assert one not in [made(f"c{number}", **files) for number, files in enumerate(others)]


def test_a_rebuild_that_died_after_its_swap_leaves_nothing_for_long(
    bench: Bench, toys_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """The retired table stays behind; the next rebuild removes it and works as ever."""

    def die(_: Any) -> str:
        raise KeyboardInterrupt

    fill(bench, 5)
    with monkeypatch.context() as patched:
        patched.setattr(rebuild_module._Rebuild, "retire", die)
        with pytest.raises(KeyboardInterrupt):
            rebuild(toys_url, TOYS)
    assert sql.execute("select to_regclass('toys_old') is not null").fetchone() == (True,)
    assert differences(sql) == []
    rebuild(toys_url, TOYS)
    assert sql.execute("select to_regclass('toys_old')").fetchone() == (None,)
    assert differences(sql) == []


def test_one_rebuild_of_a_table_at_a_time(bench: Bench, toys_url: str, sql: Sql):
    fill(bench, 3)

    def second(*_: int) -> None:
        with pytest.raises(RebuildRunning):
            rebuild(toys_url, TOYS)
        assert rebuild(toys_url, LIVE_TOYS).rows == 2

    rebuild(toys_url, TOYS, second)
    assert differences(sql) == []


def test_a_table_in_use_is_waited_for(bench: Bench, toys_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch):
    """A report that reads for long is not thrown out; the rebuild steps back, and can be taken up afterwards."""
    fill(bench, 3)
    monkeypatch.setattr(rebuild_module, "SWAP_TRIES", 2)
    with holding(toys_url, ("select * from toys", ())) as report:
        with pytest.raises(RebuildRunning, match="in use"):
            rebuild(toys_url, TOYS)
        assert report.execute("select count(*) from toys").fetchone() == (3,)
        bench.run(simple_bump(1))
    receipt = rebuild(toys_url, TOYS)
    assert receipt.old_digest == receipt.new_digest
    assert receipt.rows == 3
    assert differences(sql) == []


async def test_a_rebuild_leaves_a_receipt_in_the_log(database_url: str):
    """One event in the read model's own stream, with the digests of both tables."""
    store = EventStore(database_url, registry())
    await store.start()
    receipt = ProjectionRebuilt("projects", 7, 100, 5, "0" * 64, "1" * 64, 1_763_731_200, 1_763_731_201)
    for _ in range(2):
        outcome = await store.execute(receipt_command(receipt))
        assert outcome.status == 204
    stored = await store.fetch("select topic, payload, project_id from events order by seq")
    assert [topic for topic, _, _ in stored] == [rebuilds.ProjectionRebuilt.TOPIC] * 2
    assert stored[0][1] == msgspec.structs.asdict(receipt)
    assert stored[0][2] == rebuilds.SCOPE
    await store.stop()


# ---- folding ------------------------------------------------------------------------------------------------------


def test_the_collector_rests_while_history_is_folded(bench: Bench, toys_url: str):
    """It walked over the whole process for a third of a rebuild's time, and found nothing."""
    fill(bench, 3)
    found: list[bool] = []
    rebuild(toys_url, TOYS, lambda *_: found.append(gc.isenabled()))
    assert found == [False]
    assert gc.isenabled()
    with pytest.raises(RuntimeError), uncollected():
        raise RuntimeError
    assert gc.isenabled()


def test_folding_in_pages_is_folding(bench: Bench, sql: Sql, monkeypatch: pytest.MonkeyPatch):
    """However the pages fall, in the middle of a stream too."""
    fill(bench, 12)
    whole = list(fold_history(sql, TOYS))
    assert [folded.name[1] for folded in whole] == sorted(f"toy_{n}" for n in range(12))
    for page in (1, 2, 3, 5):
        monkeypatch.setattr("service.history.folding.PAGE", page)
        assert list(fold_history(sql, TOYS)) == whole
        assert list(fold_history(sql, TOYS, ("proj_a", "toy_3"))) == whole[whole.index(_named(whole, "toy_3")) + 1 :]


def _named(folded: list[Any], stream: str) -> Any:
    return next(one for one in folded if one.name[1] == stream)


def test_an_erased_history_folds_to_nothing(bench: Bench, toys_url: str, sql: Sql):
    """A deleted project leaves no row behind, whenever its read models are built again."""
    fill(bench, 3)
    begin_purging(sql, "proj_a")
    assert erase(sql, "proj_a") > 0
    rebuild(toys_url, TOYS)
    assert count(sql, "toys") == 0
    assert list(check_projection(sql, TOYS)) == []


numbers = st.lists(st.integers(0, 10**6), max_size=12)


def _fact(n: int) -> FactRow:
    return FactRow(project_id="p", id=str(n), count=n)


@given(numbers, st.randoms(use_true_random=False))
def test_a_digest_does_not_depend_on_the_order(values: list[int], dice: random.Random):
    one, other = RowDigest(), RowDigest()
    for value in values:
        one.add(_fact(value))
    dice.shuffle(values)
    for value in values:
        other.add(_fact(value))
    assert one.hex == other.hex
    for value in values[: len(values) // 2]:
        one.remove(_fact(value))
    rest = RowDigest()
    for value in values[len(values) // 2 :]:
        rest.add(_fact(value))
    assert one.hex == rest.hex
    assert len(one.hex) == 64


@pytest.mark.parametrize(
    "change",
    [
        lambda row: ToyRow(**{**_fields(row), "total": 2}),
        lambda row: ToyRow(**{**_fields(row), "note": None}),
        lambda row: ToyRow(**{**_fields(row), "ops": ["a", "b"]}),
        lambda row: ToyRow(**{**_fields(row), "closed": True}),
        lambda row: LiveToyRow(project_id="p", id="t", revision=1, total=1),
    ],
)
def test_a_digest_depends_on_every_value(change: Callable[[ToyRow], Any]):
    row = ToyRow(
        project_id="p",
        id="t",
        revision=1,
        label="l",
        total=1,
        closed=False,
        note="",
        ops=["b", "a"],
        seen_at=1,
        seen_by="x",
    )
    one, other = RowDigest(), RowDigest()
    one.add(row)
    other.add(change(row))
    assert one.hex != other.hex


def _fields(row: ToyRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


def test_a_connection_for_reading_is_enough_to_compare(bench: Bench, toys_url: str):
    """Comparing writes nothing: it runs in read-only transactions."""
    fill(bench, 3)
    connection = connect(toys_url, application="test")
    connection.execute("set default_transaction_read_only = on")
    assert differences(connection) == []
    connection.close()
