"""What /metrics shows: answers, refusals and latencies of this process, and gauges read when asked."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from service.ingest.outcomes import IngestOutcomes

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The instruments of one process, in a registry of their own (an Observer of the pipeline)."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "service_requests", "Answers by operation and status.", ["operation", "status"], registry=self._registry
        )
        self._refusals = Counter("service_refusals", "Error answers by code.", ["code"], registry=self._registry)
        self._seconds = Histogram(
            "service_request_seconds",
            "Seconds from the router to the answer.",
            ["operation"],
            registry=self._registry,
            buckets=LATENCY_BUCKETS,
        )
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._ingest: IngestOutcomes | None = None
        self._shown: dict[str, Gauge] = {}

    def answered(self, operation: str, status: int, code: str | None, seconds: float) -> None:
        """Count an answer."""
        children = self._children.get((operation, status))
        if children is None:
            children = self._requests.labels(operation, str(status)), self._seconds.labels(operation)
            self._children[operation, status] = children
        children[0].inc()
        children[1].observe(seconds)
        if code is not None:
            self._refusals.labels(code).inc()
        if self._ingest is not None:
            self._ingest.answered(operation, status)

    def gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        """Add a gauge that calls `read` whenever the metrics are collected."""
        Gauge(name, description, registry=self._registry).set_function(read)

    def show(self, name: str, description: str, value: float) -> None:
        """Set a gauge to what was read for this answer."""
        if name not in self._shown:
            self._shown[name] = Gauge(name, description, registry=self._registry)
        self._shown[name].set(value)

    def watch_ingest(self, outcomes: IngestOutcomes) -> None:
        """Show what became of received records as well."""
        self._ingest = outcomes
        self._registry.register(outcomes)

    def render(self) -> bytes:
        """Everything in the Prometheus text format."""
        return generate_latest(self._registry)
