"""The rate of owners' documents: a property of the stream, whoever writes and however many (G-140)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.eventstore.declare.commands import Outcome
from service.eventstore.state import cache
from service.eventstore.state.cache import MOST_BYTES, MOST_TIMES, WINDOW, Taken, TooManyDocuments, take_document
from service.eventstore.store import EventStore
from tests.support import toy
from tests.support.rounds import Bench
from tests.support.toy import simple_bump

Sql = psycopg.Connection[Any]
SIZES = st.integers(1, 512 * 1024)


def waiting_time(taken: Taken, size: int, now: int) -> int:
    """What a document is told to wait; 0 when it is taken."""
    try:
        take_document(taken, size, now)
    except TooManyDocuments as refused:
        return refused.retry_after
    return 0


@given(st.lists(st.tuples(st.integers(0, 900), SIZES), max_size=100))
def test_no_hour_takes_more_and_the_time_to_wait_is_exact(steps: list[tuple[int, int]]):
    """Whatever comes when: any 3,600 seconds hold at most 8 MiB; who waits as told is taken, not a moment before."""
    taken: Taken = ()
    accepted: list[tuple[int, int]] = []
    now = 1_800_000_000
    for wait, size in steps:
        now += wait
        if (left := waiting_time(taken, size, now)) > 0:
            assert left <= WINDOW
            assert waiting_time(taken, size, now + left - 1) == 1
            now += left
        taken = take_document(taken, size, now)
        accepted.append((now, size))
        assert sum(count for at, count in accepted if at > now - WINDOW) <= MOST_BYTES
        assert len(taken) <= MOST_TIMES


def test_eight_mebibytes_are_taken_at_once():
    """Sixteen of the largest documents, and then none for an hour."""
    taken: Taken = ()
    for _ in range(16):
        taken = take_document(taken, 512 * 1024, 1000)
    with pytest.raises(TooManyDocuments) as refused:
        take_document(taken, 1, 1001)
    assert refused.value.retry_after == WINDOW - 1
    assert take_document(taken, 512 * 1024, 1000 + WINDOW) == ((1000 + WINDOW, 512 * 1024),)


def test_many_small_ones_are_kept_short_and_never_undercounted():
    taken: Taken = ()
    for n in range(500):
        taken = take_document(taken, 1000, n)
    assert len(taken) == MOST_TIMES
    assert sum(count for _, count in taken) == 500_000
    assert cache.read_documents(msgspec.json.encode(taken).decode()) == taken


async def test_two_processes_together_take_no_more(
    store: EventStore, peer_store: EventStore, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    """40 rivals in two processes for a stream that takes 10: its row counts, under its lock, beyond all restarts."""
    monkeypatch.setattr(toy.ToyBumped, "DOCUMENT", True)
    await store.execute(simple_bump(note="x" * 1000))
    [[size]] = sql.execute("select octet_length(payload::text) from events where revision = 2").fetchall()
    monkeypatch.setattr(cache, "MOST_BYTES", 10 * size)
    told = await asyncio.gather(
        *(where.execute(simple_bump(note="x" * 1000)) for _ in range(20) for where in (store, peer_store)),
        return_exceptions=True,
    )
    assert Counter(type(answer) for answer in told) == {Outcome: 9, TooManyDocuments: 31}
    [[kept]] = sql.execute("select documents from stream_heads").fetchall()
    assert sum(count for _, count in msgspec.json.decode(kept)) <= 10 * size
    cold = Bench(store.conninfo)
    assert [type(answer) for answer in cold.answers(simple_bump(note="x" * 1000))] == [TooManyDocuments]
    sql.execute("select advance_service_clock(3600)")
    assert [type(answer) for answer in cold.answers(simple_bump(note="x" * 1000))] == [dict]
    cold.close()
