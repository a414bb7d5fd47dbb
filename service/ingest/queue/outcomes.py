"""What became of every record that was received, for /metrics: four outcomes that add up (design §6).

`accepted` and `suppressed` are stored (a rule keeps the latter out of attention), `malformed` is not of the form that
the operation takes, `refused` is everything else. Counted where answers leave the process, so that a record that
never reached the intake counts too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

KINDS = {
    "record_log": "logs",
    "record_sentry_envelope": "logs",
    "record_sentry_event": "logs",
    "record_security_reports": "logs",
    "record_minidump": "logs",
    "record_analytics_event": "analytics",
    "capture_posthog_batch": "analytics",
    "capture_posthog_event": "analytics",
    "capture_posthog_events": "analytics",
    "ingest_posthog_events": "analytics",
    "record_deploy": "deploys",
}
"""Kind of record by operation id."""

_ACCEPTED = 202
_MALFORMED = frozenset({400, 413, 415})


def outcome_of(status: int) -> str:
    """Sort an answer by its status."""
    if status == _ACCEPTED:
        return "accepted"
    return "malformed" if status in _MALFORMED else "refused"


class IngestOutcomes:
    """Counts the answers of ingest operations."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[str, ...]]()

    def answered(self, operation: str, status: int) -> None:
        """Count an answer; those of other operations are none of ours."""
        kind = KINDS.get(operation)
        if kind is not None:
            self._counts[kind, outcome_of(status)] += 1

    def received(self, records: Mapping[tuple[str, int], int]) -> None:
        """Count the records of a request that has several: how many of each kind had which status."""
        for (kind, status), count in records.items():
            self._counts[kind, outcome_of(status)] += count

    def counts(self, suppressed: int) -> Mapping[tuple[str, ...], int]:
        """Records by kind and outcome, when a rule has suppressed so many of the logs that were accepted."""
        counts = dict(self._counts)
        suppressed = min(suppressed, counts.get(("logs", "accepted"), 0))
        if suppressed:
            counts["logs", "accepted"] -= suppressed
            counts["logs", "suppressed"] = suppressed
        return counts
