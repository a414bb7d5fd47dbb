"""Bodies are read to their limit and no further, take their place in the process, and are let go of in bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from service.auth.refusals import InvalidPayload, ServiceUnavailable
from service.fairness.semaphore import FairSemaphore
from service.http.answer.errors import PayloadTooLarge, RateLimited
from service.http.body.read_limited import DISCARD_BYTES, ArrivingBody, Discarding, body_room
from service.http.edge.routes import all_endpoints

CHUNKED = {"transfer-encoding": "chunked"}


def announced(size: int) -> dict[str, str]:
    return {"content-length": str(size)}


def receiving(*chunks: bytes, pause: float = 0.0, end: bool = True) -> Callable[[], Awaitable[Any]]:
    """An ASGI receive that gives chunks, then an empty last one (or nothing any more)."""

    async def messages() -> AsyncIterator[dict[str, Any]]:
        for chunk in chunks:
            await asyncio.sleep(pause)
            yield {"type": "http.request", "body": chunk, "more_body": True}
        if end:
            yield {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.sleep(60)

    stream = messages()
    return stream.__anext__


async def test_the_first_bytes_tell_the_limit() -> None:
    """A body of another form may be larger, in whatever chunks it comes; its beginning is looked at once."""

    def limit_of(begin: bytes) -> int:
        return 4096 if begin.startswith(b"[") else 1024

    for first, limit in ((b"[", 4096), (b"{", 1024)):
        for size in (limit, limit + 1):
            body = first + b"x" * (size - 1)
            chunks = [body[at : at + 100] for at in range(0, size, 100)]
            for head in (CHUNKED, announced(size)):
                arriving = ArrivingBody(receiving(*chunks), head, 1024, 4096, limit_of)
                if size == limit:
                    assert await read(arriving) == body
                    continue
                with pytest.raises(PayloadTooLarge) as refused:
                    await read(arriving)
                told = 1024 if size > 4096 and head is not CHUNKED else limit  # Its beginning was not looked at.
                assert refused.value.details == {"max_bytes": told}


async def test_a_body_within_its_operations_limit_is_not_asked_for_its_form() -> None:
    """No form of any operation has a lower limit than the operation, so it may be as large whatever it is."""
    operations = [endpoint.operation for endpoint in all_endpoints()]
    assert sum(len(one.body.forms) for one in operations) > 4
    assert all(form.max_body >= one.body.max_body for one in operations for form in one.body.forms)

    def asked(_: bytes) -> int:
        raise AssertionError

    assert await read(ArrivingBody(receiving(b"x" * 1024), announced(1024), 1024, 4096, asked)) == b"x" * 1024
    with pytest.raises(AssertionError):
        await read(ArrivingBody(receiving(b"x" * 1025), announced(1025), 1024, 4096, asked))


async def unread() -> Any:
    raise AssertionError("read")


async def read(body: ArrivingBody, room: FairSemaphore | None = None, seconds: float = 10.0) -> bytes:
    body.check_size()
    with (room or body_room()).of("usr_1") as place:
        return await body.read(place, seconds)


@pytest.mark.parametrize("headers", [announced, lambda _: CHUNKED], ids=["announced", "chunked"])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 9000])
async def test_limit_is_exact_for_announced_and_chunked_bodies(
    headers: Callable[[int], dict[str, str]], size: int
) -> None:
    """4096 bytes pass and one more is refused, however the body comes (R-LIM-02)."""
    whole = b"x" * size
    chunks = [whole[at : at + 1000] for at in range(0, size, 1000)]
    body = ArrivingBody(receiving(*chunks), headers(size), 4096)
    if size > 4096:
        with pytest.raises(PayloadTooLarge) as refused:
            await read(body)
        assert refused.value.details == {"max_bytes": 4096}
    else:
        assert await read(body) == whole


def test_a_size_that_is_announced_refuses_before_anything_is_read() -> None:
    """Content-Length alone does, so that it comes before the credential (G-007)."""
    with pytest.raises(PayloadTooLarge):
        ArrivingBody(unread, announced(4097), 4096).check_size()
    ArrivingBody(unread, announced(4096), 4096).check_size()
    ArrivingBody(unread, CHUNKED, 4096).check_size()


async def test_a_refused_body_is_read_to_its_end_and_forgotten() -> None:
    """Else the connection is reset and the refusal lost with it."""
    for headers in (announced(9000), CHUNKED):
        left = [b"x" * 1000] * 9

        async def receive(left: list[bytes] = left) -> Any:
            return {"type": "http.request", "body": left.pop(), "more_body": bool(left)}

        await ArrivingBody(receive, headers, 4096).discard(Discarding())
        assert left == []


@pytest.mark.parametrize(
    "headers",
    [
        announced(DISCARD_BYTES + 1),
        {},
        {"content-length": "0"},
        {**announced(10), "expect": "100-continue"},  # its sender waits to be asked for it
    ],
)
async def test_nothing_is_read_of_what_is_huge_absent_or_not_sent_yet(headers: dict[str, str]) -> None:
    await ArrivingBody(unread, headers, 4096).discard(Discarding())


async def test_few_refused_bodies_are_read_at_once() -> None:
    """Of the others nothing is: a flood of them costs no more than its heads."""
    discarding = Discarding(most=1)
    slow = asyncio.create_task(ArrivingBody(receiving(b"x", end=False), announced(9), 4096).discard(discarding))
    await asyncio.sleep(0.01)
    assert discarding.now == 1
    await ArrivingBody(unread, announced(9), 4096).discard(discarding)
    slow.cancel()
    await asyncio.wait({slow})
    assert discarding.now == 0


async def test_an_endless_body_is_not_read_for_ever() -> None:
    """Forgetting has its bound too."""
    count = 0

    async def receive() -> Any:
        nonlocal count
        count += 1
        return {"type": "http.request", "body": b"x" * 65536, "more_body": True}

    body = ArrivingBody(receive, CHUNKED, 4096)
    with pytest.raises(PayloadTooLarge):
        await read(body)
    await body.discard(Discarding())
    assert count <= DISCARD_BYTES // 65536 + 2


async def test_a_slow_body_is_given_up() -> None:
    """A body that trickles is refused when its time is over, not when it ends."""
    with pytest.raises(InvalidPayload):
        await read(ArrivingBody(receiving(*[b"x"] * 100, pause=0.02), CHUNKED, 4096), seconds=0.1)


async def test_a_body_that_never_ends_is_given_up() -> None:
    """So is one whose end does not come."""
    with pytest.raises(InvalidPayload):
        await read(ArrivingBody(receiving(b"x", end=False), announced(2), 4096), seconds=0.05)


async def test_a_client_that_leaves_is_not_waited_for() -> None:
    """A disconnect ends the reading, and there is nothing to forget."""

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    body = ArrivingBody(receive, announced(2), 4096)
    with pytest.raises(InvalidPayload):
        await read(body)
    body._receive = unread
    await body.discard(Discarding())


async def test_bytes_are_counted_as_they_come_and_given_back_in_the_end() -> None:
    """What is only announced takes nothing; what a refusal interrupts is given back too."""
    room = body_room(total=100, share=60)
    with room.of("usr_1") as place:
        assert (
            await ArrivingBody(receiving(b"x" * 40, b"y" * 20), announced(60), 4096).read(place)
            == b"x" * 40 + b"y" * 20
        )
        assert (room.held, len(room)) == (60, 1)
        slow = ArrivingBody(receiving(end=False), announced(40), 4096)
        with room.of("usr_2") as other, pytest.raises(InvalidPayload):
            await slow.read(other, 0.01)
        assert room.held == 60
    with room.of("usr_1") as place, pytest.raises(RateLimited):
        await ArrivingBody(receiving(b"x" * 40, b"y" * 21), CHUNKED, 4096).read(place)
    assert (room.held, len(room)) == (0, 0)


async def test_nobody_takes_the_whole_room() -> None:
    """A holder beyond its share is told to send less at a time, a process without room refuses everybody, unread."""
    room = body_room(total=100, share=60)
    with room.of("usr_1") as first, room.of("usr_1") as second, room.of("usr_2") as third, room.of("usr_3") as fourth:
        first.take(50)
        with pytest.raises(RateLimited) as refused:
            await ArrivingBody(unread, announced(11), 4096).read(second)
        assert refused.value.details == {"max_bytes_in_flight": 60}
        third.take(45)
        with pytest.raises(ServiceUnavailable):
            await ArrivingBody(unread, announced(6), 4096).read(fourth)
        assert await ArrivingBody(receiving(b"12345"), announced(5), 4096).read(fourth) == b"12345"
        assert room.held == 100
    assert (room.held, len(room)) == (0, 0)
