"""Whether the process can serve: its database, the migrations, how far the log is behind, how long a turn takes."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import psycopg
from msgspec import to_builtins
from psycopg_pool import PoolTimeout

from schemas.discovery.health import Check, Ready
from service.auth.refusals import ServiceUnavailable
from service.discovery.room import room_checks
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.history import newer
from service.eventstore.schema import migrations
from service.eventstore.schema.migrations import Migration, MigrationStanding
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.runs.background import sweep, turns
from service.runs.background.turns import Wait
from service.settings import Settings

ANSWER_SECONDS = 1.5
UNNUMBERED_SECONDS = 30  # older committed events without a position: nobody numbers them

_LAG = load_sql("discovery", "unnumbered")
_BEHIND = load_sql("discovery", "behind")


async def readiness(store: EventStore, settings: Settings) -> Ready:
    """Check database, migrations, log and room, within ANSWER_SECONDS and the moment that it takes to give a read up.

    Raises ServiceUnavailable when requests cannot be served. Streams that a later release wrote to degrade the process
    and no more: all others are served (G-149).
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            schema = await _schema_check(store)
            further = await _further_checks(store) if schema.ok else []
    except (psycopg.Error, CommandNotDone, TimeoutError) as error:
        full = [check for check in room_checks(settings) if not check.ok]  # it may be why
        checks = [Check("database", ok=False, detail=_reason(error)), *full]
        raise ServiceUnavailable("The database cannot be used.", checks=list(map(to_builtins, checks))) from error
    checks = [Check("database", ok=True, detail="reachable"), schema, *further]
    if not schema.ok:
        raise ServiceUnavailable(
            "The database is not migrated to this version.",
            next_action="Run the migrations of this version, then ask again.",
            checks=list(map(to_builtins, checks)),
        )
    room = room_checks(settings)
    if not all(check.ok for check in room):
        raise ServiceUnavailable(
            "The disk is full or almost full.",
            next_action="Free space for the database. The service then recovers by itself.",
            checks=list(map(to_builtins, [*checks, *room])),
        )
    checks[2:2] = room
    return Ready("ready" if all(check.ok for check in checks) else "degraded", checks)


def _reason(error: Exception) -> str:
    """Why the database cannot be used: it is silent, none of its connections is to be had, or it said an error."""
    if isinstance(error, PoolTimeout):
        return "no connection to it is free"
    return type(error).__name__ if isinstance(error, psycopg.Error) else f"no answer within {ANSWER_SECONDS} s"


async def waits(store: EventStore) -> list[Wait]:
    """Tell how long what the sweep takes up in turn has waited, by step."""
    return await turns.waits(store, turns.Turn, sweep.AT_MOST)


def _turn_check(wait: Wait) -> Check:
    detail = f"{wait.objects} are due, the longest for {wait.longest} s of at most {wait.allowed} s"
    return Check(f"sweep {wait.step}", ok=not wait.late, detail=detail)


@cache
def _migrations() -> list[Migration]:
    return migrations.discover()


async def _schema_check(store: EventStore) -> Check:
    applied = migrations.ledger(await store.fetch(migrations.LEDGER))
    standings = migrations.compare(applied, _migrations())
    others = [f"{name} {standing.value}" for name, standing in standings if standing is not MigrationStanding.APPLIED]
    return Check("migrations", ok=migrations.serves(standings), detail=", ".join(others) or "up to date")


async def _further_checks(store: EventStore) -> list[Check]:
    """Check what this release can only look at in a schema that fits: the log, its streams, the turns of the sweep."""
    return [*await _log_checks(store), await _newer_check(store), *map(_turn_check, await waits(store))]


async def _log_checks(store: EventStore) -> list[Check]:
    [[waiting, age]] = await store.fetch(_LAG)
    numbered = Check("sequencer", ok=age <= UNNUMBERED_SECONDS, detail=f"{waiting} events wait, the oldest {age} s")
    behind: list[tuple[Any, ...]] = await store.fetch(_BEHIND)
    return [numbered, *(Check(f"reader {name}", ok=True, detail=f"{count} events behind") for name, count in behind)]


async def _newer_check(store: EventStore) -> Check:
    unknown: list[tuple[Any, ...]] = await store.fetch(newer.UNKNOWN, *newer.known())
    if not unknown:
        return Check("streams", ok=True, detail="this release can read all of them")
    wanted = newer.asked([(topic, position) for topic, position in unknown])
    [[count]] = await store.fetch(newer.COUNT, *wanted)
    return Check("streams", ok=False, detail=newer.describe(wanted.topics, count))
