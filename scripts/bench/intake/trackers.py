"""Two trackers of errors, given the same envelopes of Sentry's by the same clients: this service, and Bugsink.

Each takes short turns. What counts is how many envelopes it accepts in a second (2xx) while they are sent, and how many
of them are visible in a second: stored in the case (there: the issue) that they belong to, and readable, told by what
its own reading side says, until the last of those that it accepted is. A tracker that answers first and works later
is given the time for that; one that then loses what it accepted fails the run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from scripts.bench.intake import envelopes
from scripts.load import loadgen, worlds

CONNECTIONS = 16
TURNS = 3  # after a short one to warm up
WARMING = 1.0  # seconds
LOOK = 0.1  # seconds between looks at what is visible
PATIENCE = 30.0  # seconds that a tracker may make no headway with what it accepted


class Tracker(NamedTuple):
    """A tracker and one project of it: where SDKs report to, and how many of its events are visible, of how many kinds.

    `kinds` are its cases or issues.
    """

    name: str
    dsn: str
    visible: Callable[[], int]
    kinds: Callable[[], int]


class Turn(NamedTuple):
    """What became of one load: events per second that were accepted, and that were visible; and every answer."""

    accepted: float
    visible: float
    statuses: Counter[int]


def of_service(service: worlds.Service) -> Tracker:
    """A running service of ours, with a project of its own."""
    project = service.create_project("trackers")
    path = f"/v1/projects/{project['id']}/cases?limit=100"

    def counts() -> list[int]:
        return [case["event_count"] for case in service.call("GET", path, None, service.owner_key)["cases"]]

    return Tracker("the service", project["sdks"]["sentry_dsn"], lambda: sum(counts()), lambda: len(counts()))


def take_turn(tracker: Tracker, number: int, seconds: float, patience: float = PATIENCE) -> Turn:
    """Send for so long, then wait until everything that was accepted is visible.

    `number` keeps apart what turns send. Exits when a tracker makes no headway for `patience` seconds.
    """
    address = urlsplit(tracker.dsn)
    laid_out = envelopes.texts(datetime.now(UTC).isoformat())
    before = tracker.visible()
    began = time.perf_counter()
    stats = loadgen.run(
        str(address.hostname),
        address.port or 80,
        lambda client: envelopes.sending(tracker.dsn, laid_out, number, client),
        CONNECTIONS,
        seconds,
    )
    accepted = len(stats.latencies)
    seen, last = 0, time.perf_counter()
    while (now := tracker.visible() - before) < accepted:
        if now > seen:
            seen, last = now, time.perf_counter()
        if time.perf_counter() - last > patience:
            raise SystemExit(f"{tracker.name} accepted {accepted} events, of which {now} became visible")
        time.sleep(LOOK)
    return Turn(stats.rate, accepted / (time.perf_counter() - began), stats.statuses)


def measure(trackers: Sequence[Tracker], seconds: float, say: Callable[[str], None]) -> list[Turn]:
    """Let them take turns of so many seconds; returns the medians of each, and all its answers."""
    found: dict[str, list[Turn]] = {tracker.name: [] for tracker in trackers}
    for number in range(1 + TURNS):
        for tracker in trackers:
            turn = take_turn(tracker, number, seconds if number else WARMING)
            found[tracker.name].append(turn)
            rates = f"{turn.accepted:,.0f} accepted/s, {turn.visible:,.0f} visible/s"
            say(f"{tracker.name}: {rates}, answers {dict(turn.statuses)}")
    for tracker in trackers:
        kinds = tracker.kinds()
        assert kinds == envelopes.ISSUES, f"{tracker.name} tells {kinds} kinds of error"
    return [_median(turns[1:]) for turns in found.values()]


def _median(turns: Sequence[Turn]) -> Turn:
    statuses = sum((turn.statuses for turn in turns), Counter[int]())
    return Turn(median(turn.accepted for turn in turns), median(turn.visible for turn in turns), statuses)
