"""Bundles of source maps: their parts, the archives that `sentry-cli` makes, and their files in projects (G-141).

They belong to the person whose key was used, whatever the path says: another can neither use nor find them.
"""

import hashlib
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Literal, NamedTuple, cast
from urllib.parse import urljoin

import msgspec

from schemas.cases.source_map import MAX_MAP_BYTES, SourceMapKind
from service.auth.authority import Principal
from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable, Unauthenticated
from service.cases.sourcemaps import blobs, keeping
from service.eventstore.connect.facts import NOT_WRITTEN, Facts
from service.eventstore.declare.commands import Intent
from service.eventstore.store import EventStore
from service.fairness.bounds import FairBounds
from service.fairness.semaphore import FairSemaphore
from service.multipart import MOST_HEADER, MalformedForm, boundary_of, place_of
from service.sql import load_query

# Parts of bundles, as `sentry-cli` sends them before it says what they are: named by their SHA-1, and forgotten
# soon.

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
        field, name = place_of(piece[begin:end])
        if field in {"file", "file_gzip"} and name is not None:
            yield _Part(name, field == "file_gzip", piece[end + len(_BLANK) :])


def _bad(reason: str) -> InvalidPayload:
    return InvalidPayload("The body is not the multipart form of this operation.", invalid=[("", f"the body {reason}")])


async def store_form(
    store: EventStore, worker: blobs.Worker, who: Principal, content_type: str, body: bytes
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


async def missing_chunks(store: EventStore, user_id: str, wanted: Sequence[str]) -> list[str]:
    """Which parts a person has not sent, or not lately, in the order in which they are wanted."""
    there = {name for (name,) in await store.fetch(_THERE, user_id=user_id, ids=list(wanted))}
    return [name for name in wanted if name not in there]


async def copy(
    store: EventStore, worker: blobs.Worker, user_id: str, wanted: Iterable[str], to: BinaryIO
) -> str | None:
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


# Bundles of source maps as `sentry-cli` makes them: an archive with a manifest (its artifact bundles). Nothing that
# an archive says of itself is believed: its directory is read up to a bound, entries are unpacked step by step up to
# what a file may be large, all of them up to what a bundle may, and their names are looked up in the manifest and
# never used as paths.

MOST_BUNDLE = 128 * 1024 * 1024
"""Bytes of a bundle as it is sent."""
MOST_UNPACKED = 512 * 1024 * 1024
"""Bytes of all its files together."""
MOST_ENTRIES = 4000
MOST_DIRECTORY = 1024 * 1024
"""Bytes of the directory of a bundle, which is read as a whole: its entries take hundreds of times as much memory."""
STEP = 64 * 1024
"""Bytes that are unpacked at once."""
MOST_MANIFEST = 4 * 1024 * 1024
MOST_NAME = 1000

_KINDS: Mapping[str, SourceMapKind] = {"minified_source": "minified_source", "source_map": "source_map"}
_METHODS: Mapping[int, str] = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflated"}
"""Ways in which a file may be packed. Of the others some unpack a few hundred bytes to a gigabyte in one step."""
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, RuntimeError, OverflowError,
)  # fmt: skip
"""What an archive that is broken raises when it is read."""
_DEBUG_ID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}(?:-0)?")


class BadBundle(Exception):
    """What is no bundle, or one with more in it than is taken; the text says why, to whoever sent it."""


class BundleFile(NamedTuple):
    """A file of a bundle: its name in the archive, and what it will be found by."""

    path: str
    name: keeping.Name


class _Directory:
    """A file while the directory of its archive is read: no more of it at once than a directory may take.

    An archive says at its end how large its directory is, and that is what is read, whatever it says of the number of
    entries.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MOST_DIRECTORY:
            raise BadBundle(f"The directory of the bundle is larger than {MOST_DIRECTORY} bytes.")
        return self._file.read(MOST_DIRECTORY if size < 0 else size)


class OpenBundle:
    """An open bundle: what is in it, and its bytes. Raises BadBundle; so do its methods."""

    def __init__(self, file: BinaryIO, release: str | None) -> None:
        try:
            self._archive = zipfile.ZipFile(cast("BinaryIO", _Directory(file)))
        except _BROKEN as error:
            raise BadBundle("The bundle is not a zip archive.") from error
        members = self._archive.namelist()
        if len(members) > MOST_ENTRIES:
            raise BadBundle(f"The bundle holds more than {MOST_ENTRIES} files.")
        self._left = MOST_UNPACKED
        manifest = b"".join(self.pieces("manifest.json", STEP))
        try:
            self.entries = read_manifest(manifest, frozenset(members), release)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadBundle("The manifest of the bundle is not JSON.") from error

    def pieces(self, path: str, size: int) -> Iterator[bytes]:
        """The bytes of a file in pieces of at most `size` bytes."""
        total = 0
        try:
            about = self._archive.getinfo(path)
        except KeyError as error:
            raise BadBundle("The bundle has no manifest.") from error
        if about.compress_type not in _METHODS:
            raise BadBundle(f"A file of the bundle is packed otherwise than {' or '.join(_METHODS.values())}.")
        try:
            with self._archive.open(about) as opened:
                while piece := opened.read(size):
                    total += len(piece)
                    self._left -= len(piece)
                    if total > MAX_MAP_BYTES or (path == "manifest.json" and total > MOST_MANIFEST):
                        raise BadBundle(f"A file of the bundle is larger than {MAX_MAP_BYTES} bytes.")
                    if self._left < 0:
                        raise BadBundle(f"The files of the bundle are larger than {MOST_UNPACKED} bytes together.")
                    yield piece
        except _BROKEN as error:
            raise BadBundle("A file of the bundle cannot be unpacked.") from error


def read_manifest(text: bytes, members: frozenset[str], release: str | None) -> list[BundleFile]:
    """The files that are kept of those that a manifest lists; what is found by nothing, or is no map, is left out.

    Raises msgspec.DecodeError, and BadBundle for a type that is no text or an address that is none.
    """
    document = msgspec.json.decode(text)
    files = document.get("files") if isinstance(document, dict) else None
    listed = {
        path: cast("dict[str, Any]", about)
        for path, about in (files.items() if isinstance(files, dict) else ())
        if path in members and isinstance(about, dict) and _type(about) in _KINDS
    }
    minified = {
        _joined(url, reference): url
        for about in listed.values()
        if about["type"] == "minified_source"
        and (url := _text(about.get("url"))) is not None
        and (reference := _header(about, "sourcemap")) is not None
    }
    entries = []
    for path, about in listed.items():
        url = _text(about.get("url"))
        if url is not None and about["type"] == "source_map":
            url = minified.get(url, url.removesuffix(".map"))
        debug_id = _header(about, "debug-id")
        known = debug_id is not None and _DEBUG_ID.fullmatch(debug_id) is not None
        if known or (url is not None and release is not None):
            found = keeping.normal_debug_id(cast("str", debug_id)) if known else None
            entries.append(BundleFile(path, keeping.Name(_KINDS[about["type"]], found, release, url)))
    return entries


def _type(about: Mapping[str, Any]) -> str:
    found = about.get("type", "")
    if not isinstance(found, str):
        raise BadBundle("A type in the manifest of the bundle is not text.")
    return found


def _joined(url: str, reference: str) -> str:
    try:
        return urljoin(url, reference)
    except ValueError as error:
        raise BadBundle("An address in the manifest of the bundle is not valid.") from error


def _header(about: Mapping[str, Any], name: str) -> str | None:
    headers = about.get("headers")
    pairs = headers.items() if isinstance(headers, dict) else ()
    return next((_text(value) for key, value in pairs if key.lower() == name), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MOST_NAME and value.isprintable() else None


# A bundle put together from its parts, and its files stored in projects (G-141). What is stored when it fails stays:
# the same bundle again stores the rest. The bundle lies in a file without a name, never as a whole in memory; its
# files are unpacked and compressed aside, a piece at a time, between those of others.

PIECE = 512 * 1024
AT_ONCE = 2  # bundles that a process puts together, those of one person one after the other
MOST_WAITING = 8
TOGETHER = 50  # files of a bundle that one command keeps

_turns = FairSemaphore(FairBounds(AT_ONCE, per_tenant=1), waiting=MOST_WAITING)

CarryOut = Callable[[str, Intent[list[keeping.Kept]]], Awaitable[object]]


class BundleWish(NamedTuple):
    """A bundle as it is announced: SHA-1 of the whole and of its parts, its release, and the projects it is for."""

    checksum: str
    parts: Sequence[str]
    release: str | None
    project_ids: Sequence[str]


class Done(NamedTuple):
    """What became of it; `detail` says why nothing did."""

    state: Literal["not_found", "ok", "error"]
    missing: list[str]
    detail: str | None = None


async def assemble(
    store: EventStore, worker: blobs.Worker, user_id: str, wish: BundleWish, carry_out: CarryOut
) -> Done:
    """Put a bundle together and keep its files by commands that `carry_out` carries out for a project.

    Raises ServiceUnavailable, and what `carry_out` raises but for ProjectFull, which the answer tells.
    """
    if missing := await missing_chunks(store, user_id, wish.parts):
        return Done("not_found", missing)
    if len(wish.parts) * CHUNK_BYTES > MOST_BUNDLE + CHUNK_BYTES:
        return Done("error", [], f"The bundle is larger than {MOST_BUNDLE} bytes.")
    async with _turns.place(user_id):
        with tempfile.TemporaryFile() as file:
            checksum = await copy(store, worker, user_id, wish.parts, file)
            if checksum is None:
                return Done("not_found", await missing_chunks(store, user_id, wish.parts))
            if checksum != wish.checksum:
                return Done("error", [], "The checksum is not that of the parts together.")
            try:
                for project_id in wish.project_ids:
                    bundle = await worker.run(user_id, partial(OpenBundle, _rewound(file), wish.release))
                    await _keep(blobs.Destination(store.facts, project_id, user_id, worker), bundle, carry_out)
            except (BadBundle, keeping.ProjectFull) as refused:
                return Done("error", [], str(refused))
    await forget(store.facts, user_id, wish.parts)
    return Done("ok", [])


def _rewound(file: BinaryIO) -> BinaryIO:
    file.seek(0)
    return file


async def _keep(place: blobs.Destination, bundle: OpenBundle, carry_out: CarryOut) -> None:
    """Store the files of a bundle, then name them. Raises BadBundle and what `carry_out` raises."""
    staged: list[keeping.File] = []
    try:
        for entry in bundle.entries:
            pieces = _aside(place, bundle.pieces(entry.path, PIECE))
            staged.append(keeping.File(entry.name, await blobs.stage(place, pieces)))
            if len(staged) == TOGETHER:
                await _name(place, staged, carry_out)
        await _name(place, staged, carry_out)
    finally:
        await _drop(place, staged)


async def _name(place: blobs.Destination, staged: list[keeping.File], carry_out: CarryOut) -> None:
    """Store files. Those already stored with the same bytes are dropped."""
    if staged:
        await carry_out(place.project_id, keeping.keep(place.project_id, staged))
    await _drop(place, staged)
    staged.clear()


async def _drop(place: blobs.Destination, staged: Sequence[keeping.File]) -> None:
    for file in staged:
        await blobs.drop(place.facts, place.project_id, file.staged.blob_id)


async def _aside(place: blobs.Destination, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while piece := await place.worker.run(place.tenant, partial(next, pieces, b"")):
        yield piece
