"""Calls through the guard, over real sockets of this machine (G-150)."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from service.egress import lookups
from service.egress.exchange import MAX_BODY, MAX_HEAD, SENTENCES, NotReceived, Received, Request
from service.egress.guard import CALLERS, DEVELOPMENT, Guard, Reach
from service.egress.lookups import THREADS_OF_ACCOUNT, WAITING, Lookups
from tests.support.receiver import Behave, Receiver, Visit, answers, receiving, repeats

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
POST = Request("POST", {"content-type": "application/json"}, b'{"a":1}')
SECRET = b"not-for-us"
"""A byte string that receivers send, and that is nowhere in what is kept of a failure."""


def leading_to(*addresses: str) -> Callable[[str], Iterable[str]]:
    """A resolver that finds the same addresses for every name."""
    return lambda _: addresses


def guard(resolve: Callable[[str], Iterable[str]] | None = None) -> Guard:
    """A guard with a resolver; without one every name leads to loopback."""
    return Guard(Lookups(resolve or leading_to("127.0.0.1")))


async def call(
    receiver: Receiver,
    *,
    host: str = "hook.example",
    path: str = "/in?a=%20b",
    request: Request = POST,
    reach: Reach = DEVELOPMENT,
    seconds: float = 30,
    max_body: int = MAX_BODY,
    through: Guard | None = None,
) -> Received | NotReceived:
    """Call a receiver over plain HTTP."""
    return await (through or guard()).call(
        f"http://{host}:{receiver.port}{path}",
        request,
        account="a",
        reach=reach,
        seconds=seconds,
        max_body=max_body,
    )


async def test_what_is_sent() -> None:
    """The name in Host, no coding asked for, no connection kept, and nothing of the environment."""
    async with receiving(answers(OK)) as receiver:
        assert await call(receiver) == Received(200, b"hi", cut=False)
    head, body = receiver.requests[0].split(b"\r\n\r\n")
    first, *headers = head.split(b"\r\n")
    assert first == b"POST /in?a=%20b HTTP/1.1"
    assert sorted(headers) == [
        b"Accept-Encoding: identity".lower(),
        b"connection: close",
        b"content-length: 7",
        b"content-type: application/json",
        f"host: hook.example:{receiver.port}".encode(),
        b"user-agent: service/3",
    ]
    assert body == POST.body


async def test_any_status_is_an_answer() -> None:
    """Redirects too, which are not followed; cookies are not kept for the next call."""
    async with receiving(answers(OK)) as elsewhere:
        location = f"location: http://127.0.0.1:{elsewhere.port}/\r\n".encode()
        moved = b"HTTP/1.1 307 x\r\nset-cookie: a=b\r\ncontent-length: 0\r\n" + location + b"\r\n"
        async with receiving(answers(moved)) as receiver:
            through = guard()
            for _ in range(2):
                assert await call(receiver, through=through) == Received(307, b"", cut=False)
            assert receiver.connections == 2
            assert not any(b"cookie" in request.lower() for request in receiver.requests)
        assert elsewhere.connections == 0


@pytest.mark.parametrize(
    ("answer", "received"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", Received(204, b"", cut=False)),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + OK, Received(200, b"hi", cut=False)),
        (b"HTTP/1.0 500 Oops\r\n\r\nhi", Received(500, b"hi", cut=False)),
        (b"HTTP/1.0 429 No\r\nRetry-After: \xb2 7\r\n\r\n", Received(429, b"", cut=False, retry_after="\xb2 7")),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\na: b\r\n\r\n",
            Received(200, b"hi", cut=False),
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi", NotReceived("closed")),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhi", NotReceived("closed")),
        (b"HTTP/1.1 200 OK\r\ncontent-le", NotReceived("closed")),
        (b"", NotReceived("closed")),
        (b"SSH-2.0-" + SECRET + b"\r\n\r\n", NotReceived("malformed")),
        (b"HTTP/1.1 200 OK\r\n" + SECRET + b"\r\n\r\n", NotReceived("malformed")),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nhi", NotReceived("malformed")),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", NotReceived("malformed")),
        (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n", NotReceived("malformed")),
    ],
)
async def test_answers(answer: bytes, received: Received | NotReceived) -> None:
    """Whole ones, in whatever form HTTP/1 has, and ones that are none."""

    async def behave(visit: Visit) -> None:
        await visit.send(answer)
        visit.writer.write_eof()
        await visit.gone()

    async with receiving(behave) as receiver:
        assert await call(receiver) == received


async def test_one_who_answers_before_reading() -> None:
    """An answer counts, whether or not the request was read."""
    over = asyncio.Event()

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 413 No\r\ncontent-length: 0\r\n\r\n")
        await over.wait()
        writer.transport.abort()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    receiver = Receiver(server.sockets[0].getsockname()[1])
    large = Request("POST", {}, b"x" * 20_000_000)
    assert await call(receiver, request=large) == Received(413, b"", cut=False)
    over.set()
    server.close()
    await asyncio.sleep(0)


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("behave", "received"),
    [
        (repeats(HEAD, b"x-a: " + b"b" * 1000 + b"\r\n"), NotReceived("head")),
        (repeats(HEAD + b"x-a: ", b"b" * 1000), NotReceived("head")),
        (repeats(b"", b"b" * 1000), NotReceived("head")),
        (repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), NotReceived("head")),
        (
            repeats(HEAD + b"content-length: 10000000000\r\n\r\n", b"b" * 65536),
            Received(200, b"b" * MAX_BODY, cut=True),
        ),
        (repeats(HEAD + b"\r\n", b"b" * 65536), Received(200, b"b" * MAX_BODY, cut=True)),
        (
            repeats(HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1000\r\n" + b"b" * 4096 + b"\r\n"),
            Received(200, b"b" * MAX_BODY, cut=True),
        ),
    ],
    ids=["headers", "header", "no head", "informational", "sized", "unsized", "chunked"],
)
async def test_what_never_ends_is_cut(behave: Behave, received: Received | NotReceived) -> None:
    """16 KiB of head and 64 KiB of body are read, and the connection is closed."""
    async with receiving(behave) as receiver:
        assert await call(receiver) == received
        await receiver.left()


async def test_wrapping_counts_as_well() -> None:
    """Chunks of one byte with long extensions are cut by what they take on the wire."""
    chunk = b"1;" + b"x" * 8000 + b"\r\nb\r\n"
    async with receiving(repeats(HEAD + b"transfer-encoding: chunked\r\n\r\n", chunk)) as receiver:
        received = await call(receiver)
    assert isinstance(received, Received)
    assert received.cut
    assert set(received.body) == {ord("b")}
    assert len(received.body) * len(chunk) < 2 * MAX_BODY + 2 * MAX_HEAD + len(chunk)


async def test_the_bounds_themselves_are_allowed() -> None:
    """A head and a body of just these sizes are read whole, one byte more of either is not."""
    for head_more, body_more, kind in ((0, 0, "whole"), (1, 0, "head"), (0, 1, "cut")):
        size = MAX_BODY + body_more
        start = HEAD + f"content-length: {size}\r\nx: ".encode()
        head = start + b"y" * (MAX_HEAD + head_more - len(start) - 4) + b"\r\n\r\n"
        async with receiving(answers(head + b"b" * size)) as receiver:
            received = await call(receiver)
        if kind == "head":
            assert received == NotReceived("head")
        else:
            assert received == Received(200, b"b" * MAX_BODY, cut=kind == "cut")


async def test_the_bound_of_a_body_is_the_call_s() -> None:
    """Somebody who wants nothing of a body, and somebody who wants much."""
    body = b"b" * 3_000_000
    whole = HEAD + f"content-length: {len(body)}\r\n\r\n".encode() + body
    async with receiving(answers(whole)) as receiver:
        assert await call(receiver, max_body=0) == Received(200, b"", cut=True)
        assert await call(receiver, max_body=len(body)) == Received(200, body, cut=False)


async def test_a_packed_answer_stays_packed() -> None:
    """A gzip bomb is a small body, of whatever it would unpack to."""
    bomb = gzip.compress(b"\0" * 30_000_000)
    assert len(bomb) < MAX_BODY
    head = HEAD + f"content-encoding: gzip\r\ncontent-length: {len(bomb)}\r\n\r\n".encode()
    async with receiving(answers(head + bomb)) as receiver:
        assert await call(receiver) == Received(200, bomb, cut=False)


@pytest.mark.parametrize(
    "behave",
    [
        answers(),
        answers(HEAD),
        answers(HEAD + b"content-length: 9\r\n\r\n"),
        repeats(HEAD + b"x-a: ", b"b", every=0.01),
        repeats(HEAD + b"\r\n", b"b", every=0.01),
    ],
    ids=["nothing", "no head", "no body", "dripping head", "dripping body"],
)
async def test_all_ends_in_time(behave: Behave) -> None:
    """Whoever sends nothing, or byte after byte, is left at the end of the whole time."""
    async with receiving(behave) as receiver:
        begun = time.monotonic()
        assert await call(receiver, seconds=0.5) == NotReceived("timeout")
        assert time.monotonic() - begun >= 0.5
        await receiver.left()


async def test_the_look_up_counts_too() -> None:
    """A name whose server hangs ends with the call, and the address is not called later."""
    release = threading.Event()

    def hang(_: str) -> list[str]:
        release.wait(60)
        return ["127.0.0.1"]

    async with receiving(answers(OK)) as receiver:
        assert await call(receiver, through=guard(hang), seconds=0.2) == NotReceived("timeout")
        release.set()
        assert await call(receiver) == Received(200, b"hi", cut=False)
        assert receiver.connections == 1


async def test_a_look_up_has_a_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Much shorter than the call's. At registration, https is judged later; http would need a known address."""
    monkeypatch.setattr(lookups, "LOOKUP_SECONDS", 0.1)
    release = threading.Event()

    def hang(host: str) -> list[str]:
        if host.startswith("unknown"):
            raise socket.gaierror
        release.wait(60)
        return ["127.0.0.1"]

    through = guard(hang)
    async with receiving(answers(OK)) as receiver:
        assert await call(receiver, through=through) == NotReceived("slow_name")
        for host in ("hook.example", "unknown.example"):
            assert await through.refusal(f"https://{host}/", "a", DEVELOPMENT) is None
            reason = await through.refusal(f"http://{host}/", "a", DEVELOPMENT)
            assert reason == "must begin with https://, unless it leads to loopback"
        assert receiver.connections == 0
    release.set()


async def test_a_full_line_of_look_ups() -> None:
    """An account whose look-ups hang is told so; another one is answered."""
    release = threading.Event()

    def hang(host: str) -> list[str]:
        if host.startswith("slow"):
            release.wait(60)
        return ["127.0.0.1"]

    through = guard(hang)
    async with receiving(answers(OK)) as receiver:
        calls = THREADS_OF_ACCOUNT + WAITING
        waiting = [
            asyncio.create_task(call(receiver, host=f"slow-{number}.example", through=through))
            for number in range(calls)
        ]
        await asyncio.sleep(0)  # each of them takes a thread or its place in the line
        assert await call(receiver, through=through) == NotReceived("busy")
        url = f"http://hook.example:{receiver.port}"
        assert await through.call(url, POST, account="b", reach=DEVELOPMENT) == Received(200, b"hi", cut=False)
        assert await through.refusal(url, "a", CALLERS) is not None
        assert await through.refusal(url.replace("http:", "https:"), "a", CALLERS) is None, "judged when it is called"
        release.set()
        await asyncio.gather(*waiting)


async def test_the_next_address_is_tried() -> None:
    """An address at which nobody listens does not end the call while there are others; four are tried."""
    async with receiving(answers(OK)) as receiver:
        second = guard(leading_to("127.0.0.2", "127.0.0.1"))
        assert await call(receiver, through=second) == Received(200, b"hi", cut=False)
        fifth = guard(leading_to(*(f"127.0.0.{number}" for number in (2, 3, 4, 5, 1))))
        assert await call(receiver, through=fifth) == NotReceived("unreachable")
        assert receiver.connections == 1


async def test_an_address_that_does_not_answer_leaves_time_for_the_next() -> None:
    """A listener whose queue is full answers no connection; the next one gets its half of the time."""
    async with receiving(answers(OK)) as receiver:
        with socket.socket() as full:
            full.bind(("127.0.0.2", receiver.port))
            full.listen(0)
            with socket.create_connection(("127.0.0.2", receiver.port)):
                through = guard(leading_to("127.0.0.2", "127.0.0.1"))
                assert await call(receiver, through=through, seconds=2) == Received(200, b"hi", cut=False)
                alone = guard(leading_to("127.0.0.2"))
                assert await call(receiver, through=alone, seconds=0.3) == NotReceived("timeout")


async def test_a_connection_that_breaks() -> None:
    """A reset while an answer is read is an end before its time."""

    async def behave(visit: Visit) -> None:
        await visit.send(HEAD)
        visit.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        visit.writer.transport.abort()

    async with receiving(behave) as receiver:
        assert await call(receiver) == NotReceived("closed")


async def test_a_header_that_is_none_is_our_mistake() -> None:
    """What HTTP does not carry is not sent."""
    async with receiving(answers(OK)) as receiver:
        with pytest.raises(ValueError, match="a header"):
            await call(receiver, request=Request("POST", {"x-a": "b\r\nx-c: d"}, b""))
        assert receiver.requests == []


def test_what_is_kept_of_a_failure_is_ours() -> None:
    """Every reason has one fixed sentence, which fits where the last error of a webhook is kept."""
    assert len(set(SENTENCES.values())) == len(SENTENCES)
    for reason, sentence in SENTENCES.items():
        assert NotReceived(reason).sentence == sentence
        assert sentence.endswith(".")
        assert len(sentence) <= 500
