"""Streamed answers by themselves: slow readers, readers that go away, failures and the end of a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from service.fairness.turns import ReadNotDone
from service.http.answer.errors import RateLimited
from service.http.answer.reply import Streamed
from service.http.waiting import streams as module
from service.http.waiting.streams import Streams

PATIENCE = 10
SCOPE: Any = {"type": "http", "method": "GET"}


class Reader:
    """A client: what it got, whether it takes more, and whether it is still there."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.gone = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message.get("body"):
            await self.takes.wait()
        self.got.append(message)

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got)

    @property
    def whole(self) -> bool:
        """Whether the last chunk came, without which a server breaks the connection off."""
        return self.got[-1].get("more_body") is False


class Source:
    """Pieces that a test gives out, and whether the generator was closed."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = False

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            while (piece := await self.queue.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed = True


class Stage:
    """One stream under way."""

    def __init__(self, *, endless: bool = False) -> None:
        self.streams, self.source, self.reader = Streams(), Source(), Reader()
        made = Streamed(self.source.pieces(), headers={"content-type": "text/plain"}, endless=endless)
        self.reply = self.streams.reply(made, {}, "req_1", "a")
        self.task = asyncio.create_task(self._carry_out())

    async def _carry_out(self) -> None:
        await self.reply.begin(SCOPE, self.reader.receive)  # type: ignore[arg-type]
        await self.reply(SCOPE, self.reader.receive, self.reader.send)  # type: ignore[arg-type]

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.task
        assert self.source.closed
        assert self.streams.under_way == 0

    async def got(self, body: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.reader.body != body:  # noqa: ASYNC110 - the stream sends when it is its turn
                await asyncio.sleep(0)


async def test_it_is_sent_piece_by_piece() -> None:
    stage = Stage()
    for piece in (b"one", b"", b"two", None):
        stage.source.queue.put_nowait(piece)
    await stage.ended()
    assert (stage.reader.body, stage.reader.whole) == (b"onetwo", True)
    names = dict(stage.reader.got[0]["headers"])
    assert (names[b"content-type"], names[b"x-accel-buffering"]) == (b"text/plain", b"no")
    assert b"content-length" not in names


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing more is read for it meanwhile."""
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.05)
    stage = Stage(endless=True)
    stage.reader.takes.clear()
    for piece in (b"one", b"two"):
        stage.source.queue.put_nowait(piece)
    await stage.ended()
    assert (stage.reader.body, stage.reader.whole, stage.streams.cut_off) == (b"", False, 1)
    assert stage.source.queue.qsize() == 1


async def test_a_reader_that_goes_away_frees_its_place() -> None:
    """Also in the middle of a piece that it does not take."""
    for takes in (True, False):
        stage = Stage(endless=True)
        if not takes:
            stage.reader.takes.clear()
            stage.source.queue.put_nowait(b"one")
        await asyncio.sleep(0.01)
        stage.reader.gone.set()
        await stage.ended()


@pytest.mark.parametrize("error", [ReadNotDone(), RuntimeError("a bug")])
async def test_a_failure_shows_to_the_reader(error: Exception) -> None:
    stage = Stage()
    stage.source.queue.put_nowait(b"one")
    stage.source.queue.put_nowait(error)
    await stage.ended()
    assert (stage.reader.body, stage.reader.whole) == (b"one", False)


@pytest.mark.parametrize("error", [ReadNotDone(), RuntimeError("a bug")])
async def test_a_failure_before_the_first_piece_is_a_refusal(error: Exception) -> None:
    """Nothing was sent, so the answer can be another one."""
    stage = Stage()
    stage.source.queue.put_nowait(error)
    with pytest.raises(type(error)):
        await stage.ended()
    assert (stage.reader.got, stage.source.closed, stage.streams.under_way) == ([], True, 0)


async def test_a_reader_that_goes_away_before_the_first_piece_frees_its_place() -> None:
    stage = Stage()
    stage.reader.gone.set()
    await stage.ended()
    assert not stage.reader.whole


async def test_a_large_piece_is_handed_to_the_server_in_parts() -> None:
    """So it is not kept twice."""
    stage, piece = Stage(), bytes(range(256)) * 1000
    for some in (piece, None):
        stage.source.queue.put_nowait(some)
    await stage.ended()
    assert (stage.reader.body, stage.reader.whole) == (piece, True)
    assert max(len(message.get("body", b"")) for message in stage.reader.got) == module.AT_ONCE


async def test_the_end_of_a_process_ends_streams_without_an_end() -> None:
    """At once where they wait, after the piece under way where they do not; one that begins then ends at once."""
    stage = Stage(endless=True)
    stage.source.queue.put_nowait(b"one")
    await stage.got(b"one")
    stage.streams.stop()
    await stage.ended()
    assert stage.reader.whole
    busy = Stage(endless=True)
    busy.reader.takes.clear()
    busy.source.queue.put_nowait(b"one")
    await asyncio.sleep(0.01)
    busy.streams.stop()
    busy.reader.takes.set()
    await busy.ended()
    assert (busy.reader.body, busy.reader.whole) == (b"one", True)


async def test_the_end_of_a_process_leaves_downloads_their_time() -> None:
    stage = Stage()
    stage.streams.stop()
    for piece in (b"one", None):
        stage.source.queue.put_nowait(piece)
    await stage.ended()
    assert (stage.reader.body, stage.reader.whole) == (b"one", True)


async def test_an_account_has_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    for _ in range(module.MOST_OF_ACCOUNT - 1):
        stage.streams.reply(Streamed(Source().pieces()), {}, "req", "a")
    with pytest.raises(RateLimited):
        stage.streams.reply(Streamed(Source().pieces()), {}, "req", "a")
    stage.source.queue.put_nowait(None)
    await stage.task
    stage.streams.reply(Streamed(Source().pieces()), {}, "req", "a")
