"""What became of every record that was received, for /metrics: four outcomes that add up (design §6).

`accepted` and `suppressed` are stored (a rule keeps the latter out of attention), `malformed` is not of the form that
the operation takes, `refused` is everything else. Counted where answers leave the process, so that a record that
never reached the intake counts too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

KINDS = {"record_log": "logs", "record_analytics_event": "analytics", "record_deploy": "deploys"}
"""Kind of record by operation id."""

_ACCEPTED = 202
_MALFORMED = frozenset({400, 413, 415})


def outcome_of(status: int) -> str:
    """Sort an answer by its status."""
    if status == _ACCEPTED:
        return "accepted"
    return "malformed" if status in _MALFORMED else "refused"


class IngestOutcomes(Collector):
    """Counts the answers of ingest operations; `suppressed` tells how many accepted logs a rule has suppressed."""

    def __init__(self, suppressed: Callable[[], int]) -> None:
        self._counts = Counter[tuple[str, str]]()
        self._suppressed = suppressed

    def answered(self, operation: str, status: int) -> None:
        """Count an answer; those of other operations are none of ours."""
        kind = KINDS.get(operation)
        if kind is not None:
            self._counts[kind, outcome_of(status)] += 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the counters, as the library asks for them."""
        family = CounterMetricFamily(
            "service_ingest_records", "Records received, by what became of them.", labels=["kind", "outcome"]
        )
        counts = dict(self._counts)
        suppressed = min(self._suppressed(), counts.get(("logs", "accepted"), 0))
        if suppressed:
            counts["logs", "accepted"] -= suppressed
            counts["logs", "suppressed"] = suppressed
        for (kind, outcome), count in sorted(counts.items()):
            family.add_metric([kind, outcome], count)
        yield family
