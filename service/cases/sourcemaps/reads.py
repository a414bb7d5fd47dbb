"""Which source maps a project keeps, and which of them belong to a frame (G-141, R-CASE-04)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from projections.cases import SOURCE_MAP_TOTALS, SourceMapRow
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.sql import load_query

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
