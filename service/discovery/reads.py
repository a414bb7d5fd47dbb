"""The figures of the installation: readiness, metrics, and its clock."""

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import psycopg
from msgspec import to_builtins
from psycopg_pool import PoolTimeout

from schemas.discovery import Check, Ready
from service.analytics.connecting.registering import way_of
from service.auth.refusals import ServiceUnavailable
from service.eventstore.connect.connection import FULL_DISK, WatchedConnection
from service.eventstore.connect.hosts import describe
from service.eventstore.log.reactor import Job
from service.eventstore.log.sequencer import defer
from service.eventstore.schema import migrations
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.history import rebuild
from service.runs import sweep
from service.settings import Settings
from service.settingvalues import Plan
from service.sql import load_query

# The abilities of this installation by its settings, for the texts and manifests.


class Installation(NamedTuple):
    """The settings shown to callers. It holds no secret.

    `provider`: an analytics provider can be connected. `payments`: plans can be bought. `sealing`: secrets can be kept
    and read again, so DSNs are shown again and webhooks are signed. `plans`: empty in a self-hosted installation
    (G-203). `rates` are requests a minute by class. A class that is not there has no limit. `residency` is the
    operator's own statement. `retention_days`: the days of its setting in a self-hosted installation.
    """

    base_url: str
    provider: bool
    payments: bool
    sealing: bool
    plans: tuple[tuple[str, Plan], ...]
    rates: tuple[tuple[str, int], ...]
    new_cases_per_hour: int
    residency: str | None
    retention_days: int | None


def installation(settings: Settings) -> Installation:
    """Read them from the settings."""
    sealing = settings.encryption_key is not None
    return Installation(
        base_url=settings.base_url,
        provider=way_of(settings) is not None and sealing,
        payments=settings.payment_api_key is not None,
        sealing=sealing,
        plans=() if settings.self_hosted else tuple(settings.plans.items()),
        rates=tuple(settings.rate_limits.items()),
        new_cases_per_hour=settings.new_cases_per_hour,
        residency=settings.data_residency,
        retention_days=settings.retention_days,
    )


# Whether there is room for what is written: on the disk of an embedded database, and by what writes have met.

MB = 1_000_000


def free_bytes(settings: Settings) -> int | None:
    """Bytes free where the embedded database is; None with a database of your own, whose disk is not seen from here."""
    if settings.embedded:
        with suppress(OSError):
            return shutil.disk_usage(settings.data_dir).free
    return None


def room_checks(settings: Settings) -> list[Check]:
    """Check the disk, where it is seen, and what the processes of this service have met."""
    checks = []
    free = free_bytes(settings)
    if free is not None:
        detail = f"{free // MB} MB free, at least {settings.min_free_mb} MB wanted"
        checks.append(Check("disk", ok=free >= settings.min_free_mb * MB, detail=detail))
    full = FULL_DISK.lasts_anywhere
    checks.append(Check("writes", ok=not full, detail="the database has no room for them" if full else "find room"))
    return checks


# Whether the process can serve: its database, the migrations, how far the log is behind, how long a turn takes.

ANSWER_SECONDS = 1.5
UNNUMBERED_SECONDS = 30  # older committed events without a position: nobody numbers them

_LAG = load_query("discovery", "unnumbered")
_BEHIND = load_query("discovery", "behind")


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
        hosts = describe(store.conninfo)
        detail = _reason(error) if hosts is None else f"{_reason(error)}; {hosts}"
        checks = [Check("database", ok=False, detail=detail), *full]
        raise ServiceUnavailable("The database cannot be used.", checks=list(map(to_builtins, checks))) from error
    checks = [Check("database", ok=True, detail=describe(store.conninfo) or "reachable"), schema, *further]
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


async def waits(store: EventStore) -> list[sweep.Wait]:
    """Tell how long what the sweep takes up in turn has waited, by step."""
    return await sweep.waits(store, sweep.Turn, sweep.AT_MOST)


def _turn_check(wait: sweep.Wait) -> Check:
    detail = f"{wait.objects} are due, the longest for {wait.longest} s of at most {wait.allowed} s"
    return Check(f"sweep {wait.step}", ok=not wait.late, detail=detail)


@cache
def _migrations() -> list[migrations.Migration]:
    return migrations.discover()


async def _schema_check(store: EventStore) -> Check:
    applied = migrations.ledger(await store.fetch(migrations.LEDGER))
    standings = migrations.compare(applied, _migrations())
    others = [
        f"{name} {standing.value}"
        for name, standing in standings
        if standing is not migrations.MigrationStanding.APPLIED
    ]
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
    unknown: list[tuple[Any, ...]] = await store.fetch(rebuild.UNKNOWN, *rebuild.known())
    if not unknown:
        return Check("streams", ok=True, detail="this release can read all of them")
    wanted = rebuild.asked([(topic, position) for topic, position in unknown])
    [[count]] = await store.fetch(rebuild.COUNT, *wanted)
    return Check("streams", ok=False, detail=rebuild.describe(wanted.topics, count))


# What /metrics shows of the database: the same from whichever process answers, so a scrape adds none of it up. Ages of
# jobs and tasks are by the clock of the machine, those of events by the service's, which wrote them.


class Figure(NamedTuple):
    """One value of a gauge."""

    name: str
    labels: Mapping[str, str]
    value: float


READABLE = "service_figures_readable"
DESCRIPTIONS: Mapping[str, str] = {
    READABLE: "1 if the database figures could be read. With 0, the others are missing.",
    "service_disk_free_bytes": "Bytes free where the embedded database is.",
    "service_jobs": "Jobs by state. One that succeeded is deleted.",
    "service_jobs_longest_wait_seconds": "Longest wait of a due job for a worker, in seconds.",
    "service_workers": "Workers with a heartbeat in the last 30 s.",
    "service_task_age_seconds": "Seconds since this scheduled task last ran to its end.",
    "service_task_seconds": "Seconds that its last run took.",
    "service_log_events": "Events that have their position in the log.",
    "service_log_signed_events": "Events in the newest signed checkpoint.",
    "service_log_may_be_signed": "1 if the log continues the last checkpoint. With 0, nothing is signed.",
    "service_log_cosigned_events": "Events in the newest checkpoint that this witness has cosigned.",
    "service_sequencer_waiting": "Events that wait for their position in the log, counted up to 1000.",
    "service_sequencer_lag_seconds": "Seconds that the oldest event has waited for its position.",
    "service_reader_lag_events": "Events that this reader of the log has not read yet.",
    "service_reader_lag_seconds": "Age of the oldest event that this reader has not read, in seconds.",
    "service_rebuild_events": "Events that the rebuild under way of this table has folded.",
    "service_sweep_longest_wait_seconds": ("Longest wait of a due object for its turn in this step, in seconds."),
    "service_sweep_due": "Objects that wait for this step of the sweep.",
    "service_alerts_due": "Alerts whose scheduled evaluation is due.",
    "service_alerts_oldest_due_seconds": "Seconds since the one that is due longest was due.",
    "service_webhook_deliveries_due": "Deliveries that are due, counted up to 100 of each webhook.",
    "service_webhook_deliveries_oldest_due_seconds": "Seconds since the one that is due longest was due.",
    "service_new_cases_most": "Most cases that one project has opened in this hour.",
    "service_deletions_open": "Deletions of projects and accounts that are under way.",
    "service_deletions_oldest_seconds": "Age of the oldest deletion under way, in seconds.",
    "service_copy_lag_seconds": "Seconds of telemetry of this table that are not in the copy yet. Only with a copy.",
    "service_copy_rows_waiting": "Rows of this table in sealed batches that are not in the copy.",
    "service_copy_failed_batches": "Batches of this table that were deleted in the copy and sent again.",
    "service_copy_stands_still": "1 if the copy cannot be read or written now.",
    "service_copy_erasures_open": "Deletions that wait for the copy of telemetry.",
    "service_copy_erasures_oldest_seconds": "Longest wait of a deletion for the copy, in seconds.",
    "service_table_bytes": "Size of a table with its indexes and partitions.",
    "service_table_rows": "Rows of a table with its partitions, as the database estimates them.",
}
"""What each figure tells, by name."""

_FIGURES = load_query("discovery", "figures")


async def figures(store: EventStore, settings: Settings) -> list[Figure]:
    """Read them; while the database does not answer, little more than that they cannot be read."""
    free = free_bytes(settings)
    seen = [] if free is None else [Figure("service_disk_free_bytes", {}, free)]
    try:
        found = [Figure(name, labels, float(value)) for name, labels, value in await store.fetch(_FIGURES)]
        turns = await waits(store)
    except (psycopg.Error, CommandNotDone):
        return [*seen, Figure(READABLE, {}, 0)]
    found += [Figure("service_sweep_longest_wait_seconds", {"step": wait.step}, wait.longest) for wait in turns]
    found += [Figure("service_sweep_due", {"step": wait.step}, wait.objects) for wait in turns]
    return [*found, *seen, Figure(READABLE, {}, 1)]


# Moving the clock of the service forward, for tests (G-120). The clock is no part of any history and its row no read
# model: this write has a connection of its own.

_ADVANCE = load_query("discovery", "advance")


async def advance(conninfo: str, seconds: int, waking: Callable[[int], Sequence[Job]]) -> tuple[int, int]:
    """Move the clock ahead by seconds, and defer the jobs that `waking` names for the new time.

    Returns the service's time and how far it is ahead by now, in epoch seconds and seconds.
    """
    async with await WatchedConnection.connect(conninfo, application_name="service-test-clock") as connection:
        cursor = await connection.execute(_ADVANCE, {"seconds": seconds})
        [[server_time, ahead]] = await cursor.fetchall()
        for job in waking(server_time):
            await defer(connection, job)
    return int(server_time), int(ahead)
