"""Background work of the event store: forgetting idempotency records whose time is over (G-008)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
import structlog

from service.jobs import Task
from service.services import Services

log = structlog.get_logger()

BATCH = 5_000
# Made by the server to recognise its own write: nobody can repeat them once their request is over.
OWN = "not client_key and created_at < (select service_now()) - interval '1 hour'"
# Kept as long as what they made: credentials, enabling, runs and their cancelling, deletions.
KEPT = (
    "operation ~ '(/credentials|/automation-contract/enable|/automation-runs|/cancel|/self_delete)$' "
    "or operation ~ '^DELETE '"
)
CLIENTS = f"client_key and created_at < (select service_now()) - interval '24 hours' and not ({KEPT})"


async def forget_records(services: Services, _: Mapping[str, Any]) -> None:
    """Delete what is over, in batches of a transaction each, so that no command waits for long."""
    async with await psycopg.AsyncConnection.connect(
        services.settings.database_url, autocommit=True, application_name="service-forget"
    ) as connection:
        for which in (OWN, CLIENTS):
            total = await _delete(connection, which)
            if total:
                log.info("idempotency_records_forgotten", count=total)


async def _delete(connection: psycopg.AsyncConnection[Any], which: str) -> int:
    query = (
        "delete from idempotency where ctid = any(array("  # noqa: S608 - constants only
        f"select ctid from idempotency where {which} limit {BATCH} for update skip locked))"
    )
    total = 0
    while count := (await connection.execute(query.encode())).rowcount:
        total += count
    return total


TASKS = [Task("eventstore.forget_records", forget_records, cron="*/10 * * * *")]
