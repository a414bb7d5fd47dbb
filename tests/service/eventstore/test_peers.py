"""Other processes that are killed or stopped, while this one goes on."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from service.eventstore.store import EventStore
from tests.support.peer import STOP_HERE, Fence, Peer, PeerClient, PeerLost
from tests.support.rounds import body, count, history
from tests.support.toy import Bump, lower_flag, simple_bump

Sql = psycopg.Connection[Any]


@pytest.fixture
def peer(toys_url: str, tmp_path: Path) -> Iterator[Peer]:
    made = Peer(toys_url, tmp_path / "peer.sock")
    made.start()
    made.wait_ready()
    yield made
    made.kill()


@pytest.fixture
async def client(peer: Peer) -> Any:
    made = PeerClient(peer.path)
    yield made
    await made.close()


async def slowest_of_others(store: EventStore) -> float:
    """Bump the streams that nobody holds, all at once; returns how many seconds that took."""
    began = time.monotonic()
    await asyncio.gather(*(store.execute(simple_bump(n)) for n in range(2, 8)))
    return time.monotonic() - began


async def test_a_process_stopped_in_its_transaction_harms_its_stream_for_a_moment(
    peer: Peer, client: PeerClient, store: EventStore, sql: Sql
):
    """SIGSTOP between locks and writes: other streams go on, its own is free again in time, nobody is told 503.

    When it comes back its commit fails; it runs its command again and answers what is true.
    """
    await asyncio.gather(*(store.execute(simple_bump(n)) for n in range(8)))
    undisturbed = max([await slowest_of_others(store) for _ in range(40)])
    doomed = asyncio.create_task(client.bump(Bump("toy_1", by=100, op=STOP_HERE, key="k")))
    await asyncio.to_thread(peer.wait_stopped)
    began = time.monotonic()
    own = asyncio.create_task(store.execute(simple_bump(1)))
    worst = 0.0
    rounds = 0
    while not own.done() or time.monotonic() - began < 1.0:
        worst = max(worst, await slowest_of_others(store))
        rounds += 1
    free_after = time.monotonic() - began
    assert body(await own)["total"] == 2
    assert 0.5 < free_after < 1.9 + undisturbed
    assert worst < 0.6 + undisturbed
    assert rounds > 5
    peer.signal(signal.SIGCONT)
    reply = await doomed
    assert (reply.status, msgspec.json.decode(reply.bytes)["total"]) == (200, 102)
    assert history(sql, of="toy_1") == [
        ("toy_1", 1, "toy.opened"),
        ("toy_1", 2, "toy.bumped"),
        ("toy_1", 3, "toy.bumped"),
        ("toy_1", 4, "toy.bumped"),
    ]


async def test_a_process_stopped_for_long_answers_what_is_true(peer: Peer, client: PeerClient, sql: Sql):
    """Stopped past every deadline with its connection ended meanwhile, it does the work or says it did not."""
    doomed = asyncio.create_task(client.bump(Bump("toy_1", op=STOP_HERE, key="k")))
    await asyncio.to_thread(peer.wait_stopped)
    await asyncio.sleep(3.0)
    peer.signal(signal.SIGCONT)
    reply = await doomed
    stored = count(sql, "events")
    assert (reply.status, stored) in {(200, 2), (503, 0), (504, 0), (504, 2)}
    again = await client.bump(Bump("toy_1", op=STOP_HERE + " no more", key="k"))
    assert again.status == 200
    assert count(sql, "events") == 2


async def test_a_fence_does_not_wait_for_a_stopped_process(peer: Peer, client: PeerClient, store: EventStore, sql: Sql):
    """The holder of the gate is ended: the fence stands in under 2 s, and the late commit does not pass it."""
    await store.execute(simple_bump(1))
    doomed = asyncio.create_task(client.bump(Bump("toy_1", op=STOP_HERE, key="k", flagged=True)))
    await asyncio.to_thread(peer.wait_stopped)
    began = time.monotonic()
    await store.execute(lower_flag())
    assert time.monotonic() - began < 2.0
    peer.signal(signal.SIGCONT)
    reply = await doomed
    assert reply.status == 409
    assert "ToyFenced" in reply.error
    assert [topic for _, _, topic in history(sql)][-1] == "toyflag.lowered"
    refused = await client.bump(Bump("toy_2", flagged=True))
    assert refused.status == 409


async def test_a_killed_process_leaves_nothing_in_the_way(peer: Peer, client: PeerClient, store: EventStore, sql: Sql):
    """Killed (-9) in the middle of a transaction: its streams are free as soon as the server sees the end."""
    await store.execute(simple_bump(1))
    doomed = asyncio.create_task(client.bump(Bump("toy_1", op=STOP_HERE, key="k")))
    await asyncio.to_thread(peer.wait_stopped)
    peer.kill()
    began = time.monotonic()
    outcome = await store.execute(simple_bump(1))
    assert time.monotonic() - began < 1.2
    assert body(outcome)["total"] == 2
    with pytest.raises(PeerLost):
        await doomed
    peer.start()
    await asyncio.to_thread(peer.wait_ready)
    reply = await client.bump(Bump("toy_1", op="again", key="k"))
    assert (reply.status, reply.replayed) == (200, False)
    fenced = await client.fence(Fence())
    assert fenced.status == 200
    assert len(history(sql, of="toy_1")) == 4
