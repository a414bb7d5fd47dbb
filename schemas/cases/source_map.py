"""Wire contract of source maps: storing, listing and removing them (G-141; extensions of the document)."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import PageQuery

MAX_MAP_BYTES = 32 * 1024 * 1024
"""Bytes of one file, as sent."""
MAX_PROJECT_BYTES = 1024 * 1024 * 1024
"""Bytes of all files of one project, as sent."""

SourceMapKind = Literal["source_map", "minified_source"]
DebugId = Annotated[str, Meta(pattern=patterns.DEBUG_ID)]
Release = Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.LABEL)]
SourceUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        pattern=patterns.LABEL,
        description="URL of the minified file, where ~ instead of scheme and host matches any.",
    ),
]


class UploadSourceMapQuery(msgspec.Struct, frozen=True):
    """What the file is found by: its debug id, else its release and the URL of the minified file."""

    kind: SourceMapKind = "source_map"
    debug_id: DebugId | None = None
    release: Release | None = None
    source_url: SourceUrl | None = None


class SourceMap(msgspec.Struct, frozen=True, kw_only=True):
    """A stored file. `size` counts the bytes as sent and `sha256` is their hash. `stored_at` is in epoch seconds."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="debug_id release source_url")

    id: str
    kind: SourceMapKind
    debug_id: str | None
    release: str | None
    source_url: str | None
    sha256: str
    size: int
    stored_at: int


class SourceMapStored(SourceMap, frozen=True, kw_only=True):
    """The file is stored. `unchanged` is true if the same bytes were already stored.

    `project_bytes` is what the files of the project are together, of at most `max_project_bytes`.
    """

    project_id: str
    unchanged: bool
    project_bytes: int
    max_project_bytes: int
    next_action: str


class SourceMapQuery(PageQuery, frozen=True):
    """Filters of the list."""

    release: Release | None = None


class SourceMapList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of files, newest first, and the total of all files."""

    project_id: str
    source_maps: list[SourceMap]
    count: int
    next_cursor: str | None
    project_files: int
    project_bytes: int
    max_project_bytes: int
    next_action: str


class SourceMapRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The file is removed. Its bytes are deleted within two hours."""

    id: str
    project_id: str
    next_action: str
    removed: Literal[True] = True
