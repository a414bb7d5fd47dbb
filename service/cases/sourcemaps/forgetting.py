"""Bytes that nothing keeps: uploads that were not finished, files that were replaced or removed, parts of bundles."""

from __future__ import annotations

import psycopg
import structlog

from service.sql import load_query

log = structlog.get_logger(__name__)

SECONDS = 3600
"""How long they stay: longer than any upload, and than any read that began before."""
_STEP = 16  # files, or 32 MiB of parts, that one transaction deletes
_FILES = load_query("cases/sourcemaps", "forget_blobs")
_PARTS = load_query("cases/sourcemaps", "forget_old_chunks")


async def forget_uploads(conninfo: str) -> int:
    """Delete unreferenced files and parts in small steps. Returns their numbers. Raises psycopg.Error."""
    total = 0
    async with await psycopg.AsyncConnection.connect(
        conninfo, autocommit=True, application_name="service-forget"
    ) as connection:
        for statement, most in ((_FILES, _STEP), (_PARTS, 2 * _STEP)):
            while count := (await connection.execute(statement, {"kept": SECONDS, "most": most})).rowcount:
                total += count
    if total:
        log.info("uploads_forgotten", count=total)
    return total
