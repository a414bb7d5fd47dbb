"""One bounded query, the rows that it brings back, and the table that its asker is shown (G-032, G-152).

Every question to telemetry, of blueprints, structured queries, alerts and public queries, is one of these. A failed
read is a ReadFailed, which is no table and no empty one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from schemas.analytics.answer import Column, Evidence, Freshness
from schemas.kernel.shape import EvidenceSource
from service.eventstore.connect.clock import DAY

Source = Literal["events", "errors", "deploys"]

MOST_ROWS: Final = 10_000
"""Rows that one read brings back at most."""
DEFAULT_ROWS: Final = 1_000
LONGEST_DAYS: Final = 366
"""Days that a window has at most."""
REACH: Final = 30 * DAY
"""Seconds after an event in which it may be received."""


class Window(msgspec.Struct, frozen=True):
    """A span of time in epoch seconds, `until` excluded."""

    since: int
    until: int


class Bounded(msgspec.Struct, frozen=True, kw_only=True):
    """One bounded query, ready to be asked.

    Errors and deploys are always our own; events are those of the project's provider. `local` is SQL with the places
    %(name)s, and `connected` HogQL with the places {name}. None: this is never asked there. Both are given
    `values`, and project_id (local alone), since, until and most, of which they use what they name; `connected` is also
    given earliest, from which on the client's own time of an event is looked at. `row` is the type of a row, a tuple:
    what a provider answers is checked against it, and that it is just one row where the query is `single`. It is None
    where the provider names the columns itself. At most `most` rows are wanted, and one more is asked for, to see
    whether there are more. `confined`: the shape of `local` is a caller's, and it may see the views of the project
    alone (G-154). Retention counts from `now`, the present. None: it is `as_of`. With a `reach`, `local` goes by the
    time of an event, received up to so many seconds after the window. Without one, it goes by its receipt (G-193).
    """

    source: Source
    local: str | None
    connected: str | None
    row: Any
    single: bool = False
    values: Mapping[str, Any]
    window: Window
    as_of: int
    now: int | None = None
    most: int = MOST_ROWS
    confined: bool = False
    reach: int = 0


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What a query brought back: at most one row more than it wanted.

    `last_at` is when the newest record of the source in the project was received; None without one. `kept_from` is the
    first second that is kept. It is None where nothing is removed, or the provider decides. `names` are the columns'
    names where only the provider knows them. `provider_project_id` is the number of the project read there. Times in
    milliseconds.
    """

    rows: list[tuple[Any, ...]]
    as_of: int
    last_at: int | None
    kept_from: int | None
    complete: bool
    source: EvidenceSource
    names: list[str] = []
    provider_project_id: int | None = None
    waited_ms: float = 0.0
    database_ms: float = 0.0


class Timing(msgspec.Struct, frozen=True):
    """How long a question waited for its turns, and how long it was read, in milliseconds."""

    waited_ms: float
    database_ms: float


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """An answered question as its asker gets it: rows by the names of their columns, and their evidence.

    `provider_project_id` as in Rows.
    """

    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    truncated: bool
    evidence: Evidence
    freshness: Freshness
    timing: Timing
    provider_project_id: int | None = None
