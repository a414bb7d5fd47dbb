"""The end of deliveries: what a stop has dropped, what was deleted, and what is old (G-159, G-161)."""

from __future__ import annotations

import psycopg
import structlog

from service.eventstore.declare.sqlfiles import load_sql

log = structlog.get_logger()

KEPT_SECONDS = 30 * 86_400
BATCH = 2_000

_SETTLE = load_sql("webhooks", "tidy/settle")
_FORGET_OLD = load_sql("webhooks", "tidy/forget_old")
_FORGET_DELETED = load_sql("webhooks", "tidy/forget_deleted")
_FORGET_TARGETS = load_sql("webhooks", "tidy/forget_targets")


async def tidy(conninfo: str) -> None:
    """Go through all of it once, in batches of a transaction each. Raises psycopg.Error."""
    async with await psycopg.AsyncConnection.connect(
        conninfo, autocommit=True, application_name="service-tidy-webhooks"
    ) as connection:
        for query in (_SETTLE, _FORGET_OLD, _FORGET_DELETED):
            values = {"most": BATCH, "kept": KEPT_SECONDS}
            while (await connection.execute(query.encode(), values)).rowcount == BATCH:
                pass
        gone = (await connection.execute(_FORGET_TARGETS.encode())).rowcount
        if gone:
            log.info("webhooks_forgotten", number=gone)
