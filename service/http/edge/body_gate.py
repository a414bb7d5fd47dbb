"""The body gate: what every JSON body must be before anything looks at its meaning (reliability §4.9, threat 19).

The decoder behind it takes the last of two equal member names, keeps NUL and integers of any size, and fails in its
own ways on deep nesting and broken UTF-8. So the gate asks, over bytes, questions that cost little when the answer is
the usual one; only a body that looks unusual is taken apart. Tests hold it equal to a slow tokenizer.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any

import msgspec
from litestar.types import Receive

from service.auth.refusals import InvalidPayload
from service.http.edge.errors import PayloadTooLarge

MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1
BODY_SECONDS = 10.0
DISCARD_SECONDS = 1.0
DISCARD_BYTES = 8 * 1024 * 1024

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_INTEGER = re.compile(rb"(?<![0-9.eE+-])-?([0-9]{16,})(?![0-9.eE])")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ONE_BRACKET = bytes.maketrans(b"{}", b"[]")
_OPEN = ord("[")
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_INTEGER = b"0" * len(str(MAX_INTEGER))
_SHALLOW = 8

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def check_body(raw: bytes) -> Any:
    """Check one JSON text and return its value as plain objects. Raises InvalidPayload, whose details name the fault.

    Refused: what is not strict UTF-8 or not JSON, nesting beyond 64, a member name twice in one object (compared
    after unescaping), NUL, lone surrogates, and integers outside +-(2**53 - 1).
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _is_deep(raw):
        raise _fault("must not be nested deeper than 64 levels")
    if _LONG_INTEGER in raw.translate(_DIGITS_AS_ZERO) and _has_wide_integer(raw):
        raise _fault("must hold integers within +-(2^53 - 1) only")
    if b"\\u0000" in raw and _NUL.search(raw):
        raise _fault("must not hold the character NUL")
    try:
        value = _decode(raw)
    except UnicodeDecodeError:
        raise _fault("must be valid UTF-8") from None
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise _fault("must be one well-formed JSON value") from None
    if _has_duplicates(raw, value):
        raise _fault("must not name a member twice in one object")
    return value


def _fault(reason: str) -> InvalidPayload:
    return InvalidPayload("The body is not acceptable JSON.", invalid=[("", f"the body {reason}")])


def _outside_strings(raw: bytes) -> bytes:
    """What is left of a well-formed text without its strings; of any other, something that need not mean much."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")  # quotes that are left begin or end a string
    return b"".join(raw.split(b'"')[::2])


def _is_deep(raw: bytes) -> bool:
    """Whether brackets nest beyond the limit. Each replacement takes away the innermost level, most texts have few."""
    brackets = _outside_strings(raw).translate(_ONE_BRACKET, _NOT_BRACKETS)
    for _ in range(_SHALLOW):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    depth = _SHALLOW
    for bracket in brackets:
        depth += 1 if bracket == _OPEN else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _has_wide_integer(raw: bytes) -> bool:
    """Whether an integer is too large; its digits are counted before they are converted."""
    found = (match.group(1) for match in _INTEGER.finditer(_outside_strings(raw)))
    return any(len(digits) > len(_LONG_INTEGER) or int(digits) > MAX_INTEGER for digits in found)


def _has_duplicates(raw: bytes, value: Any) -> bool:
    """Whether decoding lost a member. A colon is part of each member; encoding again writes back those that are left.

    Strings keep their colons, except one that was written as an escape; such a text is compared without its strings.
    """
    if b"\\u003" not in raw:
        return raw.count(b":") != _encode(value).count(b":")
    return _outside_strings(raw).count(b":") != _outside_strings(_encode(value)).count(b":")


async def read_body(
    receive: Receive,
    content_length: str | None,
    limit: int,
    seconds: float = BODY_SECONDS,
) -> bytes:
    """Read a body of at most `limit` bytes within `seconds`, by Content-Length or in chunks.

    Raises PayloadTooLarge at the first byte beyond the limit (R-LIM-02), before anything is parsed, and
    InvalidPayload when the body does not end in time or the client goes away.
    """
    announced = int(content_length) if content_length is not None and content_length.isdigit() else None
    if announced == 0:
        return b""
    try:
        async with asyncio.timeout(seconds):
            if announced is None or announced <= limit:
                return await _receive_all(receive, announced, limit)
    except TimeoutError:
        raise InvalidPayload(
            "The body did not arrive in time.", invalid=[("", f"the body must arrive within {seconds:g} seconds")]
        ) from None
    await _discard(receive, announced)
    raise too_large(limit)


async def _receive_all(receive: Receive, announced: int | None, limit: int) -> bytes:
    """Collect the chunks. Raises PayloadTooLarge, and InvalidPayload when the client goes away."""
    chunks: list[bytes] = []
    size = 0
    more = True
    while more and size != announced:
        message: Any = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidPayload("The body ended early.", invalid=[("", "the body must be complete")])
        body = message.get("body", b"")
        more = message.get("more_body", False)
        chunks.append(body)
        size += len(body)
        if size > limit:
            if more:
                await _discard(receive, None)
            raise too_large(limit)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _discard(receive: Receive, announced: int | None) -> None:
    """Read and forget what is still on its way, within bounds.

    A connection that is closed with unread bytes is reset, and the client would lose the refusal with it.
    """
    if announced is not None and announced > DISCARD_BYTES:
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            size = 0
            while size < DISCARD_BYTES:
                message: Any = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def too_large(limit: int) -> PayloadTooLarge:
    """The refusal of a body above `limit` bytes."""
    return PayloadTooLarge(max_bytes=limit)
