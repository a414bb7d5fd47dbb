"""An event that an earlier release wrote is read by every path as if this one had; what is stored stays as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any, ClassVar

import msgspec
import psycopg
import pytest
import pytest_asyncio
from eventsourcing.persistence import EventStore as LibraryStore

from projections.kernel import projection
from service.eventstore.declare.commands import Answer, Unit
from service.eventstore.library import AddressedDatastore
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import MsgspecMapper, exported
from service.eventstore.state.unit import Registry
from service.eventstore.store import EventStore
from service.history.as_of import Mark, Past
from service.history.audit import check_history, check_projection
from service.history.bundle import bundle
from service.history.rebuild import rebuild
from statemachines.kernel.machine import Recorded, StateMachine, Stream, replay, transition_table
from tests.support import toy
from tests.support.toy import TOY, TOYS, Status, Toy, ToyBumped, ToyClosed, ToyOpened, command, simple_bump, toy_stream

Sql = psycopg.Connection[Any]
LIFTED = ToyClosed("nobody said", "somebody")


class OldClosed(msgspec.Struct, frozen=True):
    """The event as the first release had it; no class of this release, so that it is only ever lifted."""

    TOPIC: ClassVar[str] = "toy.closed.v1"
    DOCUMENT: ClassVar[bool] = False


def evolve_old(state: Toy, event: Any) -> Toy:
    closed = isinstance(event, OldClosed)
    return msgspec.structs.replace(state, status=Status.CLOSED) if closed else toy.evolve(state, event)


def fold_old(row: Any, recorded: Recorded) -> Any:
    event = LIFTED if isinstance(recorded.event, OldClosed) else recorded.event
    return toy.fold_toy(row, recorded._replace(event=event))


OLD_TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ToyOpened.TOPIC, Status.ABSENT, Status.OPEN],
        [ToyBumped.TOPIC, Status.OPEN, Status.OPEN],
        [OldClosed.TOPIC, Status.OPEN, Status.CLOSED],
    ],
)
OLD_TOY = StateMachine("toy", OLD_TABLE, Toy(), evolve_old, toy.ToyConflict, Toy)
OLD_REGISTRY = Registry({"toy": OLD_TOY}, {"toy": (projection("toys", toy.ToyRow, ("toy",), fold_old),)})


@pytest_asyncio.fixture
async def old_store(toys_url: str) -> AsyncIterator[EventStore]:
    """The store of the release before, over the same database."""
    running = EventStore(toys_url, OLD_REGISTRY)
    await running.start()
    yield running
    await running.stop()


async def close_old(store: EventStore, number: int = 1) -> None:
    """Close a toy as the release before does."""
    stream = Stream(OLD_TOY, "proj_a", f"toy_{number}")

    def decide(unit: Unit) -> Answer:
        unit.append(stream, [OldClosed()])
        return Answer(200, None)

    await store.execute(command(decide, stream))


async def test_the_loop_decides_on_what_was_lifted(store: EventStore, peer_store: EventStore, old_store: EventStore):
    """One process had the toy in its cache and loads the end of it, the other loads all of it."""
    await store.execute(simple_bump())
    await close_old(old_store)
    for running in (store, peer_store):
        with pytest.raises(toy.ToyConflict) as refused:
            await running.execute(simple_bump())
        assert refused.value.details["status"] == "closed"


async def test_every_reader_sees_the_latest_version(store: EventStore, old_store: EventStore, toys_url: str, sql: Sql):
    """Stream, log, the library's recorder, a replay and the past: all lead to the state of this release."""
    await store.execute(simple_bump())
    await close_old(old_store)
    sequence_all(sql)
    streamed = [event.recorded().event for event in FencedRecorder.over(sql).select_placed("toy_1")]
    assert streamed[-1] == LIFTED
    assert [event.recorded().event for event in FencedRecorder.over(sql).select_after(0)] == streamed
    with closing(FencedRecorder(AddressedDatastore(toys_url))) as recorder:
        library = LibraryStore(mapper=MsgspecMapper(), recorder=recorder)
        assert [recorded.event for recorded in library.get("toy_1")] == streamed
    assert replay(TOY, streamed).status is Status.CLOSED
    [row] = await store.find(TOYS, "t.project_id = %s", "proj_a")
    assert await Past(store, Mark("r", len(streamed))).get(TOYS, "proj_a", row.id) == row
    assert row.closed


async def test_read_models_fold_it_live_and_anew(store: EventStore, old_store: EventStore, toys_url: str, sql: Sql):
    """What the release before has folded is what this one folds, in verify and in a rebuild."""
    await store.execute(simple_bump())
    await close_old(old_store)
    sequence_all(sql)
    assert list(check_projection(sql, TOYS)) == []
    receipt = rebuild(toys_url, TOYS)
    assert receipt.old_digest == receipt.new_digest
    [row] = await store.find(TOYS, "t.project_id = %s", "proj_a")
    assert row.closed


async def test_what_is_stored_stays_what_it_was(store: EventStore, old_store: EventStore, sql: Sql):
    """Topic, payload and hashes are those of the release that wrote them, in the log, in a proof and in an export."""
    await store.execute(simple_bump())
    await close_old(old_store)
    before = sql.execute("select topic, payload::text, payload_hash, leaf, chain from events order by seq").fetchall()
    assert before[-1][:2] == ("toy.closed.v1", "{}")
    with pytest.raises(toy.ToyConflict):
        await store.execute(simple_bump())
    sequence_all(sql)
    assert list(check_history(sql)) == []
    [shown] = (await bundle(store, [toy_stream().name])).streams
    assert (shown.events[-1].topic, shown.events[-1].payload) == ("toy.closed.v1", {})
    line = [exported(event) for event in FencedRecorder.over(sql).select_after(0)][-1]
    assert (line["topic"], line["payload"]) == ("toy.closed.v1", {})
    assert sql.execute(
        "select topic, payload::text, payload_hash, leaf, chain from events order by seq"
    ).fetchall() == (before)
