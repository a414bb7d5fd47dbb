"""A body on its way (threat 20).

Nothing of it is read before its sender is known, nothing is kept beyond what the process has room for, and what is
refused is let go of within bounds.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from litestar.types import Receive

from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable
from service.deadlines import Deadlines
from service.fairness.bounds import SHARE, FairBounds, Full
from service.fairness.semaphore import FairSemaphore, Holding
from service.fairness.turns import place_of
from service.http.answer.errors import PayloadTooLarge, RateLimited
from service.http.body.upload import WRITTEN_TOGETHER, Upload
from service.http.declare.endpoint import Operation
from service.http.declare.forms import TOLD_BY, most_of

BODY_SECONDS = 10.0
PIECE = 512 * 1024  # bytes of a body that is worked on while it arrives
DISCARD_SECONDS = 1.0
DISCARD_BYTES = 6 * 1024 * 1024
MAX_DISCARDING = 16  # refused bodies that a process reads to their end at once
TOTAL_BYTES = 64 * 1024 * 1024  # of bodies that a process holds at once
SHARE_BYTES = TOTAL_BYTES // 8
LEAST_SHARE_BYTES = 5 * 1024 * 1024
"""Room for the largest body in memory: a request of source map chunks. A member's part holds a batch of errors."""
MEMBERS_PART = 4


def body_room(total: int = TOTAL_BYTES, share: int = SHARE_BYTES) -> FairSemaphore:
    """The bytes of bodies in one process, its part of `total` on the machine. Nobody holds more than `share` (G-204).

    A body counts from its first chunk until its request is answered. Refuses as RateLimited beyond a share, and as
    ServiceUnavailable when all is taken. The members of a shared place have one share together, each a part of it.
    """
    share = SHARE.of(share, LEAST_SHARE_BYTES)
    part = share // MEMBERS_PART

    def refuse(full: Full, holder: str) -> Exception:
        if full is Full.ALL:
            return ServiceUnavailable()
        return RateLimited(
            "The bodies of your requests in flight have reached their total size limit.",
            next_action=("Wait for the seconds in Retry-After, then retry with fewer large requests at a time."),
            max_bytes_in_flight=share if place_of(holder) == holder else part,
        )

    total = SHARE.of(total, 2 * LEAST_SHARE_BYTES)
    return FairSemaphore(FairBounds(total, per_tenant=share, per_member=part), refuse=refuse)


class Discarding:
    """How many refused bodies a process reads to their end just now."""

    def __init__(self, most: int = MAX_DISCARDING) -> None:
        self.most = SHARE.of(most)
        self.now = 0


class ArrivingBody:
    """The body of one request, as it comes from the server; `limit` in bytes is that of its operation.

    One whose first bytes may tell that it is of another form is judged by `limit_of` these, at most `most`.
    """

    def __init__(
        self,
        receive: Receive,
        headers: Mapping[str, str],
        limit: int,
        most: int = 0,
        limit_of: Callable[[bytes], int] | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._receive = receive
        self._deadlines = Deadlines() if deadlines is None else deadlines
        self._limit = limit
        self._most = max(limit, most)
        length = headers.get("content-length")
        self._announced = int(length) if length is not None and length.isdigit() else None
        small = self._announced is not None and self._announced <= limit  # No form has a lower limit.
        self._limit_of = None if small else limit_of
        # Without either header a request has no body (RFC 9112 §6.3).
        self._left = self._announced != 0 if length is not None else "transfer-encoding" in headers
        self._size = 0  # of what has come
        self._waits = headers.get("expect", "").lower() == "100-continue"  # its sender sends nothing unasked

    def check_size(self) -> None:
        """Refuse by what is announced. Raises PayloadTooLarge (G-007, R-LIM-02)."""
        if self._announced is not None and self._announced > self._most:
            raise too_large(self._limit if self._limit_of is None else self._limit_of(b""))

    async def read(self, room: Holding, seconds: float = BODY_SECONDS) -> bytes:
        """Read the body within `seconds`, by Content-Length or in chunks; each chunk takes its place in `room`.

        Raises PayloadTooLarge at the first byte beyond the limit (R-LIM-02), before anything is parsed,
        InvalidPayload when the body does not end in time or the client goes away, and what `room` raises.
        """
        if self._announced == 0:
            return b""
        room.expect(self._announced or 0)
        try:
            with self._deadlines.within(seconds):
                return await self._receive_all(room)
        except TimeoutError:
            raise _too_slow(f"the body must arrive within {seconds:g} seconds") from None

    async def pieces(self, room: Holding, size: int, seconds: float = BODY_SECONDS) -> AsyncIterator[bytes]:
        """Read the body in pieces of about `size` bytes, each within `seconds`.

        A piece has its place in `room` until the next one is asked for. Raises as `read`.
        """
        while self._goes_on():
            held = bytearray()
            try:
                with self._deadlines.within(seconds):
                    await self._collect(held, size, room)
            except TimeoutError:
                raise _too_slow(f"{size} bytes of the body must arrive within {seconds:g} seconds") from None
            if self._size == self._announced:
                self._left = False
            if held:
                yield bytes(held)
                room.give_back(len(held))

    async def upload(self, room: Holding, files: Holding, seconds: float = BODY_SECONDS) -> Upload:
        """Read the body into memory when it is announced as small, else into a file, `PIECE` bytes within `seconds`.

        A body that breaks off, that takes too long or is too large has that as its fault once it is in a file. Raises
        as `read`, and ServiceUnavailable when the disk has no room.
        """
        if self._announced is not None and self._announced <= WRITTEN_TOGETHER:
            return Upload(await self.read(room, seconds))
        if not self._left:
            return Upload()
        files.expect(self._announced or 0)
        upload = Upload()
        try:
            await self._fill(upload, room, files, seconds)
        except (InvalidPayload, PayloadTooLarge) as fault:
            if not upload.size:
                raise
            upload.fault = fault
        except BaseException:
            upload.close()
            raise
        return upload

    async def _fill(self, upload: Upload, room: Holding, files: Holding, seconds: float) -> None:
        piece_end, due = 0, 0.0
        while self._goes_on():
            if self._size >= piece_end:
                piece_end, due = self._size + PIECE, asyncio.get_running_loop().time() + seconds
            held = bytearray()
            fault: Refusal | None = None
            try:
                with self._deadlines.at(due):
                    await self._collect(held, WRITTEN_TOGETHER, room)
            except TimeoutError:
                fault = _too_slow(f"{PIECE} bytes of the body must arrive within {seconds:g} seconds")
            except (InvalidPayload, PayloadTooLarge) as refused:
                fault = refused
            if not upload.size and (fault is not None or not self._goes_on()):
                if fault is not None:
                    raise fault
                upload.hold(bytes(held))
            elif held:
                files.take(len(held))
                await upload.add(bytes(held))
                room.give_back(len(held))
            if fault is not None:
                raise fault
        self._left = False

    def _goes_on(self) -> bool:
        """Whether more of the body is expected."""
        return self._left and self._size != self._announced

    async def _collect(self, held: bytearray, size: int, room: Holding) -> None:
        """Add chunks to `held` until it has about `size` bytes or the body ends. Raises as `read`."""
        while self._goes_on() and len(held) < size:
            chunk, _ = await self._next()
            self._size += len(chunk)
            if self._size > self._limit:
                raise too_large(self._limit)
            room.take(len(chunk))
            held += chunk

    async def _receive_all(self, room: Holding) -> bytes:
        chunks: list[bytes] = []
        size = 0
        more = True
        while more and size != self._announced:
            chunk, more = await self._next()
            size += len(chunk)
            if self._limit_of is not None and (size >= TOLD_BY or not more or size == self._announced):
                self._limit, self._limit_of = self._limit_of(b"".join([*chunks, chunk])[:TOLD_BY]), None
                if self._announced is not None and self._announced > self._limit:
                    raise too_large(self._limit)
            if size > (self._limit if self._limit_of is None else self._most):
                raise too_large(self._limit)
            room.take(len(chunk))
            chunks.append(chunk)
        self._left = False
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _next(self) -> tuple[bytes, bool]:
        """The next chunk, and whether more follow. Raises InvalidPayload when the client has gone away."""
        message: Any = await self._receive()
        if message["type"] == "http.disconnect":
            self._left = False
            raise InvalidPayload("The body ended early.", invalid=[("", "the body must be complete")])
        more = bool(message.get("more_body", False))
        self._left = more
        return message.get("body", b""), more

    async def discard(self, discarding: Discarding) -> None:
        """Read and forget what is still on its way of a refused body, within bounds.

        A connection that is closed with unread bytes is reset, and many clients lose the refusal with it. So one of
        moderate size is read to its end, without keeping it, as long as few others are; of others nothing is read.
        """
        if not self._left or self._waits or (self._announced or 0) > DISCARD_BYTES or discarding.now >= discarding.most:
            return
        discarding.now += 1
        try:
            with suppress(TimeoutError, InvalidPayload):
                async with asyncio.timeout(DISCARD_SECONDS):
                    await self._forget()
        finally:
            discarding.now -= 1

    async def _forget(self) -> None:
        size = 0
        while self._left and size < DISCARD_BYTES:
            chunk, _ = await self._next()
            size += len(chunk)


def arriving(operation: Operation, receive: Receive, headers: Mapping[str, str], deadlines: Deadlines) -> ArrivingBody:
    """The body of a request, with the limit of the form that its first bytes tell; `deadlines` are the process's."""

    def limit_of(begin: bytes) -> int:
        return most_of(operation.body.forms, headers, begin, operation.body.max_body)

    tell = limit_of if operation.body.forms else None
    return ArrivingBody(receive, headers, operation.body.max_body, operation.body.largest_form, tell, deadlines)


def _too_slow(reason: str) -> InvalidPayload:
    return InvalidPayload("The body did not arrive in time.", invalid=[("", reason)])


def too_large(limit: int) -> PayloadTooLarge:
    """The refusal of a body above `limit` bytes."""
    return PayloadTooLarge(max_bytes=limit)
