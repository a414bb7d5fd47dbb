"""What a source of telemetry is asked, independent of any provider: the queries of verification, and bounded ones.

G-032, G-085.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from schemas.kernel.shape import EvidenceSource
from service.analytics.bounded import Bounded, Rows
from service.analytics.metadata import KeysFound, NamesFound, SignalProbe
from statemachines.kernel.readings import ReadFailed
from statemachines.onboarding.proof import ErrorSighting, EventSighting
from statemachines.onboarding.questions import SeenSignals
from statemachines.runs.verdict import CountedBy, CountedIn

ROWS_PER_EVENT = 200  # rows with the right marker that are looked at, newest first
STRAY_ROWS = 1000  # rows with another marker that are looked at for the reason why they do not count


class EventProbe(msgspec.Struct, frozen=True):
    """Analytics events that carry a proof marker: which ones, which properties of them, and when they came in.

    `since` and `until` are epoch seconds, the end excluded. Rows under `marker_sha256` are looked for; some under
    other markers are told too.
    """

    events: tuple[str, ...]
    properties: tuple[str, ...]
    marker_sha256: str
    since: int
    until: int


class ErrorProbe(msgspec.Struct, frozen=True):
    """Errors that carry a proof marker and show a failure: which failure, which context, and when they came in."""

    failure_marker: str
    context: tuple[str, ...]
    marker_sha256: str
    since: int
    until: int


class FunnelProbe(msgspec.Struct, frozen=True):
    """An ordered funnel: which events in which order, and when they were received.

    `since` and `until` are epoch seconds, the end excluded.
    """

    events: tuple[str, ...]
    since: int
    until: int


class TrafficProbe(msgspec.Struct, frozen=True):
    """Events of a name in an environment, received after `since` and not after `until` (epoch seconds; G-190)."""

    event: str
    environment: str
    since: int
    until: int


class CountedEvents(msgspec.Struct, frozen=True):
    """How many events came, and where. `counted_by` public: those by the public DSN are among them (G-184)."""

    count: int
    counted_in: CountedIn
    counted_by: CountedBy | None = None


class AnalyticsProvider(Protocol):
    """A source of a project's telemetry. A failed read is never returned as an empty one."""

    @property
    def source(self) -> EvidenceSource:
        """The name of this source in evidence."""

    async def proof_events(self, probe: EventProbe) -> Sequence[EventSighting] | ReadFailed:
        """Find analytics events that carry a proof marker."""

    async def proof_errors(self, probe: ErrorProbe) -> Sequence[ErrorSighting] | ReadFailed:
        """Find errors that carry a proof marker and show the failure."""

    async def count_events(self, probe: TrafficProbe) -> CountedEvents | ReadFailed:
        """Count events of an environment, and unnamed ones where usual."""

    async def count_funnel(self, probe: FunnelProbe) -> list[int] | ReadFailed:
        """Count the people who reached each step of an ordered funnel: as many numbers as steps, none above the last.

        Events of one second count as in order. No event is left out: a period with too many is a failed read.
        """

    async def ask(self, query: Bounded) -> Rows | ReadFailed:
        """Carry out a bounded query. Whoever asks has taken a turn and bounds the time: see BoundedQueries."""

    async def event_names(self, days: int, limit: int) -> NamesFound | ReadFailed:
        """Tell the names of the events of the last `days`, most rows first."""

    async def property_keys(self, events: Sequence[str] | None, days: int, limit: int) -> KeysFound | ReadFailed:
        """Tell the keys of the properties of these events, or of all, of the last `days`, most rows first."""

    async def newest_rows(self, probe: SignalProbe) -> SeenSignals | ReadFailed:
        """Look at the newest rows of events, and for errors with the marker of a failure."""
