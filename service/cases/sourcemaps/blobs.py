"""Bytes of any size in the database, a piece at a time: a process holds no more than a piece of what is on its way.

Pieces are written before anything names them, each in a statement of its own: no command and no reader waits for 32
MiB. What a command then names is kept; all else goes by time, also what the deletion of a project came before.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import structlog

from service.auth.refusals import ServiceUnavailable
from service.eventstore.connect.connection import WatchedConnection
from service.eventstore.connect.facts import NOT_WRITTEN, AsyncConnection, Facts
from service.eventstore.store import EventStore
from service.ids import new_id
from service.packing import unpack_frame, zstd
from service.sql import load_query
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

T = TypeVar("T")

MOST_UNKEPT = 64
"""Blobs of a project that nothing keeps: one more is refused until some have gone."""

_BEGIN = load_query("cases/sourcemaps", "begin_blob")
_STATUS = load_query("auth", "status_of_project")
_PIECE = load_query("cases/sourcemaps", "add_piece")
_READ = load_query("cases/sourcemaps", "next_piece")
_VERDICT = load_query("cases/sourcemaps", "verdict")
_KEEP_VERDICT = load_query("cases/sourcemaps", "keep_verdict")
_DROP = load_query("cases/sourcemaps", "drop_blob")


class Worker(Protocol):
    """Whoever carries out pieces of work away from the event loop, tenants in turn."""

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Carry out one."""


class Staged(NamedTuple):
    """Bytes that are stored and that nothing keeps yet; `sha256` in hex and `size` are of them as they were sent."""

    blob_id: str
    sha256: str
    size: int


class Destination(NamedTuple):
    """Where bytes go: into which project, on whose behalf, and who compresses them."""

    facts: Facts
    project_id: str
    tenant: str
    worker: Worker


async def stage(place: Destination, pieces: AsyncIterator[bytes]) -> Staged:
    """Store bytes piece by piece; nothing is left when that fails.

    Raises ProjectNotFound, ProjectDeletionInProgress, ServiceUnavailable, and what `pieces` raises.
    """
    blob_id, digest, size, number = new_id("blob"), hashlib.sha256(), 0, 0
    with _written():
        async with place.facts.connection() as connection:
            named = {"blob_id": blob_id, "project_id": place.project_id, "most": MOST_UNKEPT}
            if not (await connection.execute(_BEGIN, named)).rowcount:
                await _check_project(connection, place.project_id)
                raise ServiceUnavailable("The project has too many unfinished uploads. The oldest expire first.")
    try:
        async for piece in pieces:
            size += len(piece)
            content = await place.worker.run(place.tenant, partial(_pack, digest.update, piece))
            await _write(place, blob_id, number, content)
            number += 1
    except BaseException:
        await asyncio.shield(drop(place.facts, place.project_id, blob_id))
        raise
    return Staged(blob_id, digest.hexdigest(), size)


async def _check_project(connection: AsyncConnection, project_id: str) -> None:
    """Raise why a project takes no upload, if it takes none: it may have been fenced since the request was let in."""
    rows = await (await connection.execute(_STATUS, {"project_id": project_id})).fetchall()
    if not rows:
        raise ProjectNotFound("There is no such project.")
    if rows[0] != ("active",):
        raise ProjectDeletionInProgress("The project is being deleted.")


async def _write(place: Destination, blob_id: str, number: int, content: bytes) -> None:
    values = {"project_id": place.project_id, "blob_id": blob_id, "number": number, "content": content}
    with _written():
        async with place.facts.connection() as connection:
            written = await connection.execute(_PIECE, values)
    if not written.rowcount:
        raise ServiceUnavailable("The upload took too long. Start it again.")


async def drop(facts: Facts, project_id: str, blob_id: str) -> None:
    """Delete a blob unless it is kept. When the database cannot do so now, it goes by time."""
    with contextlib.suppress(*NOT_WRITTEN):
        async with facts.connection() as connection:
            await connection.execute(_DROP, {"project_id": project_id, "blob_id": blob_id})


async def read(store: EventStore, project_id: str, blob_id: str) -> AsyncIterator[bytes]:
    """Read the pieces of a blob as they are stored: compressed, see `unpack`."""
    number = 0
    while rows := await store.fetch(_READ, project_id=project_id, blob_id=blob_id, number=number):
        yield rows[0][0]
        number += 1


async def verdict(store: EventStore, project_id: str, blob_id: str, source_blob_id: str) -> str | None:
    """Why a map cannot be taken apart with this minified file (empty: none); None when nobody has found that."""
    rows = await store.fetch(_VERDICT, project_id=project_id, blob_id=blob_id, source_blob_id=source_blob_id)
    return str(rows[0][0]) if rows else None


async def keep_verdict(facts: Facts, project_id: str, blob_id: str, source_blob_id: str, found: str) -> None:
    """Keep with a map why it cannot be taken apart; what the database cannot take now is found anew."""
    values = {"project_id": project_id, "blob_id": blob_id, "source_blob_id": source_blob_id, "verdict": found}
    with contextlib.suppress(*NOT_WRITTEN):
        async with facts.connection() as connection:
            await connection.execute(_KEEP_VERDICT, values)


def unpack(content: bytes, most: int) -> bytes:
    """Decompress a piece. Raises ValueError for one of more than `most` bytes."""
    try:
        return unpack_frame(content, most)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error


def pack(content: bytes) -> bytes:
    """Compress a piece."""
    return zstd.compress(content, level=3)


def _pack(hear: Callable[[bytes], object], piece: bytes) -> bytes:
    hear(piece)
    return pack(piece)


@contextmanager
def _written() -> Iterator[None]:
    """Tell a caller to come again when the database cannot take what it sends now."""
    try:
        yield
    except NOT_WRITTEN as error:
        raise ServiceUnavailable from error


# Bytes that nothing keeps: uploads that were not finished, files that were replaced or removed, parts of bundles.

log = structlog.get_logger(__name__)

SECONDS = 3600
"""How long they stay: longer than any upload, and than any read that began before."""
_STEP = 16  # files, or 32 MiB of parts, that one transaction deletes
_FILES = load_query("cases/sourcemaps", "forget_blobs")
_PARTS = load_query("cases/sourcemaps", "forget_old_chunks")


async def forget_uploads(conninfo: str) -> int:
    """Delete unreferenced files and parts in small steps. Returns their numbers. Raises psycopg.Error."""
    total = 0
    async with await WatchedConnection.connect(
        conninfo, autocommit=True, application_name="service-forget"
    ) as connection:
        for statement, most in ((_FILES, _STEP), (_PARTS, 2 * _STEP)):
            while count := (await connection.execute(statement, {"kept": SECONDS, "most": most})).rowcount:
                total += count
    if total:
        log.info("uploads_forgotten", count=total)
    return total
