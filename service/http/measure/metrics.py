"""What is noted of each answer: in /metrics, and as a line in the log.

/metrics shows what the processes of this machine count, added up, and the figures of the database.

The library adds up: the supervisor names a directory in PROMETHEUS_MULTIPROC_DIR before a process loads it, each
process counts in files there, and whichever is asked reads the files of all. A counter outlives its process, so that
nothing ever counts backwards. A gauge of a process that ended is removed. Without the directory a process shows what it
counts itself.

A line in the log says what was asked of which route, by what kind of caller, and how that went. It holds no path, no
parameter and no header, so no id of a customer and no secret, whatever the client sends. Every request pays for it, so
it is made here: through the processors that other lines go through it would cost 48 µs, not 2.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from schemas.kernel.errors import CATALOGUE
from service.discovery.reads import DESCRIPTIONS, Figure
from service.ingest.outcomes import IngestOutcomes

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
REFRESH_SECONDS = 1.0  # how old a gauge of another process may be
FIGURES_SECONDS = 1.0  # anybody may ask, and costs the database no more than one look in so long
RESTS = 3  # times as long as a scrape took, until the next one begins

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNKNOWN = "unknown"  # who asked, when that was not found out
STDERR = 2
_encode = msgspec.json.Encoder().encode

Joined = Literal["livesum", "livemax"]
Labelled = Mapping[tuple[str, ...], float]
Records = Mapping[tuple[str, int], int]
"""Records of a request by kind and status."""


class Metrics:
    """The instruments of one process (an Observer of the pipeline)."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "service_requests", "Answers by operation and status.", ["operation", "status"], registry=self._registry
        )
        self._refusals = Counter("service_refusals", "Error answers by code.", ["code"], registry=self._registry)
        for code in CATALOGUE:
            self._refusals.labels(code)  # from 0 on: Prometheus sees no increase in a counter that appears with 1
        self._seconds = Histogram(
            "service_request_seconds",
            "Seconds from the router to the answer.",
            ["operation"],
            registry=self._registry,
            buckets=LATENCY_BUCKETS,
        )
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._gauges: list[tuple[Gauge, Callable[[], float]]] = []
        self._totals: list[_Total] = []
        self._ingest = IngestOutcomes()
        self._figures: list[Figure] = []
        self._read_at = float("-inf")
        self._rests_until = 0.0
        self._now: asyncio.Future[bytes] | None = None
        self._next: asyncio.Future[bytes] | None = None

    def answered(
        self, operation: str, status: int, code: str | None, seconds: float, records: Records | None = None
    ) -> None:
        """Count an answer, and the records that were in its request."""
        children = self._children.get((operation, status))
        if children is None:
            children = self._requests.labels(operation, str(status)), self._seconds.labels(operation)
            self._children[operation, status] = children
        children[0].inc()
        children[1].observe(seconds)
        if code is not None:
            self._refusals.labels(code).inc()
        if records is None:
            self._ingest.answered(operation, status)
        else:
            self._ingest.received(records)

    def gauge(self, name: str, description: str, read: Callable[[], float], joined: Joined) -> None:
        """Add a gauge of what `read` says. `joined` says how those of all processes become one."""
        gauge = Gauge(name, description, registry=self._registry, multiprocess_mode=joined)
        self._gauges.append((gauge, read))

    def total(self, name: str, description: str, labels: Sequence[str], read: Callable[[], Labelled]) -> None:
        """Add a counter of what `read` says has been counted so far in this process, by the values of its labels."""
        self._totals.append(_Total(Counter(name, description, labels, registry=self._registry), read))

    def watch_ingest(self, suppressed: Callable[[], int]) -> None:
        """Show what became of received records as well. `suppressed` says how many accepted logs a rule keeps aside."""
        description = "Records received, by outcome."
        self.total(
            "service_ingest_records", description, ["kind", "outcome"], lambda: self._ingest.counts(suppressed())
        )

    def refresh(self) -> None:
        """Take in what gauges and totals say now."""
        for gauge, read in self._gauges:
            gauge.set(read())
        for total in self._totals:
            total.refresh()

    async def keep_fresh(self) -> None:
        """Refresh for ever, for the scrapes that other processes answer."""
        while True:
            self.refresh()
            await asyncio.sleep(REFRESH_SECONDS)

    async def look(self, figures: Callable[[], Awaitable[list[Figure]]]) -> None:
        """Read the figures of the database, unless they were read a moment ago."""
        if time.monotonic() - self._read_at > FIGURES_SECONDS:
            self._figures = await figures()
            self._read_at = time.monotonic()

    async def scrape(self, figures: Callable[[], Awaitable[list[Figure]]]) -> bytes:
        """Everything in the Prometheus text format: one at a time is worked out, for all who came before it began.

        Whoever comes meanwhile waits for the next, which begins when three times as long has passed as this one took:
        what they are told is never older than their question, and strangers without end cost a quarter of a processor.
        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._scrape_after(self._now, figures))
            self._next.add_done_callback(_heard)
        return await asyncio.shield(self._next)

    async def _scrape_after(
        self, other: asyncio.Future[bytes] | None, figures: Callable[[], Awaitable[list[Figure]]]
    ) -> bytes:
        if other is not None:
            await asyncio.wait([other])
        await asyncio.sleep(self._rests_until - time.monotonic())
        self._now, self._next = self._next, None
        began = time.monotonic()
        try:
            await self.look(figures)
            self.refresh()
            return await asyncio.to_thread(self.render)
        finally:
            self._rests_until = time.monotonic() + RESTS * (time.monotonic() - began)

    def render(self) -> bytes:
        """Everything in the Prometheus text format. With many processes that takes a while, so a thread may do it."""
        shown = CollectorRegistry()
        shown.register(_Figures(self._figures))
        directory = os.environ.get(DIRECTORY)
        counted = self._registry if directory is None else CollectorRegistry()
        if directory is not None:
            MultiProcessCollector(counted, directory)  # type: ignore[no-untyped-call] # the library has no types here
        return generate_latest(counted) + generate_latest(shown)


def _heard(scrape: asyncio.Future[bytes]) -> None:
    """Take note of how a scrape ended, also when nobody waits for it any more."""
    if not scrape.cancelled():
        scrape.exception()


def forget(pid: int) -> None:
    """Remove the gauges of a process that has ended. What it counted stays."""
    if DIRECTORY in os.environ:
        mark_process_dead(pid)  # type: ignore[no-untyped-call] # as above


class _Total:
    """A counter that follows a number which only grows."""

    def __init__(self, counter: Counter, read: Callable[[], Labelled]) -> None:
        self._counter = counter
        self._read = read
        self._seen: dict[tuple[str, ...], float] = {}

    def refresh(self) -> None:
        """Add what has come since the last time."""
        for labels, value in self._read().items():
            seen = self._seen.get(labels)
            if seen is None or value > seen:
                (self._counter.labels(*labels) if labels else self._counter).inc(value - (seen or 0))
                self._seen[labels] = value


class _Figures(Collector):
    """The figures of the database as the library takes them."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield a family for each name."""
        families: dict[str, GaugeMetricFamily] = {}
        for name, labels, value in self._figures:
            if name not in families:
                families[name] = GaugeMetricFamily(name, DESCRIPTIONS[name], labels=list(labels))
            families[name].add_metric(list(labels.values()), value)
        yield from families.values()


class AccessLog:
    """Writes to stderr what it is told of answers, once it is turned on."""

    def __init__(self) -> None:
        self.on = False

    def answered(
        self, request_id: str, method: str, route: str, status: int, seconds: float, principal: str = UNKNOWN
    ) -> None:
        """Note an answer. `route` is the template of its path."""
        if not self.on:
            return
        line = {
            "event": "request",
            "method": method if method in METHODS else "other",
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "principal": principal,
            "request_id": request_id,
            "level": "info",
            "timestamp": datetime.now(UTC),
            "process": "api",
        }
        with suppress(OSError):  # nobody reads the log any more, or whoever does is full
            os.write(STDERR, _encode(line) + b"\n")
