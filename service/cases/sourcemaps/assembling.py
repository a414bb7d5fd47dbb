"""A bundle put together from its parts, and its files stored in projects (G-141).

What is stored when it fails stays: the same bundle again stores the rest.

The bundle lies in a file without a name, never as a whole in memory; its files are unpacked and compressed aside, a
piece at a time, between those of others.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, Literal, NamedTuple

from service.cases.sourcemaps import blobs, chunks, keeping
from service.cases.sourcemaps.blobs import Destination, Worker
from service.cases.sourcemaps.bundles import MOST_BUNDLE, BadBundle, OpenBundle
from service.cases.sourcemaps.keeping import File, Kept, ProjectFull
from service.eventstore.declare.commands import Intent
from service.eventstore.store import EventStore
from service.fairness.turns import Turns

PIECE = 512 * 1024
AT_ONCE = 2  # bundles that a process puts together, those of one person one after the other
MOST_WAITING = 8
TOGETHER = 50  # files of a bundle that one command keeps

_turns = Turns(places=AT_ONCE, per_tenant=1, waiting=MOST_WAITING)

CarryOut = Callable[[str, Intent[list[Kept]]], Awaitable[object]]


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


async def assemble(store: EventStore, worker: Worker, user_id: str, wish: BundleWish, carry_out: CarryOut) -> Done:
    """Put a bundle together and keep its files by commands that `carry_out` carries out for a project.

    Raises ServiceUnavailable, and what `carry_out` raises but for ProjectFull, which the answer tells.
    """
    if missing := await chunks.missing(store, user_id, wish.parts):
        return Done("not_found", missing)
    if len(wish.parts) * chunks.CHUNK_BYTES > MOST_BUNDLE + chunks.CHUNK_BYTES:
        return Done("error", [], f"The bundle is larger than {MOST_BUNDLE} bytes.")
    async with _turns.place(user_id):
        with tempfile.TemporaryFile() as file:
            checksum = await chunks.copy(store, worker, user_id, wish.parts, file)
            if checksum is None:
                return Done("not_found", await chunks.missing(store, user_id, wish.parts))
            if checksum != wish.checksum:
                return Done("error", [], "The checksum is not that of the parts together.")
            try:
                for project_id in wish.project_ids:
                    bundle = await worker.run(user_id, partial(OpenBundle, _rewound(file), wish.release))
                    await _keep(Destination(store.facts, project_id, user_id, worker), bundle, carry_out)
            except (BadBundle, ProjectFull) as refused:
                return Done("error", [], str(refused))
    await chunks.forget(store.facts, user_id, wish.parts)
    return Done("ok", [])


def _rewound(file: BinaryIO) -> BinaryIO:
    file.seek(0)
    return file


async def _keep(place: Destination, bundle: OpenBundle, carry_out: CarryOut) -> None:
    """Store the files of a bundle, then name them. Raises BadBundle and what `carry_out` raises."""
    staged: list[File] = []
    try:
        for entry in bundle.entries:
            pieces = _aside(place, bundle.pieces(entry.path, PIECE))
            staged.append(File(entry.name, await blobs.stage(place, pieces)))
            if len(staged) == TOGETHER:
                await _name(place, staged, carry_out)
        await _name(place, staged, carry_out)
    finally:
        await _drop(place, staged)


async def _name(place: Destination, staged: list[File], carry_out: CarryOut) -> None:
    """Store files. Those already stored with the same bytes are dropped."""
    if staged:
        await carry_out(place.project_id, keeping.keep(place.project_id, staged))
    await _drop(place, staged)
    staged.clear()


async def _drop(place: Destination, staged: Sequence[File]) -> None:
    for file in staged:
        await blobs.drop(place.facts, place.project_id, file.staged.blob_id)


async def _aside(place: Destination, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while piece := await place.worker.run(place.tenant, partial(next, pieces, b"")):
        yield piece
