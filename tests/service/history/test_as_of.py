"""A row as it was: what the read model showed when the stream, the log or the clock was there."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any, cast

import psycopg
import pytest

from service.eventstore.declare.faults import StreamIsNewer
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.store import EventStore
from service.history import as_of
from service.history.as_of import Mark, MarkAhead, Past, parse_mark, until
from tests.support.later import LaterRelease, later_projection
from tests.support.toy import LIVE_TOYS, TOY, TOYS, toy_stream
from tests.support.toy import simple_bump as bump

Sql = psycopg.Connection[Any]
POSITION = (
    "select i.position from events e join log_index i on i.seq = e.seq where e.stream_id = 'toy_1' and e.revision = %s"
)
TABLES = (TOYS, LIVE_TOYS)
NAMED = (TOYS, "proj_a", "toy_1")


@pytest.fixture
def later(toys_url: str) -> Iterator[LaterRelease]:
    with LaterRelease(toys_url, TOY, later_projection(TOYS, note="later"), later_projection(LIVE_TOYS)) as running:
        yield running


async def rows_now(store: EventStore, number: int = 1) -> list[Any]:
    return [await store.get(table, "proj_a", toy_stream(number).id) for table in TABLES]


async def rows_at(store: EventStore, mark: str, number: int = 1) -> list[Any]:
    past = Past(store, parse_mark(mark))
    return [await past.get(table, "proj_a", toy_stream(number).id) for table in TABLES]


async def test_every_revision_position_and_second_is_shown_again(
    store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a second stream, over pages of a few events, with a row that goes in the end."""
    monkeypatch.setattr(as_of, "PAGE", 3)
    shown: dict[int, list[Any]] = {}
    for _ in range(8):
        await store.execute(bump(1))
        await store.execute(bump(2))
        [[revision]] = sql.execute("select revision from stream_heads where stream_id = 'toy_1'").fetchall()
        shown[revision] = await rows_now(store)
    sequence_all(sql)
    assert len(shown) == 8
    for revision, rows in shown.items():
        assert await rows_at(store, f"r:{revision}") == rows
        [[position]] = sql.execute(POSITION, (revision,)).fetchall()
        assert await rows_at(store, f"p:{position}") == rows
        if revision - 1 in shown:
            assert await rows_at(store, f"p:{position - 1}") == shown[revision - 1]
    [[now]] = sql.execute("select floor(extract(epoch from service_now()))::bigint").fetchall()
    assert await rows_at(store, f"t:{now}") == await rows_now(store)
    for mark in ("r:0", "p:0", "t:0"):
        assert await rows_at(store, mark) == [None, None]


class Weighed:
    """A store that tells the payloads of each page of events that it reads, in bytes."""

    def __init__(self, store: EventStore) -> None:
        self.registry = store.registry
        self.pages: list[list[int]] = []
        self._store = store

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        found = await self._store.fetch(query, *values)
        if query not in as_of.BOUND.values():
            self.pages.append([len(payload) for *_, payload, _, _ in found])
        return found


async def test_a_page_of_large_events_ends_by_their_bytes(store: EventStore) -> None:
    """Many small events, then many large ones, and one alone beyond the bound. None is left out, none fails."""
    large, beyond = "x" * 200_000, "y" * (as_of.PAGE_BYTES + 1)
    notes = [*["s"] * 40, *[large] * 20, beyond, *[large] * 3, "last"]
    for note in notes:
        await store.execute(bump(1, note=note))
    weighed = Weighed(store)
    tracemalloc.start()
    try:
        row = await Past(cast("EventStore", weighed), Mark("r", len(notes) + 1)).get(*NAMED)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert row == await store.get(*NAMED)
    assert sum(map(len, weighed.pages)) >= len(notes)
    assert all(sum(page) <= as_of.PAGE_BYTES or len(page) == 1 for page in weighed.pages)
    assert any(page[0] > as_of.PAGE_BYTES for page in weighed.pages), "what is larger than a page is one"
    assert max(map(len, weighed.pages)) > as_of.FIRST_PAGE, "small ones come many at once"
    assert peak < 5 * as_of.PAGE_BYTES


class Overtaken:
    """A store in which each stream gets an event between the look for the end of a mark and the read of its events."""

    def __init__(self, store: EventStore, number: int) -> None:
        self.registry = store.registry
        self.committed = 0
        self._store = store
        self._number = number

    async def fetch(self, query: str, *values: Any) -> list[Any]:
        found = await self._store.fetch(query, *values)
        if query in as_of.BOUND.values():
            await self._store.execute(bump(self._number))
            self.committed += 1
        return found


@pytest.mark.parametrize("unit", ["r", "p", "t"])
@pytest.mark.parametrize("number", [1, 7], ids=["a stream", "a stream that begins"])
async def test_what_commits_meanwhile_is_not_shown(store: EventStore, sql: Sql, unit: str, number: int) -> None:
    for _ in range(3):
        await store.execute(bump(1))
    sequence_all(sql)
    ends = {
        "r": f"select coalesce(max(revision), 0) from stream_heads where stream_id = '{toy_stream(number).id}'",
        "p": "select size from log_state",
        "t": "select floor(extract(epoch from service_now()))::bigint",
    }
    [[end]] = sql.execute(ends[unit].encode()).fetchall()
    if unit == "t":
        sql.execute("select pg_sleep_until(to_timestamp(%s))", (end + 1,))
    before = await rows_now(store, number)
    overtaken = Overtaken(store, number)
    past = Past(cast("EventStore", overtaken), Mark(cast("Any", unit), end))
    assert [await past.get(table, "proj_a", toy_stream(number).id) for table in TABLES] == before
    assert overtaken.committed == len(TABLES)
    assert await rows_now(store, number) != before


async def test_what_is_not_reached_is_not_guessed(store: EventStore, sql: Sql) -> None:
    """The refusal names the end; a stream that does not exist has none."""
    await store.execute(bump(1))
    sequence_all(sql)
    [[size]] = sql.execute("select size from log_state").fetchall()
    for mark in ("r:99", f"p:{size + 1}", "t:99999999999"):
        with pytest.raises(MarkAhead) as refused:
            await rows_at(store, mark)
        assert refused.value.details["invalid_fields"][0]["field"] == "as_of"
    assert await rows_at(store, "r:99", number=7) == [None, None]


async def test_a_later_release_hides_only_what_follows_its_event(
    store: EventStore, sql: Sql, later: LaterRelease
) -> None:
    """Before it the past is shown; from it on nobody here can say (G-149)."""
    await store.execute(bump(1))
    [[revision]] = sql.execute("select revision from stream_heads where stream_id = 'toy_1'").fetchall()
    shown = await rows_now(store)
    later.write(toy_stream(1))
    assert await rows_at(store, f"r:{revision}") == shown
    with pytest.raises(StreamIsNewer):
        await rows_at(store, f"r:{revision + 1}")


async def test_a_replay_takes_the_same_events(store: EventStore, sql: Sql) -> None:
    """What the command line folds up to a mark ends where the row does."""
    for _ in range(3):
        await store.execute(bump(1))
    events = FencedRecorder.over(sql).select_placed("toy_1")
    for revision in range(len(events) + 1):
        assert [event.revision for event in until(sql, Mark("r", revision), events)] == list(range(1, revision + 1))
    with pytest.raises(MarkAhead):
        until(sql, Mark("r", len(events) + 1), events)


@pytest.mark.parametrize(
    "text", ["", "12", "r", "r:", "r:-1", "r:01", "r:1.5", "R:1", "x:1", "r:1 ", "r:1\n", "r:١", "p:" + "9" * 16]
)
def test_a_mark_has_one_form(text: str) -> None:
    """No sign, no leading zero, no other digits, nothing around it."""
    with pytest.raises(ValueError, match="is no revision"):
        parse_mark(text)
