"""How the installation does: what `/metrics` and `/health/ready` tell inside, put in order.

It is for the people in SERVICE_OPERATORS. Others find no such page, as they find no metrics behind the shipped proxy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from service.auth.refusals import NotFound
from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.log import checkpoint_of

# The metrics of the service in the text form of Prometheus, read back into numbers.

LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class ReadFigure(NamedTuple):
    """A number with its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


class Figures:
    """All numbers of a reading, by name."""

    def __init__(self, text: str) -> None:
        self._found: dict[str, list[ReadFigure]] = {}
        for figure in _read(text):
            self._found.setdefault(figure.name, []).append(figure)

    def one(self, name: str) -> float | None:
        """The number of a name without labels. None when it is missing."""
        found = self._found.get(name)
        return found[0].value if found else None

    def by(self, name: str, label: str) -> dict[str, float]:
        """The numbers of a name by one of its labels."""
        return {one.labels.get(label, ""): one.value for one in self._found.get(name, ())}


def _read(text: str) -> Iterator[ReadFigure]:
    for line in text.split("\n"):
        found = None if line.startswith("#") else LINE.fullmatch(line.strip())
        if found is not None:
            yield ReadFigure(found["name"], dict(LABEL.findall(found["labels"] or "")), float(found["value"]))


QUEUES = (
    ("service_requests_running", "Requests under way"),
    ("service_requests_waiting", "Requests that wait for a change"),
    ("service_streams_open", "Streams open"),
    ("service_commands_waiting", "Commands in the queue"),
    ("service_fences_waiting", "Fences in the queue"),
    ("service_reads_waiting", "Reads that wait for a turn"),
    ("service_queries_waiting", "Queries that wait for a turn"),
    ("service_ingest_waiting", "Records that wait to be stored"),
    ("service_webhook_deliveries_due", "Webhook deliveries that are due"),
    ("service_alerts_due", "Alerts that are due"),
    ("service_deletions_open", "Deletions under way"),
    ("service_tenants_resting", "Tenants that rest, so that their neighbours come first"),
    ("service_rests_total", "Rests of tenants since the start"),
)
SHOWN_ALWAYS = ("todo", "doing", "failed")
"""States of jobs that are shown with no job in them too."""
LARGEST = 8
"""Tables that are shown with their size."""
EVERY = 10
"""Seconds after which the page reads itself anew."""


@page("operator")
async def show_operator(visit: Visit) -> View:
    """Show the checks, the log with its readers, queues and jobs. Raises NotFound to others than operators."""
    if not visit.of_operator:
        raise NotFound
    ready = await visit.ask("get_ready", {})
    metrics = await visit.ask("get_metrics", {})
    figures = Figures(metrics.raw.decode() if metrics.ok else "")
    checks = ready.body["checks"] if ready.ok else (ready.error.get("details") or {}).get("checks", [])
    lags = figures.by("service_reader_lag_events", "reader")
    ages = figures.by("service_task_age_seconds", "task")
    facts: dict[str, Any] = {
        "standing": ready.body["status"] if ready.ok else "not ready",
        "checks": checks,
        "readable": figures.one("service_figures_readable") == 1,
        "events": figures.one("service_log_events"),
        "signed": figures.one("service_log_signed_events"),
        "waiting": figures.one("service_sequencer_waiting"),
        "workers": figures.one("service_workers"),
        "free": figures.one("service_disk_free_bytes"),
        "cosigned": figures.by("service_log_cosigned_events", "witness"),
        "readers": [
            (name, lag, figures.by("service_reader_lag_seconds", "reader").get(name)) for name, lag in lags.items()
        ],
        "rebuilds": figures.by("service_rebuild_events", "table"),
        "jobs": {
            status: count
            for status, count in figures.by("service_jobs", "status").items()
            if count or status in SHOWN_ALWAYS
        },
        "longest_job": figures.one("service_jobs_longest_wait_seconds"),
        "tables": sorted(figures.by("service_table_bytes", "table").items(), key=lambda pair: -pair[1])[:LARGEST],
        "signable": not any(one == 0 for one in figures.by("service_log_may_be_signed", "verdict").values()),
        "tasks": [(name, age, figures.by("service_task_seconds", "task").get(name)) for name, age in ages.items()],
        "steps": [
            (name, due, figures.by("service_sweep_longest_wait_seconds", "step").get(name))
            for name, due in figures.by("service_sweep_due", "step").items()
        ],
        "queues": [(label, figures.one(name)) for name, label in QUEUES],
        "refused": sorted(
            ((code, count) for code, count in figures.by("service_refusals_total", "code").items() if count),
            key=lambda pair: -pair[1],
        )[:10],
        "checkpoint": await checkpoint_of(visit),
    }
    return View("operator/shown.html", "Operator", facts, every=EVERY)


PAGES = [show_operator]
