"""The body gate agrees with a slow tokenizer on every text, and gives up on bodies that are too long or too slow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.auth.refusals import InvalidPayload
from service.http.edge.body_gate import DISCARD_BYTES, check_body, read_body
from service.http.edge.errors import PayloadTooLarge
from tests.service.http.edge import slow_json

NAMES = st.text(alphabet='ab:\\"u0d{[é\U0001f600', max_size=4)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) - 2, 2**53 + 2),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    NAMES,
)


class Pairs(list[tuple[str, Any]]):
    """An object whose members may repeat a name."""


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.lists(st.tuples(NAMES, inner), max_size=4).map(Pairs)


VALUES = st.recursive(LEAVES, containers, max_leaves=20)


def write(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """Spell a value as JSON, choosing escapes and white space at random."""
    if isinstance(value, Pairs):
        space = draw(st.sampled_from(["", " ", "\n"]))
        return "{" + ",".join(f"{spell(k, draw)}{space}:{space}{write(v, draw)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write(item, draw) for item in value) + "]"
    return spell(value, draw) if isinstance(value, str) else json.dumps(value)


def spell(text: str, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    style = draw(st.integers(0, 2))
    if style == 0:
        return json.dumps(text, ensure_ascii=False)
    if style == 1:
        return json.dumps(text)
    return '"' + "".join(json.dumps(char)[1:-1] if ord(char) > 0xFFFF else f"\\u{ord(char):04x}" for char in text) + '"'


@st.composite
def texts(draw: Any) -> bytes:
    """JSON texts, some of them damaged by an inserted, changed or dropped byte."""
    raw = bytearray(write(draw(VALUES), draw).encode())
    for _ in range(draw(st.integers(0, 2))):
        where = draw(st.integers(0, len(raw)))
        how = draw(st.sampled_from(["drop", "insert"]))
        if how == "drop":
            del raw[where : where + 1]
        else:
            raw[where:where] = draw(st.sampled_from(NASTY))
    return bytes(raw)


NASTY = [
    b"\x00",
    b'"',
    b"\\",
    b"\\u0000",
    b"\\\\u0000",
    b"\\u003a",
    b"\\\\u003a",
    b"\\ud800",
    b"\\udc00",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"{",
    b"]",
    b",",
    b":",
    b"9007199254740992",
    b"0",
    b"1e400",
    b"NaN",
    b"-",
    b".",
    b"/",
    b"\n",
    b"\x7f",
]


def judge(raw: bytes) -> tuple[bool, Any]:
    try:
        return True, slow_json.read(raw)
    except slow_json.Unacceptable:
        return False, None


@settings(max_examples=1500, deadline=None)
@given(texts() | st.binary(max_size=60) | st.text(alphabet='{}[]":,\\u0031eE+-. tfn', max_size=30).map(str.encode))
@example(b'{"a":1,"\\u0061":2}')
@example(b'{"a:":1,"b":2}')
@example(b'{"\\u003a":1,"\\u003a":2}')
@example(b'{"\\\\u003a":1}')
@example(b'{"a":"\\\\u0000"}')
@example(b'{"a":"\\\\\\u0000"}')
@example(b"[9007199254740991,-9007199254740991]")
@example(b"[9007199254740992]")
@example(b"[-9007199254740992]")
@example(b'["9007199254740992"]')
@example(b"[9007199254740992.0]")
@example(b"[1e400]")
@example(b"1" * 5000)
@example(b"[1." + b"1" * 5000 + b"]")
@example(b"[" * 64 + b"]" * 64)
@example(b"[" * 65 + b"]" * 65)
@example(b'{"a":' * 64 + b"1" + b"}" * 64)
@example(b'{"a":[' * 33 + b"1" + b"]}" * 33)
@example(b"[" * 100_000)
@example(b'{"a":' * 50_000)
@example(b'["' + b"[" * 1000 + b'"]')
@example(b"[" + b"[]," * 1000 + b"[]]")
def test_gate_agrees_with_the_slow_reader(raw: bytes) -> None:
    """A text passes exactly when the slow reader accepts it, and has the same value."""
    accepted, value = judge(raw)
    if accepted:
        passed = check_body(raw)
        assert passed == value
        assert json.dumps(passed) == json.dumps(value)
    else:
        with pytest.raises(InvalidPayload):
            check_body(raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"[" * 65 + b"]" * 65, "nested"),
        (b"[9007199254740992]", "integers"),
        (b'"\\u0000"', "NUL"),
        (b'"\xff"', "UTF-8"),
        (b"{", "well-formed"),
        (b'{"a":1,"a":1}', "twice"),
    ],
)
def test_refusal_says_what_is_wrong(raw: bytes, reason: str) -> None:
    """Each fault has its own reason, made of no byte of the body."""
    with pytest.raises(InvalidPayload) as refused:
        check_body(raw)
    [fault] = refused.value.details["invalid_fields"]
    assert reason in fault["reason"]


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 1_048_576,
        b"[]" * 524_288,
        b'"' * 1_048_576,
        b'"' + b"\\" * 1_048_574 + b'"',
        b'["' + b'\\"' * 500_000 + b'"]',
        b"[" + b"9" * 1_000_000 + b"]",
        b"[" + b"-" * 1_000_000 + b"]",
        b"[" + b"1e" * 500_000 + b"]",
        b'{"a":"' + b"\\\\" * 500_000 + b'\\u0000"}',
        b"[" + b"[" * 60 + b"]" * 60 + (b",[" + b"[" * 60 + b"]" * 60 + b"]") * 8000 + b"]",
    ],
)
def test_no_text_takes_long(raw: bytes) -> None:
    """The largest hostile bodies are judged in a fraction of a second."""
    started = time.perf_counter()
    with contextlib.suppress(InvalidPayload):
        check_body(raw)
    assert time.perf_counter() - started < 2


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


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 9000])
async def test_limit_is_exact_for_announced_and_chunked_bodies(announced: bool, size: int) -> None:
    """4096 bytes pass and one more is refused, however the body comes (R-LIM-02)."""
    body = b"x" * size
    chunks = [body[at : at + 1000] for at in range(0, size, 1000)]
    reading = read_body(receiving(*chunks), str(size) if announced else None, 4096)
    if size > 4096:
        with pytest.raises(PayloadTooLarge) as refused:
            await reading
        assert refused.value.details == {"max_bytes": 4096}
    else:
        assert await reading == body


async def test_nothing_is_read_of_a_body_announced_as_huge() -> None:
    """Content-Length alone refuses."""

    async def receive() -> Any:
        raise AssertionError("read")

    with pytest.raises(PayloadTooLarge):
        await read_body(receive, str(DISCARD_BYTES + 1), 4096)


async def test_what_is_too_large_is_read_to_its_end_and_forgotten() -> None:
    """Else the connection is reset and the refusal lost with it."""
    for announced in ("9000", None):
        left = [b"x" * 1000] * 9

        async def receive(left: list[bytes] = left) -> Any:
            return {"type": "http.request", "body": left.pop(), "more_body": bool(left)}

        with pytest.raises(PayloadTooLarge):
            await read_body(receive, announced, 4096)
        assert left == []


async def test_an_endless_body_is_not_read_for_ever() -> None:
    """Forgetting has its bound too."""
    count = 0

    async def receive() -> Any:
        nonlocal count
        count += 1
        return {"type": "http.request", "body": b"x" * 65536, "more_body": True}

    with pytest.raises(PayloadTooLarge):
        await read_body(receive, None, 4096)
    assert count <= DISCARD_BYTES // 65536 + 2


async def test_a_slow_body_is_given_up() -> None:
    """A body that trickles is refused when its time is over, not when it ends."""
    started = time.perf_counter()
    with pytest.raises(InvalidPayload):
        await read_body(receiving(*[b"x"] * 100, pause=0.02), None, 4096, seconds=0.1)
    assert time.perf_counter() - started < 2


async def test_a_body_that_never_ends_is_given_up() -> None:
    """So is one whose end does not come."""
    with pytest.raises(InvalidPayload):
        await read_body(receiving(b"x", end=False), "2", 4096, seconds=0.05)


async def test_a_client_that_leaves_is_not_waited_for() -> None:
    """A disconnect ends the reading."""

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(InvalidPayload):
        await read_body(receive, "2", 4096)
