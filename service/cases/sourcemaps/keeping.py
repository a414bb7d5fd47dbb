"""Which source maps a project keeps: put in the place of others, taken away, found and shown (G-141, R-CASE-04).

The lock is that of the project's stream, to which nothing is appended: a file is a fact and no event. The same bytes
again change nothing, whoever sends them and however often.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from projections.cases import (
    SOURCE_MAP_BLOBS,
    SOURCE_MAP_TOTALS,
    SOURCE_MAPS,
    SourceMapBlobRow,
    SourceMapRow,
    SourceMapTotalRow,
)
from schemas.cases import source_map as wire
from service.auth.refusals import Refusal, refusal
from service.cases.sourcemaps.blobs import Staged
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.kernel.machine import Stream, derived_id
from statemachines.projects import project as projects

# Which source maps a project keeps: files are put in the place of others and taken away, under one lock (G-141).

PREFIX = "map"


class Name(NamedTuple):
    """What a file is found by: its debug id (in lower case, with dashes), else release and URL; see `map_id`."""

    kind: wire.SourceMapKind
    debug_id: str | None
    release: str | None
    source_url: str | None

    def map_id(self, project_id: str) -> str:
        """Id of the one file of a project that is found by it."""
        if self.debug_id is not None:
            return derived_id(PREFIX, project_id, self.kind, self.debug_id)
        return derived_id(PREFIX, project_id, self.kind, self.release or "", self.source_url or "")


class File(NamedTuple):
    """A file whose bytes are stored, to be kept under a name."""

    name: Name
    staged: Staged


class Kept(NamedTuple):
    """A stored file. `unchanged` is true for the same bytes as before, and `total` counts the project's bytes."""

    row: SourceMapRow
    unchanged: bool
    total: SourceMapTotalRow


class ProjectFull(Refusal):
    """The files of the project would be larger together than they may be."""

    code = "payload_too_large"

    def __init__(self, held: int) -> None:
        super().__init__(
            "The source maps of this project would exceed their total size limit.",
            next_action="Delete files of releases you no longer run with DELETE on their ids, then retry.",
            max_bytes=wire.MAX_PROJECT_BYTES,
            project_bytes=held,
        )


def normal_debug_id(text: str) -> str:
    """A debug id in the one spelling it is kept in: lower case, with dashes."""
    digits = text.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def keep(project_id: str, files: Sequence[File]) -> Intent[list[Kept]]:
    """Keep files, each in the place of what its name found before. Raises ProjectFull; then none of them is kept."""
    stream = projects.stream(project_id)
    by_id = {file.name.map_id(project_id): file for file in files}

    def decide(unit: Unit) -> list[Kept]:
        total = _total(unit, project_id)
        rows: list[tuple[SourceMapRow, bool]] = []
        for map_id, file in by_id.items():
            found = unit.row(SOURCE_MAPS, project_id, map_id)
            live = None if found is None or found.removed_at is not None else found
            row, unchanged = _put(unit, stream, live, file)
            rows.append((row, unchanged))
            grown = row.size - (0 if live is None else live.size)
            total = replace(total, files=total.files + (live is None), size=total.size + grown)
        if total.size > wire.MAX_PROJECT_BYTES:
            raise ProjectFull(_total(unit, project_id).size)
        unit.put(stream, SOURCE_MAP_TOTALS, total)
        return [Kept(row, unchanged, total) for row, unchanged in rows]

    return Intent([stream], decide, lookups=[_of_total(project_id), *(_of(project_id, name) for name in by_id)])


def remove(project_id: str, map_id: str) -> Intent[SourceMapRow]:
    """Take a file away. Raises `not_found` for one that is not there."""
    stream = projects.stream(project_id)

    def decide(unit: Unit) -> SourceMapRow:
        row = unit.row(SOURCE_MAPS, project_id, map_id)
        if row is None or row.removed_at is not None:
            raise refusal("not_found")
        total = _total(unit, project_id)
        gone = replace(row, removed_at=unit.now)
        unit.put(stream, SOURCE_MAPS, gone)
        unit.put(stream, SOURCE_MAP_BLOBS, _blob(unit, row, kept=False))
        unit.put(stream, SOURCE_MAP_TOTALS, replace(total, files=total.files - 1, size=total.size - row.size))
        return gone

    return Intent([stream], decide, lookups=[_of_total(project_id), _of(project_id, map_id)])


def _put(unit: Unit, stream: Stream, live: SourceMapRow | None, file: File) -> tuple[SourceMapRow, bool]:
    """Put a file in the place of the one that is there; the same bytes stay where they are."""
    name, staged = file
    if live is not None and live.sha256 == staged.sha256:
        # What it is also known by may be new; only a file with a debug id has such.
        row = replace(live, release=name.release or live.release, source_url=name.source_url or live.source_url)
        if row != live:
            unit.put(stream, SOURCE_MAPS, row)
        return row, True
    row = SourceMapRow(
        project_id=stream.id,
        id=name.map_id(stream.id),
        kind=name.kind,
        debug_id=name.debug_id,
        release=name.release,
        source_url=name.source_url,
        sha256=staged.sha256,
        size=staged.size,
        blob_id=staged.blob_id,
        stored_at=unit.now,
    )
    unit.put(stream, SOURCE_MAPS, row)
    unit.put(stream, SOURCE_MAP_BLOBS, _blob(unit, row, kept=True))
    if live is not None:
        unit.put(stream, SOURCE_MAP_BLOBS, _blob(unit, live, kept=False))
    return row, False


def _blob(unit: Unit, row: SourceMapRow, *, kept: bool) -> SourceMapBlobRow:
    return SourceMapBlobRow(project_id=row.project_id, id=row.blob_id, kept=kept, stored_at=unit.now)


def _total(unit: Unit, project_id: str) -> SourceMapTotalRow:
    found = unit.row(SOURCE_MAP_TOTALS, project_id, project_id)
    return found or SourceMapTotalRow(project_id=project_id, id=project_id, files=0, size=0)


def _of_total(project_id: str) -> Lookup:
    return Lookup(SOURCE_MAP_TOTALS, project_id, project_id)


def _of(project_id: str, map_id: str) -> Lookup:
    return Lookup(SOURCE_MAPS, project_id, map_id)


# Which source maps a project keeps, and which of them belong to a frame (G-141, R-CASE-04).

_NEWEST = load_query("cases/sourcemaps", "source_maps")
_NEWEST_OF_RELEASE = load_query("cases/sourcemaps", "source_maps_of_release")
_FOUND = load_query("cases/sourcemaps", "source_maps_for")
MOST_FOUND = 1000
"""Files of a release that are looked at for the frames of one error."""
_ANY_ORIGIN = "~"


class StoredFiles(NamedTuple):
    """How many files a project holds, and their bytes as sent."""

    files: int
    size: int


class Files(NamedTuple):
    """The files that the frames of an error may belong to."""

    by_debug_id: dict[tuple[str, str], SourceMapRow]  # by kind and debug id
    by_url: dict[tuple[str, str], SourceMapRow]  # by kind and URL, of the release; the newest of each


async def newest(
    store: EventStore, project_id: str, release: str | None, after: PageEnd, limit: int
) -> list[SourceMapRow]:
    """Read at most `limit` files of a project after a place, newest first; of one release, or all (None)."""
    page = {"project_id": project_id, "at": after.at, "id": after.id, "limit": limit}
    if release is None:
        found = await store.fetch(_NEWEST, **page)
    else:
        found = await store.fetch(_NEWEST_OF_RELEASE, **page, release=release)
    return [msgspec.json.decode(text, type=SourceMapRow) for (text,) in found]


async def total_of(store: EventStore, project_id: str) -> StoredFiles:
    """Read what a project holds."""
    row = await store.get(SOURCE_MAP_TOTALS, project_id, project_id)
    return StoredFiles(0, 0) if row is None else StoredFiles(row.files, row.size)


async def files_for(
    store: EventStore, project_id: str, debug_ids: Iterable[str], release: str | None, urls: Iterable[str]
) -> Files:
    """Find the files of debug ids, and those of a release by the URLs of its minified files."""
    spelt = sorted({name for url in urls for name in spellings(url)})
    rows = await store.fetch(
        _FOUND,
        project_id=project_id,
        debug_ids=sorted(set(debug_ids)),
        release=release,
        urls=spelt,
        most=MOST_FOUND,
    )
    found = sorted((msgspec.json.decode(text, type=SourceMapRow) for (text,) in rows), key=lambda row: row.stored_at)
    return Files(
        {(row.kind, row.debug_id): row for row in found if row.debug_id is not None},
        {(row.kind, row.source_url): row for row in found if row.release == release and row.source_url is not None},
    )


def spellings(url: str) -> Sequence[str]:
    """The names that a minified file may be kept under: as it is, without its query, and of any origin."""
    bare = url.partition("#")[0].partition("?")[0]
    try:
        parts = urlsplit(bare)
    except ValueError:
        return (url,)
    path = parts.path if parts.netloc or parts.scheme or parts.path.startswith("/") else f"/{parts.path}"
    return tuple(dict.fromkeys((url, bare, _ANY_ORIGIN + path)))


# Source maps on the wire.

_MEMBERS = wire.SourceMap.__struct_fields__


def stored(kept: Kept) -> wire.SourceMapStored:
    """Show a file that was just stored, or that was there."""
    return wire.SourceMapStored(
        **_members(kept.row),
        project_id=kept.row.project_id,
        unchanged=kept.unchanged,
        project_bytes=kept.total.size,
        max_project_bytes=wire.MAX_PROJECT_BYTES,
        next_action="Nothing to do. POST /v1/cases/{case_id}/unmangle now uses it.",
    )


def listed(project_id: str, rows: Sequence[SourceMapRow], total: StoredFiles, cursor: str | None) -> wire.SourceMapList:
    """Show a page of files."""
    return wire.SourceMapList(
        project_id=project_id,
        source_maps=[wire.SourceMap(**_members(row)) for row in rows],
        count=len(rows),
        next_cursor=cursor,
        project_files=total.files,
        project_bytes=total.size,
        max_project_bytes=wire.MAX_PROJECT_BYTES,
        next_action="Delete files of releases you no longer run with DELETE on their ids."
        if rows
        else "Upload the source maps of a release with PUT on this path, or with sentry-cli.",
    )


def removed(row: SourceMapRow) -> wire.SourceMapRemoved:
    """Show that a file is gone."""
    return wire.SourceMapRemoved(
        id=row.id, project_id=row.project_id, next_action="Nothing to do. Upload the file again if you need it."
    )


def _members(row: SourceMapRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _MEMBERS}
