"""What /metrics shows of the database: the same from whichever process answers, so a scrape adds none of it up.

Ages of jobs and tasks are by the clock of the machine, those of events by the service's, which wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import psycopg

from service.discovery.reads import waits
from service.discovery.room import free_bytes
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.settings import Settings


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
    "service_table_bytes": "Size of a table with its indexes and partitions.",
    "service_table_rows": "Rows of a table with its partitions, as the database estimates them.",
}
"""What each figure tells, by name."""

_FIGURES = load_sql("discovery", "figures")


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
