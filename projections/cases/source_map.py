"""Facts outside streams: the source maps of a project, what they take together, and where their bytes lie (G-141)."""

from __future__ import annotations

import msgspec

from projections.kernel.projection import Table


class SourceMapRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source map or a minified source. `size` in bytes as sent, times in epoch seconds; removed: it counts no more.

    `debug_id` is what it is found by where it has one, else `release` and `source_url`.
    """

    project_id: str
    id: str
    kind: str
    debug_id: str | None
    release: str | None
    source_url: str | None
    sha256: str
    size: int
    blob_id: str
    stored_at: int
    removed_at: int | None = None


class SourceMapTotalRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a project holds: how many files, and their bytes as sent."""

    project_id: str
    id: str
    files: int
    size: int


class SourceMapBlobRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where bytes lie. Not `kept`: they are on their way or were replaced, and go an hour after `stored_at`."""

    project_id: str
    id: str
    kept: bool
    stored_at: int


SOURCE_MAPS = Table("source_maps", SourceMapRow, ("project_id", "id"))
SOURCE_MAP_TOTALS = Table("source_map_totals", SourceMapTotalRow, ("project_id", "id"))
SOURCE_MAP_BLOBS = Table("source_map_blobs", SourceMapBlobRow, ("project_id", "id"))
