"""A stream that a later release wrote to is refused by itself; everything else goes on, and its rows are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from projections.kernel import AnyProjection
from service.eventstore.declare.commands import Answer, Command, Unit
from service.eventstore.declare.faults import StreamIsNewer
from service.eventstore.log.reactor import NAME, Job, react_once
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.store import EventStore
from service.history import rebuild as rebuild_module
from service.history import rebuild as rebuilds
from service.history.audit import check_history, check_projection
from service.history.rebuild import TableIsNewer, _Rebuild, rebuild
from service.registry import machines
from statemachines.kernel.machine import StateMachine
from tests.service.history.test_lifting import OldClosed, close_old
from tests.service.history.test_lifting import old_store as old_store  # noqa: PLC0414 - a fixture
from tests.support.later import Later, LaterRelease, later_machine, later_projection
from tests.support.rounds import Bench
from tests.support.toy import (
    LIVE_TOYS,
    TOY,
    TOYS,
    ToyBumped,
    ToyClosed,
    command,
    lower_flag,
    simple_bump,
    toy_stream,
)

Sql = psycopg.Connection[Any]


@pytest.fixture
def later(toys_url: str) -> Iterator[LaterRelease]:
    """The later release over the same database; it shows its event in the rows of toys."""
    with LaterRelease(toys_url, TOY, later_projection(TOYS, note="later"), later_projection(LIVE_TOYS)) as running:
        yield running


def looking_away() -> Command:
    """Bump toy_2, declaring toy_1 to read without looking at it."""

    def decide(unit: Unit) -> Answer:
        unit.append(toy_stream(2), [ToyBumped(1)])
        return Answer(200, {"revision": unit.revision(toy_stream(2))})

    return command(decide, toy_stream(2), reads=[toy_stream(1)])


def test_the_units_that_need_it_fail_alone(bench: Bench, later: LaterRelease) -> None:
    """In one batch with others, warm and cold; a unit that has no need of it is none of those (G-149)."""
    assert bench.answers(simple_bump(1), simple_bump(2))[0]["revision"] == 2
    later.write(toy_stream(1))
    for revision in (3, 5):
        answers = bench.answers(simple_bump(2), simple_bump(1), looking_away())
        assert isinstance(answers[1], StreamIsNewer)
        assert answers[1].topic == Later.TOPIC
        assert (answers[0]["revision"], answers[2]["revision"]) == (revision, revision + 1)
        bench.cache.clear()
    assert bench.connection.info.transaction_status.name == "IDLE"


def test_what_a_key_was_answered_it_is_answered_again(bench: Bench, later: LaterRelease) -> None:
    """A repeat is answered from its record: the stream need not be read for it."""
    first = bench.answers(simple_bump(1, key="k"))
    later.write(toy_stream(1))
    assert bench.answers(simple_bump(1, key="k")) == first
    [refused] = bench.answers(simple_bump(1, key="other"))
    assert isinstance(refused, StreamIsNewer)


async def test_a_fence_is_refused_like_any_other(store: EventStore, later: LaterRelease) -> None:
    """In the lane; a fence of the same project that has no need of the stream goes through."""
    await store.execute(simple_bump(1))
    later.write(toy_stream(1))

    def decide(unit: Unit) -> Answer:
        unit.append(toy_stream(1), [ToyClosed()])
        return Answer(204, None)

    with pytest.raises(StreamIsNewer):
        await store.execute(command(decide, toy_stream(1), gates=(), exclusive=("proj_a",)))
    with pytest.raises(StreamIsNewer):
        await store.execute(simple_bump(1))
    assert (await store.execute(lower_flag())).status == 200


def test_a_snapshot_of_the_later_release_is_not_taken_up(bench: Bench, later: LaterRelease, sql: Sql) -> None:
    """It covers the event: with it the stream would look as if there were none."""
    bench.run(simple_bump(1))
    later.write(toy_stream(1), *[ToyBumped(1)] * 120)
    [[version]] = sql.execute("select version from snapshots").fetchall()
    assert version == later_machine(TOY).snapshot_version != TOY.snapshot_version
    bench.cache.clear()
    [refused] = bench.answers(simple_bump(1))
    assert isinstance(refused, StreamIsNewer)


def test_a_snapshot_is_marked_by_its_version_and_its_topics() -> None:
    """For every machine of the product: a raised version drops its snapshots, and so does another set of topics."""

    def marks(found: dict[str, StateMachine[Any]]) -> list[int]:
        return [machine.snapshot_version for machine in found.values()]

    now = marks(machines())
    assert all(0 < mark < 1 << 31 for mark in now)
    for changed in (
        {kind: machine._replace(version=machine.version + 1) for kind, machine in machines().items()},
        {kind: later_machine(machine) for kind, machine in machines().items()},
    ):
        assert not set(now) & set(marks(changed))


def test_its_rows_stay_as_the_later_release_left_them(bench: Bench, later: LaterRelease, toys_url: str, sql: Sql):
    """A rebuild takes them over, folds the others, and loses nothing of either; verify passes them over."""
    bench.run(*(simple_bump(number) for number in range(1, 6)))
    later.write(toy_stream(1), ToyBumped(7))
    later.write(toy_stream(3))
    sequence_all(sql)
    sql.execute("update toys set total = 99 where id in ('toy_2', 'toy_3')")
    assert [difference.id for difference in check_projection(sql, TOYS)] == ["toy_2"]
    rebuild(toys_url, TOYS)
    rows = sql.execute("select id, revision, total, note from toys order by id").fetchall()
    assert rows == [
        ("toy_1", 4, 8, None),
        ("toy_2", 2, 1, None),
        ("toy_3", 3, 99, "later"),
        ("toy_4", 2, 1, None),
        ("toy_5", 2, 1, None),
    ]
    receipt = rebuild(toys_url, TOYS)
    assert (receipt.old_digest, receipt.rows) == (receipt.new_digest, 5)
    assert list(check_projection(sql, TOYS)) == []
    assert list(check_history(sql)) == [], "what is stored is proven as ever"


@pytest.mark.parametrize("projection", [TOYS, LIVE_TOYS], ids=lambda projection: projection.name)
@pytest.mark.parametrize("moment", ["fold_everything", "catch_up", "swap"])
def test_what_comes_during_a_rebuild_is_taken_over(
    bench: Bench,
    later: LaterRelease,
    toys_url: str,
    sql: Sql,
    moment: str,
    projection: AnyProjection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a part of it, the later release writes to a stream that it wrote to before, and to others."""
    bench.run(*(simple_bump(number) for number in range(1, 4)))
    later.write(toy_stream(1))
    sequence_all(sql)
    original = getattr(_Rebuild, moment)

    def interrupted(self: Any) -> None:
        later.write(toy_stream(1), ToyBumped(5), happens=False)
        later.write(toy_stream(2))
        later.write(toy_stream(3), ToyClosed(), happens=False)
        if moment != "swap":  # The swap also folds what has no position yet.
            sequence_all(sql)
        original(self)

    monkeypatch.setattr(rebuild_module, "NEARLY_DONE", 1)
    monkeypatch.setattr(_Rebuild, moment, interrupted)
    receipt = rebuild(toys_url, projection)
    assert receipt.old_digest == receipt.new_digest
    assert sql.execute("select revision, total from toys where id = 'toy_1'").fetchall() == [(4, 6)]
    assert sql.execute("select count(*) from live_toys").fetchall() == [(2,)]


def test_a_table_with_columns_of_a_later_release_is_not_rebuilt(bench: Bench, toys_url: str, sql: Sql) -> None:
    """They would be empty afterwards."""
    bench.run(simple_bump(1))
    sql.execute("alter table toys add column mood text not null default 'good'")
    with pytest.raises(TableIsNewer, match="toys has mood"):
        rebuild(toys_url, TOYS)
    assert sql.execute("select mood from toys").fetchall() == [("good",)]


def test_the_reactor_goes_on_and_notes_what_it_met(bench: Bench, later: LaterRelease, sql: Sql) -> None:
    """The job of an event behind it comes; that there is something this release cannot read is known by then."""
    sql.execute("insert into checkpoints (name, position) values (%s, 0)", (NAME,))
    bench.run(simple_bump(1), simple_bump(2))
    later.write(toy_stream(1))
    bench.run(simple_bump(2))
    sequence_all(sql)
    reactions = {ToyBumped.TOPIC: lambda event: Job("bumped", {"stream": event.stream_id})}
    assert react_once(bench.connection, reactions) == 6
    jobs = sql.execute("select args ->> 'stream' from procrastinate_jobs order by 1").fetchall()
    assert jobs == [("toy_1",), ("toy_2",), ("toy_2",)]
    unknown = sql.execute(rebuilds.UNKNOWN, rebuilds.known()).fetchall()
    assert unknown == [(Later.TOPIC, 5)]
    later.write(toy_stream(2))
    later.write(toy_stream(2))
    sequence_all(sql)
    assert react_once(bench.connection, reactions) == 2
    assert sql.execute(rebuilds.COUNT, rebuilds.asked(unknown)).fetchall() == [(2,)]


async def test_a_reaction_is_to_every_version_of_its_event(
    store: EventStore, old_store: EventStore, bench: Bench, sql: Sql
) -> None:
    """Declared with the latest one, it is not lost on what the release before still writes."""
    sql.execute("insert into checkpoints (name, position) values (%s, 0)", (NAME,))
    await store.execute(simple_bump())
    await close_old(old_store)
    sequence_all(sql)
    react_once(bench.connection, {ToyClosed.TOPIC: lambda event: Job("closed", {"topic": event.topic})})
    assert sql.execute("select args ->> 'topic' from procrastinate_jobs").fetchall() == [(OldClosed.TOPIC,)]
