"""What became of every record that was received, for /metrics: four outcomes that add up (design §6).

`accepted` and `suppressed` are stored (a rule keeps the latter out of attention), `malformed` is not of the form that
the operation takes, `refused` is everything else. Counted where answers leave the process, so that a record that
never reached the intake counts too.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

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


# The time of an event by the clock of its SDK (G-193). Pure functions. A client's clock may be wrong, and a record may
# have waited. The time of sending tells by how much the clock is off. An impossible time counts as the time of
# receipt.

SKEW = 60  # seconds between sending and receipt that say nothing of a clock
REACH = 30 * 86400  # seconds that an event may lie back
PUBLIC_REACH = 86400  # of one by the public DSN, which anybody can send
_MOST = 10**11
"""The largest number of seconds: five thousand years."""
_LONGEST = 64  # characters of a time
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]*)?")


class SdkClock(NamedTuple):
    """The times of an event and of its sending, in epoch seconds by the clock of the SDK. None: it says none."""

    happened: int | None = None
    sent: int | None = None


NO_CLOCK = SdkClock()


def occurred_at(clock: SdkClock, received_at: int, *, public: bool) -> int:
    """The time of an event received at a time (epoch seconds). The database agrees: functions/occurred.sql."""
    happened, sent = clock
    if happened is None:
        return received_at
    if sent is not None and abs(received_at - sent) > SKEW:
        happened += received_at - sent
    earliest = received_at - (PUBLIC_REACH if public else REACH)
    return happened if earliest <= happened <= received_at else received_at


def seconds_of(value: Any) -> int | None:
    """Read a time in the form of an SDK: epoch seconds, or a text, by default in UTC. None for any other value."""
    if isinstance(value, str):
        return _seconds_in(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST < value < _MOST:
        return None
    return math.floor(value)


def _seconds_in(text: str) -> int | None:
    if len(text) > _LONGEST:
        return None
    if _NUMBER.fullmatch(text):
        return seconds_of(float(text))
    try:
        told = datetime.fromisoformat(text)
        return math.floor((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return None


@dataclass(slots=True)
class SdkCounts:
    """What one process has been told: items by protocol and type, drops by protocol, reason and category."""

    items: Counter[tuple[str, ...]] = field(default_factory=Counter)
    discarded: Counter[tuple[str, ...]] = field(default_factory=Counter)
