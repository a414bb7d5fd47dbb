"""Background work of authentication: forgetting sign-ins whose time is over (G-020).

Their history stays. What goes are the rows that polls look up, and what is noted of the pace of polling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
import structlog

from projections.sign_ins import KEPT, PROJECTION, SIGN_IN_POLLS
from service.jobs import Task
from service.services import Services
from statemachines.sign_in import LIFETIME

log = structlog.get_logger()

BATCH = 5_000
NOW = "(select extract(epoch from service_now()))"
OVER = {
    PROJECTION.name: f"expires_at < {NOW} - {KEPT}",
    SIGN_IN_POLLS.name: f"last_polled_at < {NOW} - {LIFETIME + KEPT}",
}


async def forget_sign_ins(services: Services, _: Mapping[str, Any]) -> None:
    """Delete what is over, in batches of a transaction each, so that no command waits for long."""
    async with await psycopg.AsyncConnection.connect(
        services.settings.database_url, autocommit=True, application_name="service-forget"
    ) as connection:
        for table, over in OVER.items():
            query = (
                f"delete from {table} where ctid = any(array("  # noqa: S608 - constants only
                f"select ctid from {table} where {over} limit {BATCH} for update skip locked))"
            )
            total = 0
            while count := (await connection.execute(query.encode())).rowcount:
                total += count
            if total:
                log.info("sign_ins_forgotten", table=table, count=total)


TASKS = [Task("auth.forget_sign_ins", forget_sign_ins, cron="*/10 * * * *")]
