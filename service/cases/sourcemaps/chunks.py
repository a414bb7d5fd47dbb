"""Parts of bundles, as `sentry-cli` sends them before it says what they are: named by their SHA-1, and forgotten soon.

They belong to the person whose key was used, whatever the path says: another can neither use nor find them.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, NamedTuple

from service.auth.principals import Principal
from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable, Unauthenticated
from service.cases.sourcemaps import blobs
from service.cases.sourcemaps.blobs import Worker
from service.eventstore.connect.facts import NOT_WRITTEN, Facts
from service.eventstore.store import EventStore
from service.multipart import MOST_HEADER, MalformedForm, boundary_of, place_of
from service.sql import load_query

CHUNK_BYTES = 1024 * 1024
CHUNKS_A_REQUEST = 4
MOST_REQUEST = CHUNK_BYTES * CHUNKS_A_REQUEST + 64 * 1024  # bytes of a body, with what separates its parts
MOST_HELD = 256 * 1024 * 1024
"""Bytes of one person's parts that wait to be named."""
MOST_PARTS = 64  # of a request, those of other names included

_HELD = load_query("cases/sourcemaps", "chunk_bytes")
_STORE = load_query("cases/sourcemaps", "store_chunk")
_THERE = load_query("cases/sourcemaps", "chunks_there")
_ONE = load_query("cases/sourcemaps", "chunk")
_FORGET = load_query("cases/sourcemaps", "forget_chunks")

_BLANK = b"\r\n\r\n"


class Chunk(NamedTuple):
    """A part: its SHA-1 in hex, its bytes, and these compressed."""

    id: str
    size: int
    packed: bytes


class TooMuchHeld(Refusal):
    """More parts wait to be named than may."""

    code = "payload_too_large"

    def __init__(self) -> None:
        super().__init__(
            "Too many bundle parts are waiting to be assembled. They expire within an hour.", max_bytes=MOST_HELD
        )


def read_form(content_type: str, body: bytes) -> list[Chunk]:
    """Take the parts out of a form. Raises InvalidPayload for what is no form, and for parts with other names.

    One that comes packed is unpacked no further than a part may be large.
    """
    try:
        return [_chunk(part) for part in _parts(content_type, body)]
    except MalformedForm as fault:
        raise _bad(str(fault)) from None


class _Part(NamedTuple):
    name: str
    packed: bool
    content: bytes


def _chunk(part: _Part) -> Chunk:
    name, content = part.name, _unpacked(part.content) if part.packed else part.content
    if len(content) > CHUNK_BYTES:
        raise _bad(f"must hold parts of at most {CHUNK_BYTES} bytes")
    if hashlib.sha1(content, usedforsecurity=False).hexdigest() != name:
        raise _bad("must name each part after the SHA-1 of its bytes")
    return Chunk(name, len(content), blobs.pack(content))


def _unpacked(part: bytes) -> bytes:
    try:
        unpacker = zlib.decompressobj(wbits=31)
        content = unpacker.decompress(part, CHUNK_BYTES + 1)
    except zlib.error:
        raise _bad("must hold file_gzip parts that are packed with gzip") from None
    if len(content) <= CHUNK_BYTES and not unpacker.eof:
        raise _bad("must hold whole file_gzip parts")
    return content


def _parts(content_type: str, body: bytes) -> Iterator[_Part]:
    """The files of a multipart body (RFC 7578). Raises InvalidPayload, and MalformedForm."""
    boundary = boundary_of(content_type)
    if boundary is None:
        raise _bad("must be multipart/form-data")
    pieces = (b"\r\n" + body).split(boundary, MOST_PARTS + 2)
    if len(pieces) > MOST_PARTS + 1 or len(pieces) < 2 or not pieces[-1].startswith(b"--"):  # noqa: PLR2004
        raise _bad("must be a whole form of few parts")
    for piece in pieces[1:-1]:
        begin = len(b"\r\n") if piece.startswith(b"\r\n") else 0
        end = piece.find(_BLANK, begin, begin + MOST_HEADER + len(_BLANK))
        if end < 0:
            raise _bad(f"must have parts whose headers end within {MOST_HEADER} bytes")
        described = place_of(piece[begin:end])
        field, name = described.get("name"), described.get("filename")
        if field in {"file", "file_gzip"} and name is not None:
            yield _Part(name, field == "file_gzip", piece[end + len(_BLANK) :])


def _bad(reason: str) -> InvalidPayload:
    return InvalidPayload("The body is not the multipart form of this operation.", invalid=[("", f"the body {reason}")])


async def store_form(
    store: EventStore, worker: Worker, who: Principal, content_type: str, body: bytes
) -> Sequence[Chunk]:
    """Keep the parts of a person's form for a while.

    Raises as `read_form`, TooMuchHeld, Unauthenticated when the key has ended meanwhile, and ServiceUnavailable.
    """
    user_id = who.user_id
    assert user_id is not None, "parts belong to people"
    chunks = await worker.run(user_id, partial(read_form, content_type, body))
    [[held]] = await store.fetch(_HELD, user_id=user_id)
    if held + sum(chunk.size for chunk in chunks) > MOST_HELD:
        raise TooMuchHeld
    try:
        async with store.facts.connection() as connection:
            for chunk in chunks:
                values = {
                    "user_id": user_id,
                    "key_id": who.id,
                    "digest": who.secret_hash,
                    "id": chunk.id,
                    "size": chunk.size,
                    "content": chunk.packed,
                }
                if not (await connection.execute(_STORE, values)).rowcount:
                    raise Unauthenticated
    except NOT_WRITTEN as error:
        raise ServiceUnavailable from error
    return chunks


async def missing(store: EventStore, user_id: str, wanted: Sequence[str]) -> list[str]:
    """Which parts a person has not sent, or not lately, in the order in which they are wanted."""
    there = {name for (name,) in await store.fetch(_THERE, user_id=user_id, ids=list(wanted))}
    return [name for name in wanted if name not in there]


async def copy(store: EventStore, worker: Worker, user_id: str, wanted: Iterable[str], to: BinaryIO) -> str | None:
    """Put parts together in a file, one after the other; returns the SHA-1 of all, None when one has just gone."""
    digest = hashlib.sha1(usedforsecurity=False)

    def append(packed: bytes) -> None:
        content = blobs.unpack(packed, CHUNK_BYTES)
        digest.update(content)
        to.write(content)

    for name in wanted:
        rows = await store.fetch(_ONE, user_id=user_id, id=name)
        if not rows:
            return None
        await worker.run(user_id, partial(append, rows[0][0]))
    return digest.hexdigest()


async def forget(facts: Facts, user_id: str, used: Sequence[str]) -> None:
    """Delete parts that are stored elsewhere by now. When the database cannot do so, they go by time."""
    try:
        async with facts.connection() as connection:
            await connection.execute(_FORGET, {"user_id": user_id, "ids": list(used)})
    except NOT_WRITTEN:
        return
