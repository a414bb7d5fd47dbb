"""The receipts of answers of connected providers, kept to be compared with the history of a plan (G-183)."""

from __future__ import annotations

from typing import Final

import structlog

from service.analytics.bounded import Table
from service.eventstore.connect.facts import DAY, NOT_WRITTEN
from service.eventstore.declare.names import load_sql
from service.eventstore.store import EventStore

log = structlog.get_logger(__name__)

KEPT_SECONDS: Final = 90 * DAY
"""How long a receipt is kept, unless a plan names it."""

_KEEP = load_sql("analytics", "keep_receipt")


async def keep_receipt(store: EventStore, project_id: str, table: Table) -> None:
    """Keep the receipt of an answer, if a provider gave it. One that cannot be written now is not known later."""
    if table.provider_project_id is None:
        return
    evidence = table.evidence
    values = {
        "project_id": project_id,
        "sha256": evidence.query_receipt_sha256,
        "provider_project_id": table.provider_project_id,
        "since": evidence.since,
        "until": evidence.until,
        "kept_seconds": KEPT_SECONDS,
    }
    try:
        async with store.facts.connection() as connection:
            await connection.execute(_KEEP.encode(), values)
    except NOT_WRITTEN as error:
        log.warning("provider_receipt_not_kept", cause=type(error).__name__)
