"""Source maps on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from projections.cases import SourceMapRow
from schemas.cases.source_map import (
    MAX_PROJECT_BYTES,
    SourceMap,
    SourceMapList,
    SourceMapRemoved,
    SourceMapStored,
)
from service.cases.sourcemaps.keeping import Kept
from service.cases.sourcemaps.reads import StoredFiles

_MEMBERS = SourceMap.__struct_fields__


def stored(kept: Kept) -> SourceMapStored:
    """Show a file that was just stored, or that was there."""
    return SourceMapStored(
        **_members(kept.row),
        project_id=kept.row.project_id,
        unchanged=kept.unchanged,
        project_bytes=kept.total.size,
        max_project_bytes=MAX_PROJECT_BYTES,
        next_action="Nothing to do. POST /v1/cases/{case_id}/unmangle now uses it.",
    )


def listed(project_id: str, rows: Sequence[SourceMapRow], total: StoredFiles, cursor: str | None) -> SourceMapList:
    """Show a page of files."""
    return SourceMapList(
        project_id=project_id,
        source_maps=[SourceMap(**_members(row)) for row in rows],
        count=len(rows),
        next_cursor=cursor,
        project_files=total.files,
        project_bytes=total.size,
        max_project_bytes=MAX_PROJECT_BYTES,
        next_action="Delete files of releases you no longer run with DELETE on their ids."
        if rows
        else "Upload the source maps of a release with PUT on this path, or with sentry-cli.",
    )


def removed(row: SourceMapRow) -> SourceMapRemoved:
    """Show that a file is gone."""
    return SourceMapRemoved(
        id=row.id, project_id=row.project_id, next_action="Nothing to do. Upload the file again if you need it."
    )


def _members(row: SourceMapRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _MEMBERS}
