"""States that are kept: in memory between batches, and as snapshots of long streams."""

from __future__ import annotations

from typing import Any

import msgspec
import psycopg
import pytest

from service.eventstore.connect.pipeline import columns
from service.eventstore.declare.commands import Answer, Unit
from service.eventstore.read import statements
from service.eventstore.state.cache import (
    ENTRY,
    GUESSED,
    LENT_BYTES,
    KnownStream,
    StateCache,
    StreamMark,
    Weight,
    weigh,
)
from service.eventstore.state.unit import Registry
from service.eventstore.write.writing import SNAPSHOT_BYTES, SNAPSHOT_EVENTS
from statemachines.kernel.machine import replay
from statemachines.kernel.topics import decode_event
from tests.support import toy
from tests.support.rounds import Bench, Spy, entry_of
from tests.support.toy import LIVE_TOYS, TOY, TOYS, Stream, Toy, command, simple_bump, toy_stream

Sql = psycopg.Connection[Any]
NAME = ("proj_a", "toy_1")


def replayed(sql: Sql, stream: str = "toy_1") -> Toy:
    """Fold the whole history of a toy, as an auditor would."""
    rows = sql.execute(
        "select topic, payload::text from events where stream_id = %s order by revision", (stream,)
    ).fetchall()
    return replay(TOY, [decode_event(topic, payload) for topic, payload in rows])


def state_seen(bench: Bench, stream: Stream) -> Any:
    """The state that a unit is given, in this bench's cache or cold."""
    seen: list[Any] = []

    def look(unit: Unit) -> Answer:
        seen.append((unit.state(stream), unit.revision(stream), unit.row(TOYS, *stream.name)))
        return Answer(200, None)

    bench.run(command(look, stream))
    return seen[0]


# ---- in memory ----------------------------------------------------------------------------------------------------


def test_cold_and_warm_decide_on_the_same(toys_url: str, bench: Bench, sql: Sql):
    """A process that has the stream in memory, one that has an older state of it, and one that has nothing."""
    older = Bench(toys_url)
    older.run(simple_bump(op="0"))
    for n in range(1, 4):
        bench.run(simple_bump(op=str(n), by=n))
    warm = state_seen(bench, toy_stream())
    assert state_seen(older, toy_stream()) == warm
    cold = Bench(toys_url)
    assert state_seen(cold, toy_stream()) == warm
    assert warm[0] == replayed(sql)
    assert warm[1] == 5
    kept, fresh = bench.cache.get(NAME), cold.cache.get(NAME)
    assert (kept.state, kept.rows, kept.revision, kept.chain) == (fresh.state, fresh.rows, fresh.revision, fresh.chain)
    older.close()
    cold.close()


def test_only_the_tail_is_read_again(toys_url: str, bench: Bench):
    """What is in memory is not loaded a second time; what another process appended is."""
    asked: list[str] = []

    class Listening(Spy):
        def execute(self, query: str, *args: Any, **kwargs: Any) -> Any:
            cursor = super().execute(query, *args, **kwargs)
            if query == statements.TAILS:
                asked.append(args[0][2])
            return cursor

    other = Bench(toys_url)
    bench.run(simple_bump())
    other.run(simple_bump())
    listening = Listening(bench.connection)
    bench.round.run(listening, [entry_of(simple_bump())], wait_ms=200)
    bench.round.run(listening, [entry_of(simple_bump())], wait_ms=200)
    assert asked == ["{2}", "{4}"]
    other.close()


def test_nothing_is_remembered_before_it_is_committed(bench: Bench):
    """A batch that fails while it writes leaves the memory as it was."""
    bench.run(simple_bump())
    before = bench.cache.get(NAME)
    with pytest.raises(psycopg.DataError):
        bench.run(simple_bump(), simple_bump(2, note="\0"))
    bench.connection.execute("rollback")
    assert bench.cache.get(NAME) is before
    assert bench.cache.get(("proj_a", "toy_2")) is None


def test_streams_that_are_only_read_are_remembered_too(bench: Bench):
    bench.run(simple_bump(1), simple_bump(2))
    bench.cache.clear()
    bench.run(command(lambda unit: Answer(200, None), toy_stream(1), reads=(toy_stream(2), toy_stream("absent"))))
    assert bench.cache.get(NAME).revision == 2
    assert bench.cache.get(("proj_a", "toy_2")).revision == 2
    assert bench.cache.get(("proj_a", "toy_absent")) is None


def test_what_was_only_read_and_stands_is_not_laid_out_again(bench: Bench):
    bench.run(simple_bump(1), simple_bump(2))
    before, other = bench.cache.get(NAME), bench.cache.get(("proj_a", "toy_2"))
    bench.run(command(lambda unit: Answer(200, None), toy_stream(1), reads=(toy_stream(2),)))
    assert bench.cache.get(NAME) is before
    assert bench.cache.get(("proj_a", "toy_2")) is other
    bench.run(simple_bump(1))
    assert bench.cache.get(NAME).revision == before.revision + 1
    assert bench.cache.get(("proj_a", "toy_2")) is other


def known(size: int, revision: int = 1) -> KnownStream:
    return KnownStream(StreamMark(revision), b"", None, {}, Weight(size))


def test_a_stream_that_is_too_heavy_is_lent_to_the_next_round_alone():
    """It drives nothing out, and what was loaded for it is not lost before it is used."""
    cache = StateCache(max_bytes=100, max_entry=50)
    cache.put(("p", "light"), known(40))
    cache.lend(("p", "heavy"), known(60))
    assert (len(cache), cache.bytes) == (1, 40)
    assert cache.get(("p", "heavy")).weight.bytes == 60
    cache.put(("p", "heavy"), known(60, revision=2))
    assert cache.get(("p", "heavy")) is None
    assert cache.get(("p", "light")) is not None


def test_what_is_lent_has_a_bound_in_bytes():
    """Streams too heavy to keep may be asked for one after the other: beside the last one, so much of them stays."""
    cache = StateCache(max_bytes=100, max_entry=50)
    for number in range(10):
        cache.lend(("p", str(number)), known(LENT_BYTES // 3))
    assert [number for number in range(10) if cache.get(("p", str(number))) is not None] == [7, 8, 9]
    cache.lend(("p", "huge"), known(2 * LENT_BYTES))
    assert cache.get(("p", "huge")) is not None
    assert cache.get(("p", "9")) is None


def test_what_was_loaded_replaces_nothing_newer():
    """A load outside of a transaction may be overtaken by a round."""
    cache = StateCache()
    cache.put(NAME, known(10, revision=5))
    cache.lend(NAME, known(10, revision=4))
    assert cache.get(NAME).revision == 5
    cache.lend(NAME, known(10, revision=6))
    assert cache.get(NAME).revision == 6


@pytest.mark.parametrize("kept", [1, 30, 3000])
def test_streams_weigh_what_they_hold(bench: Bench, kept: int):
    """Whether they grew here or were loaded, small ones by a guess that is no less, large ones as they are (P26)."""
    for _ in range(12):
        bench.run(simple_bump(note="x" * kept, op="y" * kept))
    grown = bench.cache.get(NAME)
    holds = weigh(grown.state, grown.rows)
    assert holds <= grown.weight.bytes <= holds + GUESSED + ENTRY
    bench.cache.clear()
    result = bench.run(command(lambda unit: Answer(200, None), toy_stream()))
    bench.load(result)
    assert holds <= bench.cache.get(NAME).weight.bytes <= 2 * holds + GUESSED + ENTRY


# ---- snapshots ----------------------------------------------------------------------------------------------------


def grow(bench: Bench, events: int, number: int = 1) -> None:
    """Append this many events to a toy, in batches."""
    stream = toy_stream(number)

    def more(size: int) -> Any:
        def decide(unit: Unit) -> Answer:
            opening = [] if unit.revision(stream) else [toy.ToyOpened("long")]
            wanted = size - len(opening)
            unit.append(stream, [*opening, *(toy.ToyBumped(n, f"op{n}") for n in range(wanted))])
            return Answer(200, None)

        return command(decide, stream)

    while events:
        bench.run(more(min(events, 30)))
        events -= min(events, 30)


def snapshots(sql: Sql) -> list[tuple[Any, ...]]:
    return sql.execute("select stream_id, revision, version from snapshots order by stream_id").fetchall()


def test_a_long_stream_keeps_a_snapshot_at_most_so_many_events_old(bench: Bench, sql: Sql):
    grow(bench, SNAPSHOT_EVENTS - 10)
    assert snapshots(sql) == []
    for n in range(40):
        grow(bench, 13 + n % 3)
        [[head]] = sql.execute("select revision from stream_heads").fetchall()
        [(_, revision, version)] = snapshots(sql) or [("", 0, 1)]
        assert head - revision < SNAPSHOT_EVENTS
        assert version == TOY.snapshot_version
    [[stored]] = sql.execute("select state::text from snapshots").fetchall()
    [(_, revision, _)] = snapshots(sql)
    rows = sql.execute("select topic, payload::text from events where revision <= %s order by revision", (revision,))
    assert msgspec.json.decode(stored, type=Toy) == replay(TOY, [decode_event(*row) for row in rows.fetchall()])


def test_snapshot_and_tail_equal_replay(toys_url: str, bench: Bench, sql: Sql):
    """A cold process starts at the snapshot, reads only what came after it, and stands where a replay ends."""
    grow(bench, 257)
    cold = Bench(toys_url)
    read: list[Any] = []

    class Listening(Spy):
        def execute(self, query: str, *args: Any, **kwargs: Any) -> Any:
            cursor = super().execute(query, *args, **kwargs)
            if query == statements.TAILS:
                read.append(cursor)
            return cursor

    bench_entry = entry_of(simple_bump(by=5))
    cold.round.run(Listening(cold.connection), [bench_entry], wait_ms=200)
    [(_, at, _)] = snapshots(sql)
    assert at > 200
    assert len(read[0].fetchall()) == 257 - at
    assert cold.cache.get(NAME).state == replayed(sql)
    assert cold.cache.get(NAME).rows["toys"].revision == 258
    assert cold.cache.get(NAME).snapshot.revision == at
    cold.close()


def test_a_snapshot_of_another_evolve_is_dropped(toys_url: str, bench: Bench, sql: Sql):
    """A raised version folds all history anew, and replaces the old snapshot; the old version ignores the new one."""
    grow(bench, 150)
    sql.execute("update snapshots set state = jsonb_set(state, '{total}', '-1')")

    def doubled(state: Toy, event: Any) -> Toy:
        event = msgspec.structs.replace(event, by=2 * event.by) if isinstance(event, toy.ToyBumped) else event
        return toy.evolve(state, event)

    newer = TOY._replace(evolve=doubled, version=2)
    stream = Stream(newer, *NAME)
    cold = Bench(toys_url, Registry({"toy": newer}, {"toy": (TOYS, LIVE_TOYS)}))
    assert state_seen(cold, stream)[0].total == 2 * replayed(sql).total

    def touch(unit: Unit) -> Answer:
        unit.append(stream, [toy.ToyBumped(0)])
        return Answer(200, None)

    cold.run(command(touch, stream))
    assert [(revision, version) for _, revision, version in snapshots(sql)] == [(151, newer.snapshot_version)]
    other = Bench(toys_url)
    assert state_seen(other, toy_stream())[0] == replayed(sql)
    cold.close()
    other.close()


def test_without_its_snapshot_a_state_is_what_its_events_say(toys_url: str, bench: Bench, sql: Sql):
    """Snapshots are a convenience; a lost one is made again with the next command."""
    grow(bench, 150)
    sql.execute("delete from snapshots")
    cold = Bench(toys_url)
    assert state_seen(cold, toy_stream())[0] == replayed(sql)
    cold.run(simple_bump())
    assert [revision for _, revision, _ in snapshots(sql)] == [151]
    cold.close()


def test_only_the_tail_is_looked_at(bench: Bench):
    """By the index, also once the statement is planned for any stream: a warm batch must not cost its history."""
    grow(bench, 90)
    for have in ((*bench.cache.get(NAME).mark, 0), (80, 0, 0)):
        plan = bench.connection.execute(
            f"explain (analyze, format json) {statements.TAILS}", columns([(*NAME, *have)], 5)
        ).fetchone()
        looked = [node for node in nodes(plan[0][0]["Plan"]) if node.get("Relation Name") == "events"]
        [read] = looked
        assert read["Actual Rows"] * read["Actual Loops"] == 90 - have[0]
        assert "revision >" in read["Index Cond"]


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A plan and everything below it."""
    return [plan, *(node for below in plan.get("Plans", []) for node in nodes(below))]


def test_a_stream_of_large_events_keeps_a_snapshot_at_most_so_many_bytes_old(bench: Bench, sql: Sql):
    """Also when each event is larger than that; heads and snapshots count what was appended (G-140)."""
    for size in [90_000] * 9 + [400_000] * 3 + [10] * 5:
        bench.run(simple_bump(note="x" * size))
        [[tail]] = sql.execute(
            "select coalesce(sum(octet_length(payload::text)), 0) from events where revision > "
            "coalesce((select revision from snapshots), 0)"
        ).fetchall()
        assert tail < SNAPSHOT_BYTES
    [[behind, total, counted]] = sql.execute(
        "select h.bytes - s.bytes, (select sum(octet_length(payload::text)) from events), h.bytes "
        "from stream_heads h, snapshots s"
    ).fetchall()
    assert behind < 1000
    assert 0.95 * total < counted <= total, "stored JSON has a space here and there"


@pytest.mark.parametrize("cold_every", [1, 3, 1000])
def test_however_it_is_loaded_a_history_is_the_same(bench: Bench, sql: Sql, cold_every: int):
    """The same commands, with the memory emptied now and then: same log, same rows, same state."""
    for n in range(12):
        if n % cold_every == 0:
            bench.cache.clear()
        grow(bench, 25)
        assert state_seen(bench, toy_stream())[0] == replayed(sql)
    assert replayed(sql).total == sum(range(24)) + 11 * sum(range(25))
    assert sql.execute("select total from toys").fetchall() == [(replayed(sql).total,)]
