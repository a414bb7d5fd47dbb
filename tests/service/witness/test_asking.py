"""The worker's side: three witnesses are asked, what they answer is verified, and two of them are enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from service.egress.guard import CALLERS, OPERATOR, Guard, Reach
from service.eventstore.store import EventStore
from service.tlog.notes import TlogPolicy, VerifierKey, parse_note, parse_policy, verify_note
from service.tlog.tree import checkpoint_for, latest_checkpoint
from service.witness.asking import Asker, verified_lines, witnesses_of
from service.witness.server import Witness, WitnessState
from service.witness.serving import WitnessServer
from tests.support import toy
from tests.support.trees import fill, sign_all, signer_at

SECONDS = 30.0


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[EventStore]:
    running = EventStore(database_url, toy.REGISTRY)
    await running.start()
    yield running
    await running.stop()


@asynccontextmanager
async def witnesses(directory: Path, keys: tuple[VerifierKey, ...], count: int) -> AsyncIterator[list[str]]:
    """Lines of a policy about so many running witnesses."""
    lines, servers, states = [], [], []
    for number in range(count):
        state = WitnessState(directory / f"w{number}")
        name = f"w{number}.example"
        server = WitnessServer(Witness(name, state.pair(), state, {keys[0].name: keys}))
        port = await server.start("127.0.0.1", 0)
        servers.append(server)
        states.append(state)
        for kind, key in zip("em", state.pair().as_witness(name), strict=True):
            lines.append(f"witness w{number}{kind} {key.vkey} http://127.0.0.1:{port}/")
    try:
        yield lines
    finally:
        for server, state in zip(servers, states, strict=True):
            await server.stop()
            state.close()


@asynccontextmanager
async def asking(store: EventStore, policy: TlogPolicy, reach: Reach = OPERATOR) -> AsyncIterator[None]:
    task = asyncio.create_task(Asker(store, Guard(), reach, witnesses_of(policy)).run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def cosigned(sql: Any, size: int, count: int) -> str:
    give_up = time.monotonic() + SECONDS
    while time.monotonic() < give_up:
        found = checkpoint_for(sql, size)
        if found is not None and found.cosignatures.count("\n") >= 2 * count:
            return found.text
        await asyncio.sleep(0.05)
    pytest.fail("nobody has cosigned")


async def test_the_checkpoint_carries_the_cosignatures_of_all_that_answer(
    database_url: str, store: EventStore, tmp_path: Path
) -> None:
    """Also after growth, of a witness that knew more than our table, and with one of three that is not there."""
    signer = signer_at(tmp_path)
    with psycopg.connect(database_url, autocommit=True) as sql:
        fill(sql, 300)
        sign_all(sql, signer)
        kept = latest_checkpoint(sql)
        assert kept is not None
        keys = signer.pair.as_log(kept.origin)
        async with witnesses(tmp_path, keys, 2) as lines:
            absent = VerifierKey("w9.example", 4, bytes(32)).vkey
            text = "\n".join([*lines, f"witness w9 {absent} http://127.0.0.1:9/", "group g 2 w0m w1m w9", "quorum g"])
            policy = parse_policy(f"log {keys[0].vkey}\n{text}".encode())
            assert len(witnesses_of(policy)) == 3
            async with asking(store, policy):
                note = await cosigned(sql, 300, 2)
                assert policy.accepts(parse_note(note.encode()))
                fill(sql, 77)
                await asyncio.sleep(0.25)
                sign_all(sql, signer)
                note = await cosigned(sql, 377, 2)
                assert policy.accepts(parse_note(note.encode()))
            sql.execute("alter table log_cosignatures disable trigger all")
            sql.execute("delete from log_cosignatures")
            async with asking(store, policy):
                await cosigned(sql, 377, 2)
            known = [party.key for party in policy.witnesses.values() if party.key.name != "w9.example"]
            assert len(verify_note(parse_note(note.encode()), [*keys, *known])) == 6


async def test_private_addresses_are_refused_unless_the_operator_allows_them(
    database_url: str, store: EventStore, tmp_path: Path
) -> None:
    signer = signer_at(tmp_path)
    with psycopg.connect(database_url, autocommit=True) as sql:
        sign_all(sql, signer)
        kept = latest_checkpoint(sql)
        assert kept is not None
        async with witnesses(tmp_path, signer.pair.as_log(kept.origin), 1) as lines:
            policy = parse_policy("\n".join([*lines, "quorum w0e"]).encode())
            async with asking(store, policy, CALLERS):
                await asyncio.sleep(1)
            assert sql.execute("select count(*) from log_cosignatures").fetchall() == [(0,)]


def test_a_wrong_cosignature_is_worth_nothing(tmp_path: Path) -> None:
    state = WitnessState(tmp_path)
    signer = signer_at(tmp_path)
    log = signer.pair.as_log("o")
    from service.tlog.notes import Checkpoint

    checkpoint = Checkpoint("o", 0, b"r" * 32)
    note = f"{checkpoint.text}\n{''.join(one.line for one in signer.pair.sign(checkpoint, 1))}"
    keys = state.pair().as_witness("w")
    good = "".join(one.line for one in state.pair().cosign("w", checkpoint, 5))
    other = "".join(one.line for one in state.pair().cosign("w", checkpoint._replace(size=1), 5))
    assert verified_lines(note, keys, good.encode()) == good
    for body in (other, "", "nonsense", good[:-5], "\xff"):
        assert verified_lines(note, keys, body.encode("latin-1", "replace")) == ""
    assert verified_lines(note, log, good.encode()) == ""
    state.close()
