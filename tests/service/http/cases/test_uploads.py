"""Large bodies of SDKs take turns in files: a process holds pieces of them, however many come at once (G-206, P25)."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import weakref
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from typing import Any

import brotli
import pytest

from service.http.body.upload import Upload
from service.http.cases.intake.sdks import PosthogEvents, PosthogKey
from service.http.cases.intake.sentry import ArrivingEnvelope
from service.http.declare.endpoint import Operation
from service.http.edge.routes import all_endpoints
from service.packing import zstd
from tests.service.http.cases.test_posthog import TAKEN, large
from tests.service.http.cases.test_posthog import Sdk as PosthogSdk
from tests.service.http.cases.test_sentry import ATTACHMENT, envelope, padding
from tests.service.http.cases.test_sentry import Sdk as SentrySdk
from tests.service.http.cases.test_sentry import event as error
from tests.support import long_after
from tests.support.api import World, at_once, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

GROWTH = 100_000_000
"""Bytes that a process may grow while large bodies come (P25)."""
AT_ONCE = 64


SIZE = 2_000_000
"""Bytes of a body: the figure of bodies of 20 MB is the same, which `SIZE` shows when it is set to that."""


class Watch:
    """The most memory that the serving process has while something goes on, beyond what it had before."""

    def __init__(self, world: World) -> None:
        serving = world.server.processes("service.process.serving")
        starting = {process.ppid() for process in serving}
        [self._process] = [process for process in serving if process.pid not in starting]
        self.grown = 0
        self._before = self._now()

    def _now(self) -> int:
        return int(self._process.memory_full_info().uss)

    async def over(self, work: Awaitable[Any]) -> Any:
        """Wait for something."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.wait([task], timeout=0.02)
            self.grown = max(self.grown, await asyncio.to_thread(self._now) - self._before)
        return task.result()


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    """A body without its length."""
    for at in range(0, len(body), 65_536):
        yield body[at : at + 65_536]


def envelope_of(size: int) -> bytes:
    """An error with an attachment before it."""
    return envelope((ATTACHMENT, padding(size)), ({"type": "event"}, json.dumps(error()).encode()))


@pytest.mark.parametrize("way", long_after(1, ["gzip", "plain", "chunks", "br", "zstd"]))
async def test_many_envelopes_at_once(world: World, way: str) -> None:
    """Of one project: each is stored, and the process has room for the others."""
    owner = await world.sign_in()
    sdk = SentrySdk(world, owner, await owner.create_project())
    pack = {"gzip": partial(gzip.compress, compresslevel=1), "br": partial(brotli.compress, quality=1)}.get(way, bytes)
    if way == "zstd":
        pack = partial(zstd.compress, level=1)
    bodies = [pack(envelope_of(SIZE)) for _ in range(AT_ONCE)]
    coding = way if way in {"gzip", "br", "zstd"} else ""
    watch = Watch(world)

    async def send(number: int) -> Any:
        body = bodies[number]
        return await sdk.send(in_chunks(body) if way == "chunks" else body, content_encoding=coding)

    answers = await watch.over(at_once(AT_ONCE, send))
    assert [answer.status_code for answer in answers] == [200] * AT_ONCE, answers[0].text
    assert len(await sdk.rows()) == AT_ONCE
    assert watch.grown < GROWTH, watch.grown


@pytest.mark.release
async def test_many_batches_at_once(world: World) -> None:
    """Of a sender that is not known before the end of its body."""
    owner = await world.sign_in()
    sdk = PosthogSdk(world, owner, await owner.create_project())
    bodies = [large(sdk.key, 10, SIZE // 10) for _ in range(AT_ONCE)]
    watch = Watch(world)
    answers = await watch.over(at_once(AT_ONCE, lambda number: sdk.send(bodies[number])))
    assert [ok(answer) for answer in answers] == [TAKEN] * AT_ONCE
    assert len(await sdk.events()) == 10 * AT_ONCE
    assert watch.grown < GROWTH, watch.grown


@pytest.mark.release
@pytest.mark.parametrize("coding", ["br", "zstd"])
async def test_many_bombs_at_once(world: World, coding: str) -> None:
    """Which ask to look back as far as they may: they are refused one after the other."""
    owner = await world.sign_in()
    sdk = SentrySdk(world, owner, await owner.create_project())
    text = b'{}\n{"type":"attachment"}\n' + padding(90_000) + b" " * 50_000_000
    bomb = brotli.compress(text, quality=1, lgwin=24) if coding == "br" else zstd.compress(text, 9)
    watch = Watch(world)
    answers = await watch.over(at_once(AT_ONCE, lambda _: sdk.send(bomb, content_encoding=coding)))
    assert {answer.status_code for answer in answers} == {413}
    assert watch.grown < GROWTH, watch.grown


DOORS = [one.operation for one in all_endpoints() if one.operation.body.unpacked]
ONE_DOOR = "record_sentry_envelope"
"""Where `make test` tries bombs. `make test-release` tries every other door."""
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "br": partial(brotli.compress, quality=1, lgwin=24),
    "deflate": zlib.compress,
    "gzip": gzip.compress,
    "zstd": zstd.compress,
}


@cache
def bomb_of(coding: str, begin: bytes) -> bytes:
    """What becomes 50 MB, in any coding and with the longest look back."""
    packed = CODINGS[coding](begin + b" " * 50_000_000)
    assert len(packed) < 100_000
    return packed


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(one, id=one.operation_id, marks=[] if one.operation_id == ONE_DOOR else pytest.mark.release)
        for one in DOORS
    ],
)
async def test_no_door_unpacks_a_bomb(world: World, operation: Operation) -> None:
    """Each operation that takes a coding takes all of them within its bounds. What a bomb becomes is never there."""
    owner = await world.sign_in()
    made = await owner.create_project()
    path = operation.path.replace("{alias}", str(made["alias"]))
    begin = b'{}\n{"type":"attachment"}\n' if path.endswith("/envelope/") else b""
    media = "application/x-dmp" if operation.operation_id == "record_minidump" else operation.body.media_type
    headers = {"authorization": f"Bearer {made['dsn']}", "content-type": media}
    for coding, pack in CODINGS.items():
        headers["content-encoding"] = coding
        send = partial(world.call, operation.method, path, headers=headers)
        packed, watch = bomb_of(coding, begin), Watch(world)
        answers = await watch.over(at_once(16, lambda _, send=send, packed=packed: send(content=packed)))
        assert {answer.status_code for answer in answers} == {413}, (coding, answers[0].text)
        assert watch.grown < GROWTH, (coding, watch.grown)
        for broken in (b"not packed", pack(b"{}")[:-1]):
            answer = await send(content=broken)
            assert answer.status_code == 400, (coding, answer.text)
    assert await world.telemetry(made["id"]) == 0


@pytest.mark.release
async def test_what_is_refused_leaves_nothing(world: World) -> None:
    """Each holds some 130 kB while it is read, which go when it is answered and not when the collector comes by."""
    owner = await world.sign_in()
    sdk = SentrySdk(world, owner, await owner.create_project())
    no_envelope = gzip.compress(b" " * 50_000_000, 9)
    refused = partial(sdk.send, no_envelope, content_encoding="gzip")
    await refused()
    watch = Watch(world)
    for _ in range(10):
        assert {answer.status_code for answer in await at_once(AT_ONCE, lambda _: refused())} == {400}
    await watch.over(refused())
    assert watch.grown < GROWTH // 2, watch.grown


@pytest.mark.parametrize(
    ("reader", "begin"),
    [
        (ArrivingEnvelope, b'{}\n{"type":"attachment"}\n'),
        (ArrivingEnvelope, b'{}\n{"type":"event","length":9999}\n{'),
        (ArrivingEnvelope, b"{"),
        (PosthogEvents, b'{"batch": ['),
        (PosthogKey, b'[{"event": "a'),
    ],
)
async def test_a_body_that_is_given_up_leaves_no_reader(
    reader: type[ArrivingEnvelope | PosthogEvents], begin: bytes
) -> None:
    """Without the collector of cycles: it has read two pieces, and waits for more."""
    gc.disable()
    try:
        upload, reading = Upload(), reader()
        upload.read_by(reading)
        for piece in (begin, b" " * 1000):
            reading.feed(piece)
        gone = weakref.ref(reading)
        upload.close()
        del upload, reading
        assert gone() is None
    finally:
        gc.enable()
