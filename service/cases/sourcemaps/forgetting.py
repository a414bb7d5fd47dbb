"""Bytes that nothing keeps: uploads that were not finished, files that were replaced or removed, parts of bundles."""

from __future__ import annotations

import psycopg
import structlog

from service.eventstore.connect.clock import NOW_SECONDS

log = structlog.get_logger(__name__)

SECONDS = 3600
"""How long they stay: longer than any upload, and than any read that began before."""
_STEP = 16  # files, or 32 MiB of parts, that one transaction deletes
_BEFORE = f"{NOW_SECONDS} - {SECONDS}"
_FILES = f"""
with over as (
    select b.project_id, b.id from source_map_blobs b where not b.kept and b.stored_at < {_BEFORE}
    order by b.stored_at limit {_STEP} for update skip locked
), pieces as (
    delete from source_map_pieces p using over o where p.project_id = o.project_id and p.blob_id = o.id
)
delete from source_map_blobs b using over o where b.project_id = o.project_id and b.id = o.id
"""  # noqa: S608 - constants
_PARTS = f"""
delete from upload_chunks c using (
    select u.project_id, u.id from upload_chunks u where u.stored_at < {_BEFORE}
    order by u.stored_at limit {2 * _STEP} for update skip locked
) o where c.project_id = o.project_id and c.id = o.id
"""  # noqa: S608 - constants


async def forget_uploads(conninfo: str) -> int:
    """Delete what nothing keeps, in small steps; returns how many files and parts went. Raises psycopg.Error."""
    total = 0
    async with await psycopg.AsyncConnection.connect(
        conninfo, autocommit=True, application_name="service-forget"
    ) as connection:
        for statement in (_FILES, _PARTS):
            while count := (await connection.execute(statement.encode())).rowcount:
                total += count
    if total:
        log.info("uploads_forgotten", count=total)
    return total
