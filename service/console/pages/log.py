"""The log of a project and its streams: events, positions, checkpoints, and how to verify them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from service.auth.refusals import NotFound
from service.console.kit.diagrams import Passed, draw
from service.console.kit.page import ALL, View, page
from service.console.kit.texts import Moments
from service.console.kit.visit import Json, Visit

# Positions and revisions in addresses of pages.

NEWEST = 2**53 - 1
DIGITS = 16


def number_of(visit: Visit, name: str, default: int) -> int:
    """A number in the query. Raises NotFound for any other text."""
    text = visit.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < DIGITS):
        raise NotFound
    return int(text)


# One stream: its events, its way through its machine, and two of its moments compared.

SHOWN_EVENTS = 100
PAGE = 50
"""Events that are read at once for a comparison."""
MOST_EVENTS = 1000
MOST_BYTES = 8 * 1024 * 1024


@page("streams", section="log")
async def find_stream(visit: Visit) -> View:
    """Show the stream that a form asks for. Raises NotFound without one."""
    return await _shown(visit, visit.query.get("stream_id", "").strip())


@page("streams/{stream_id}", section="log")
async def show_stream(visit: Visit) -> View:
    """Show a stream."""
    return await _shown(visit, visit.values["stream_id"])


async def _shown(visit: Visit, stream_id: str) -> View:
    if not stream_id:
        raise NotFound
    event = number_of(visit, "event", 0)
    before = number_of(visit, "before", event + 1 if event else NEWEST)
    found = await visit.read("list_stream_events", stream_id=stream_id, query={"before": before, "limit": SHOWN_EVENTS})
    events = found["events"]
    passed = [Passed(one["revision"], one["topic"]) for one in events]
    first, second = number_of(visit, "from", -1), number_of(visit, "to", -1)
    asked = first >= 0 and second >= 0
    moments, problem = await _moments(visit, stream_id, first, second) if asked else (None, "")
    facts: dict[str, Any] = {
        "stream_id": stream_id,
        "events": events[::-1],
        "kind": events[-1]["kind"] if events else "",
        "event": event,
        "older": found["next_before"],
        "paged": before != NEWEST,
        "drawing": draw(events[-1]["kind"], passed) if events else None,
        "complete": [one.revision for one in passed] == list(range(1, len(passed) + 1)),
        "moments": moments,
        "problem_of_moments": problem,
        "names": await visit.names(found["project_id"]) if found["project_id"] else {},
        "from_": first if asked else max(events[-1]["revision"] - 1, 0) if events else 0,
        "to": second if asked else events[-1]["revision"] if events else 0,
    }
    return View("log/stream.html", "Stream", facts, found["project_id"], follows=[stream_id])


async def _moments(visit: Visit, stream_id: str, first: int, second: int) -> tuple[Moments | None, str]:
    """Two moments of a stream with its events up to the later one, or why they are not compared here."""
    last = max(first, second)
    if last > MOST_EVENTS:
        return None, f"The console folds at most {MOST_EVENTS} events. Use: service events diff"
    events: list[tuple[str, bytes]] = []
    kind, size, after = "", 0, 0
    while len(events) < last:
        query = {"after": after, "limit": min(PAGE, last - len(events))}
        found = await visit.read("list_stream_events", stream_id=stream_id, query=query)
        if not found["events"]:
            return None, f"The stream has {len(events)} events."
        after = found["next_after"]
        for event in found["events"]:
            if event["erased"]:
                return None, "The stream was erased. Its envelopes still prove themselves."
            kind = event["kind"]
            events.append((event["topic"], msgspec.json.encode(event["payload"])))
            size += len(events[-1][1])
        if size > MOST_BYTES:
            return None, f"The console folds at most {MOST_BYTES // 1024**2} MB of events. Use: service events diff"
    return Moments(kind, events, first, second), ""


# The newest signed checkpoint of the log, as a page tells it.

DASH = "— "
LINES = 3


class ShownCheckpoint(NamedTuple):
    """A signed state of the log: its name, its size, its root, the text itself, and who signed beside the log."""

    origin: str
    size: int
    root: str
    text: str
    witnesses: Sequence[str]


async def checkpoint_of(visit: Visit) -> ShownCheckpoint | None:
    """The newest checkpoint. None before the first."""
    said = await visit.ask("get_log_checkpoint", {})
    if not said.ok:
        return None
    text = said.raw.decode()
    body, _, signatures = text.partition("\n\n")
    origin, size, root = body.split("\n")[:LINES]
    signers = [line.removeprefix(DASH).split(" ")[0] for line in signatures.split("\n") if line.startswith(DASH)]
    return ShownCheckpoint(origin, int(size), root, text, sorted({name for name in signers if name != origin}))


# The events of a project, newest first. Owners and auditors may read them.

RECORDS_A_PAGE = 50
LOOKS = 5
"""Pages that are read for one: the log has the events of other projects in between."""


@page("projects/{project_id}/log", section="log")
async def show_log(visit: Visit) -> View:
    """Show the events of a project."""
    project_id = visit.values["project_id"]
    before, events, found = number_of(visit, "before", NEWEST), list[Json](), Json()
    for _ in range(LOOKS):
        query = {"before": before, "limit": RECORDS_A_PAGE - len(events)}
        found = await visit.read("list_events", project_id=project_id, query=query)
        events = [*found["events"], *events]
        before = found["next_before"] or 0
        if not before or len(events) >= RECORDS_A_PAGE:
            break
    facts: dict[str, Any] = {
        "events": events[::-1],
        "older": before,
        "paged": "before" in visit.query,
        "log_size": found["log_size"],
        "names": await visit.names(project_id),
        "checkpoint": await checkpoint_of(visit),
    }
    return View("log/browsed.html", "Event log", facts, project_id, follows=[ALL])


# How to verify the log without trusting the service, with the commands for it.


@page("how-to-verify")
async def show_how(visit: Visit) -> View:
    """Show the newest checkpoint and three commands. Raises ReadRefused for somebody without a session."""
    await visit.read("list_projects", query={"limit": 1})
    settings = visit.call.services.settings
    facts = {"checkpoint": await checkpoint_of(visit), "base_url": settings.base_url}
    return View("log/verifying.html", "How to verify", facts)


# How the installation does: what `/metrics` and `/health/ready` tell inside, put in order. It is for the people in
# SERVICE_OPERATORS. Others find no such page, as they find no metrics behind the shipped proxy.

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
    ("service_tenants_resting", "Accounts held back, so that their neighbours come first"),
    ("service_rests_total", "Times an account was held back since the start"),
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


PAGES = [find_stream, show_stream, show_log, show_how, show_operator]
