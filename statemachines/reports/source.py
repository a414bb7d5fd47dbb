"""What a review compares, and what was read of it: an ordered funnel over two periods, counted by person (G-112).

A person is a `distinct_id`. One has reached a step when its event, and before it those of all earlier steps in their
order, were received within the period; events of one second count as in order. Periods are half-open, epoch seconds.

What could not be read is a gap and has no numbers: a zero says that nobody came, and a gap that nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from statemachines.kernel.canonical import canonical_sha256

BLUEPRINT: Final = "ordered-funnel-period-compare"
DECIMALS = 6
"""Conversions are rounded to so many, so that every reader of a row has the same number."""
DAY = 86400

GapCode = Literal[
    "provider_unconfigured",
    "provider_unauthorized",
    "provider_unreachable",
    "provider_timeout",
    "provider_refused",
    "provider_malformed",
    "provider_too_much",
    "period_not_kept",
    "period_not_settled",
]
GAPS: dict[GapCode, str] = {
    "provider_unconfigured": "The analytics provider of the project is not configured here.",
    "provider_unauthorized": "The analytics provider no longer accepts the project's connection.",
    "provider_unreachable": "The analytics provider did not answer, or answered with an error.",
    "provider_timeout": "The analytics provider did not answer in time.",
    "provider_refused": "The analytics provider refused the query.",
    "provider_malformed": "The answer of the analytics provider was not in the agreed form.",
    "provider_too_much": "A period holds more events than one source counts.",
    "period_not_kept": "The periods reach back further than the project's events are kept.",
    "period_not_settled": "Events of the period are still being stored.",
}
LASTING: frozenset[GapCode] = frozenset({"period_not_kept"})
"""Gaps that no later read of the same periods closes."""


class FunnelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which events, in which order, over which two periods, and how many people make a sample."""

    events: list[str]
    minimum_sample_size: int
    period_start: int
    period_end: int
    prior_period_start: int
    prior_period_end: int


class FunnelStep(msgspec.Struct, frozen=True):
    """How many people reached a step in either period."""

    event: str
    prior_users: int
    current_users: int


class FunnelGap(msgspec.Struct, frozen=True):
    """Why nothing could be read."""

    code: GapCode

    @property
    def message(self) -> str:
        """The gap in words."""
        return GAPS[self.code]


FunnelReading = list[FunnelStep] | FunnelGap
"""What a read came to."""


class Column(NamedTuple):
    """A column of the source, as a report names it."""

    name: str
    type: Literal["integer", "string", "number"]
    unit: str
    description: str


COLUMNS = (
    Column("step", "integer", "position", "Place of the step in the funnel, from 1."),
    Column("event", "string", "name", "Name of the step's event."),
    Column("prior_users", "integer", "people", "People who reached the step in the prior period."),
    Column("current_users", "integer", "people", "People who reached the step in the current period."),
    Column("prior_conversion", "number", "share", "Of the people at the first step, the share that reached this one."),
    Column("current_conversion", "number", "share", "The same in the current period; null when nobody began."),
)
COLUMN_NAMES = frozenset(column.name for column in COLUMNS)
MEASURES = ("users", "conversion")
"""What the prior and the current column of a row are compared by."""


class FunnelRow(msgspec.Struct, frozen=True):
    """A row of the source. A conversion is null when nobody was at the first step: no share of nothing is a number."""

    step: int
    event: str
    prior_users: int
    current_users: int
    prior_conversion: float | None
    current_conversion: float | None


class FunnelSource(msgspec.Struct, frozen=True):
    """What was read, once. Without steps it is a gap."""

    provider: str
    source_hash: str
    steps: list[FunnelStep]
    gap: GapCode | None
    materialized_at: int


def plan_of(events: Sequence[str], minimum: int, start: int, end: int) -> FunnelPlan:
    """Plan to compare a period, end excluded, with the one of the same length before it."""
    return FunnelPlan(
        events=list(events),
        minimum_sample_size=minimum,
        period_start=start,
        period_end=end,
        prior_period_start=start - (end - start),
        prior_period_end=start,
    )


def rows_of(steps: Sequence[FunnelStep]) -> list[FunnelRow]:
    """Lay the steps out with their conversions."""
    if not steps:
        return []
    prior, current = steps[0].prior_users, steps[0].current_users
    return [
        FunnelRow(
            place,
            step.event,
            step.prior_users,
            step.current_users,
            share(step.prior_users, prior),
            share(step.current_users, current),
        )
        for place, step in enumerate(steps, 1)
    ]


def share(part: int, whole: int) -> float | None:
    """The part of a whole, rounded. None of nothing."""
    return round(part / whole, DECIMALS) if whole else None


def hash_of(plan: FunnelPlan, reading: FunnelReading) -> str:
    """Name a source by what is in it: hex SHA-256 of its canonical JSON (G-112). The rows of a gap are null."""
    rows = None if isinstance(reading, FunnelGap) else [msgspec.structs.asdict(row) for row in rows_of(reading)]
    return canonical_sha256(
        {"blueprint_id": BLUEPRINT, "events": plan.events, "periods": periods_of(plan), "rows": rows}
    )


def periods_of(plan: FunnelPlan) -> dict[str, Any]:
    """The four bounds by their names."""
    names = ("period_start", "period_end", "prior_period_start", "prior_period_end")
    return {name: getattr(plan, name) for name in names}


def sample_of(steps: Sequence[FunnelStep]) -> int | None:
    """How many people began, in the period in which fewer did; None when nobody knows."""
    return min(steps[0].prior_users, steps[0].current_users) if steps else None
