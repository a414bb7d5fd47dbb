"""Whether the process can serve: its database, the migrations, and how far the log is behind."""

from __future__ import annotations

from functools import cache
from typing import Any

import psycopg

from schemas.discovery.health import Check, Ready
from service.auth.refusals import ServiceUnavailable
from service.eventstore import migrations
from service.eventstore.clock import NOW
from service.eventstore.migrations import Applied, Migration, Standing
from service.eventstore.store import EventStore

UNNUMBERED_SECONDS = 30  # older committed events without a position: nobody numbers them

_LAG = (
    f"select count(*), coalesce(extract(epoch from {NOW} - min(e.recorded_at)), 0)::bigint "  # noqa: S608 - a constant
    "from (select seq from unsequenced order by seq limit 1000) u join events e on e.seq = u.seq"
)
_BEHIND = "select c.name, s.size - c.position from checkpoints c, log_state s order by c.name"


async def readiness(store: EventStore) -> Ready:
    """Check database, migrations and log. Raises ServiceUnavailable when requests cannot be served."""
    try:
        needed = [await _schema_check(store)]
        lagging = await _log_checks(store)
    except psycopg.Error as error:
        raise ServiceUnavailable(
            "The database cannot be used.", checks=[{"name": "database", "ok": False, "detail": type(error).__name__}]
        ) from error
    checks = [Check("database", ok=True, detail="reachable"), *needed, *lagging]
    if not all(check.ok for check in needed):
        raise ServiceUnavailable(
            "The database is not migrated to this version.",
            next_action="Run the migrations of this version, then ask again.",
            checks=[{"name": check.name, "ok": check.ok, "detail": check.detail} for check in checks],
        )
    return Ready("ready" if all(check.ok for check in checks) else "degraded", checks)


@cache
def _migrations() -> list[Migration]:
    return migrations.discover()


async def _schema_check(store: EventStore) -> Check:
    rows = await store.fetch("select name, checksum, detail from schema_migrations")
    applied = {name: Applied(name, checksum, detail) for name, checksum, detail in rows}
    wrong = [
        f"{name} {standing.value}"
        for name, standing in migrations.compare(applied, _migrations())
        if standing is not Standing.APPLIED
    ]
    return Check("migrations", ok=not wrong, detail=", ".join(wrong) or "up to date")


async def _log_checks(store: EventStore) -> list[Check]:
    [[waiting, age]] = await store.fetch(_LAG)
    numbered = Check("sequencer", ok=age <= UNNUMBERED_SECONDS, detail=f"{waiting} events wait, the oldest {age} s")
    behind: list[tuple[Any, ...]] = await store.fetch(_BEHIND)
    return [numbered, *(Check(f"reader {name}", ok=True, detail=f"{count} events behind") for name, count in behind)]
