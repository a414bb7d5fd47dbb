"""Background work of the intake: partitions, retention (design §7, G-071), errors of providers (G-182)."""

from collections.abc import Mapping
from typing import Any

import procrastinate
import psycopg
import structlog

from service.billing.plans import retention
from service.ingest import kept as kepts
from service.runs.sweep import forget_decisions
from service.services import Services, Task

log = structlog.get_logger(__name__)


async def _connect(services: Services) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    return await psycopg.AsyncConnection.connect(
        services.settings.database_url, autocommit=True, application_name="service-retention"
    )


async def make_partitions(services: Services, _: Mapping[str, Any]) -> None:
    """Give the coming days their partitions."""
    async with await _connect(services) as connection:
        await kepts.ensure_partitions(connection)


async def purge_telemetry(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the telemetry that each project's plan keeps no longer, and the decisions on it (G-137)."""
    kept = await retention(services.store, services.settings.terms)
    async with await _connect(services) as connection:
        await kepts.purge(connection, kept)
        await forget_decisions(connection, kept.days)


async def settle_feedback(services: Services, _: Mapping[str, Any]) -> None:
    """Find the errors of earlier feedback."""
    async with await _connect(services) as connection:
        await kepts.settle(connection)


async def look_at_exceptions(services: Services, _: Mapping[str, Any]) -> None:
    """Count new exceptions of connected providers (G-182)."""
    counted = await services.exceptions.run()
    if counted:
        log.info("provider_errors_counted", number=counted)


_AGAIN = procrastinate.RetryStrategy(max_attempts=3, wait=60)

TASKS = [
    Task("ingest.partitions", make_partitions, retry=_AGAIN, cron="7 * * * *"),
    Task("ingest.retention", purge_telemetry, retry=_AGAIN, cron="23 3 * * *"),
    Task("ingest.provider_exceptions", look_at_exceptions, cron="* * * * *"),
    Task("ingest.feedback", settle_feedback, cron="* * * * *"),
]
