"""A report, from the wish for its source to its record (G-112): intended, materialized, recorded, once each.

That a source is wanted is recorded before a provider is asked. What the first read that came to something said is the
source for ever; until then the same wish reads again. A read that failed is tried again for a while, and is then what
the source says: a gap. Nothing here ends: when its run is over, nobody asks any more (runs.reporting).
"""

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, NoReturn

import msgspec

from schemas.contracts.playbook import FunnelReviewOutput, HypothesisFinding, MetricFinding, ReadinessGapFinding
from statemachines.kernel.canonical import canonical, canonical_sha256
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

# What a review compares, and what was read of it: an ordered funnel over two periods, counted by person (G-112). A
# person is a `distinct_id`. One has reached a step when its event, and before it those of all earlier steps in their
# order, were received within the period; events of one second count as in order. Periods are half-open, epoch
# seconds. What could not be read is a gap and has no numbers: a zero says that nobody came, and a gap that nobody
# knows.

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


# What a report is held to: the very source of its run, and in each metric the numbers of that source (G-112, G-146).
# A hypothesis is a guess and stays one: it has no numbers to hold, so only the columns that it rests on are looked
# at. A readiness gap says why nothing can be said; it is all that a report may hold while the sample is too small,
# or while the source itself is a gap. Texts are the runner's: no refusal repeats one.

TOLERANCE = 1e-6
"""How far a number may be off, counts as well as shares: a tolerance by ratio would let one of a million people go."""

Pair = tuple[float | None, float | None]
"""A prior and a current value of one row."""


def require_held(plan: FunnelPlan, source: FunnelSource, report: FunnelReviewOutput) -> None:
    """Refuse a report that does not rest on this source. Details name the field, and both values but for texts.

    Raises SourceHashMismatch, InsufficientSample, ReportValuesDiffer.
    """
    named = {"source_hash": source.source_hash, "period_start": plan.period_start, "period_end": plan.period_end}
    for name, expected in named.items():
        if getattr(report, name) != expected:
            raise SourceHashMismatch(
                "The report uses another source.",
                next_action="Read the report source again and report on that.",
                **_both(f"report.{name}", expected, getattr(report, name)),
            )
    _require_sample(plan, source, report)
    pairs = _pairs(source)
    for index, finding in enumerate(report.findings):
        place = f"report.findings[{index}]"
        match finding:
            case MetricFinding():
                _require_columns(f"{place}.source_columns", finding.source_columns)
                _require_values(place, finding, pairs)
            case HypothesisFinding():
                _require_columns(f"{place}.evidence_columns", finding.evidence_columns)


def sample_met(plan: FunnelPlan, source: FunnelSource) -> bool:
    """Whether enough people began in both periods; never when nobody knows."""
    sample = sample_of(source.steps)
    return sample is not None and sample >= plan.minimum_sample_size


def _require_sample(plan: FunnelPlan, source: FunnelSource, report: FunnelReviewOutput) -> None:
    if sample_met(plan, source):
        return
    for index, finding in enumerate(report.findings):
        if not isinstance(finding, ReadinessGapFinding):
            kind = "metric" if isinstance(finding, MetricFinding) else "hypothesis"
            raise InsufficientSample(
                "The sample is too small for a report.",
                next_action="Record a report with readiness gaps only.",
                **_both(f"report.findings[{index}].kind", "readiness_gap", kind),
                sample_size=sample_of(source.steps),
                minimum_sample_size=plan.minimum_sample_size,
            )


def _require_columns(place: str, columns: Sequence[str]) -> None:
    for index, column in enumerate(columns):
        if column not in COLUMN_NAMES:
            _differ(field=f"{place}[{index}]", expected=[known.name for known in COLUMNS])


def _require_values(place: str, finding: MetricFinding, pairs: Sequence[Pair]) -> None:
    """Hold a metric to one row: both values of one measure, and the change between them.

    It may leave out the prior value and the change; without a current value that the source has it says nothing.
    """
    prior, current = finding.prior_value, finding.current_value
    fitting = [pair for pair in pairs if prior is None or _close(prior, pair[0])]
    if not fitting:
        _differ(**_both(f"{place}.prior_value", _known(pair[0] for pair in pairs), prior))
    of_prior = fitting
    fitting = [pair for pair in of_prior if _says(current, pair[1])]
    if not fitting:
        _differ(**_both(f"{place}.current_value", _known(pair[1] for pair in of_prior), current))
    if finding.change is None:
        return
    changes = [] if prior is None or current is None else [c for pair in fitting for c in _changes(*pair)]
    if not any(_close(finding.change, change) for change in changes):
        _differ(**_both(f"{place}.change", _known(changes), finding.change))


def _pairs(source: FunnelSource) -> list[Pair]:
    return [
        (getattr(row, f"prior_{measure}"), getattr(row, f"current_{measure}"))
        for row in rows_of(source.steps)
        for measure in MEASURES
    ]


def _changes(prior: float | None, current: float | None) -> list[float]:
    """The difference of two values, and their ratio where there is one."""
    if prior is None or current is None:
        return []
    return [current - prior, *([current / prior] if prior else [])]


def _says(said: float | None, known: float | None) -> bool:
    """Whether a current value is the known one; null says that there is none."""
    return known is None if said is None else _close(said, known)


def _close(said: float, known: float | None) -> bool:
    return known is not None and math.isclose(said, known, rel_tol=0, abs_tol=TOLERANCE)


def _known(values: Iterable[float | None]) -> list[float]:
    return sorted({value for value in values if value is not None})


def _both(field: str, expected: object, actual: object) -> dict[str, Any]:
    return {"field": field, "expected": expected, "actual": actual}


def _differ(**details: Any) -> NoReturn:
    raise ReportValuesDiffer(
        "A finding of the report contradicts its source.",
        next_action="Copy every value and column of a finding from the report source.",
        **details,
    )


PATIENCE_SECONDS = 300
"""How long a failed read is tried again, at most, before it is what the source says."""


def report_id(project_id: str, run_id: str) -> str:
    """Id of the one report that a run may ever make."""
    return derived_id("rep", project_id, run_id)


def stream(project_id: str, report_id: str) -> Stream:
    """Name the history of a report."""
    return Stream(MACHINE, project_id, report_id)


class Status(Enum):
    """Where a report stands."""

    ABSENT = "absent"
    INTENDED = "source_intent"
    MATERIALIZED = "source_materialized"
    RECORDED = "recorded"


class ReportSourceIntended(Event, frozen=True, kw_only=True):
    """The source is wanted: committed before the provider is read. `state_revision` is the one that asked."""

    TOPIC = "report.source_intended.v1"
    run_id: str
    automation_id: str
    plan: FunnelPlan
    state_revision: int
    patient_until: int
    intended_at: int


class ReportSourceMaterialized(Event, frozen=True, kw_only=True):
    """What was read, or why nothing could be: then `gap` is set, and there are no steps."""

    TOPIC = "report.source_materialized.v1"
    provider: str
    source_hash: str
    steps: list[FunnelStep]
    gap: GapCode | None
    materialized_at: int


class ReportRecorded(Event, frozen=True, kw_only=True):
    """The runner's report. `report_json` is its canonical JSON: an opaque text, so that numbers in it survive."""

    TOPIC = "report.recorded.v1"
    report_json: str
    report_sha256: str
    recorded_by: str
    recorded_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ReportSourceIntended.TOPIC, Status.ABSENT, Status.INTENDED],
        [ReportSourceMaterialized.TOPIC, Status.INTENDED, Status.MATERIALIZED],
        [ReportRecorded.TOPIC, Status.MATERIALIZED, Status.RECORDED],
    ],
)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions about a report depend on. The report's text is not among that: its hash is."""

    status: Status = Status.ABSENT
    run_id: str = ""
    automation_id: str = ""
    plan: FunnelPlan | None = None
    state_revision: int = 0
    patient_until: int = 0
    intended_at: int = 0
    source: FunnelSource | None = None
    report_sha256: str | None = None
    recorded_at: int | None = None


class SourceHashMismatch(Rejection):
    """The report names another source, or another period (G-112, R-AUT-50)."""

    code = "source_hash_mismatch"


class InsufficientSample(Rejection):
    """Too few people, or none that anybody knows of, for a metric or a hypothesis (G-112)."""

    code = "insufficient_sample"


class ReportValuesDiffer(Rejection):
    """A finding says something else than the source (G-146)."""

    code = "report_values_differ"


class ReportSourceUnread(Rejection):
    """The source could not be read yet; the same wish reads again (G-112)."""

    code = "service_unavailable"


class ReportSourceRequired(Rejection):
    """There is no source to report on (G-112)."""

    code = "report_source_required"


class ReportAlreadyRecorded(Rejection):
    """The run has its one report (R-AUT-54)."""

    code = "report_already_recorded"
    FINAL = True


class SourceWish(msgspec.Struct, frozen=True, kw_only=True):
    """Which source is wanted, by which state of which run, and until when a failed read is tried again."""

    run_id: str
    automation_id: str
    plan: FunnelPlan
    state_revision: int
    patient_until: int


def decide_intend(report: Report, wish: SourceWish, now: int) -> list[Event]:
    """Want the source; nothing when it was wanted already."""
    if report.status is not Status.ABSENT:
        return []
    return [
        ReportSourceIntended(
            run_id=wish.run_id,
            automation_id=wish.automation_id,
            plan=wish.plan,
            state_revision=wish.state_revision,
            patient_until=wish.patient_until,
            intended_at=now,
        )
    ]


def decide_materialize(report: Report, provider: str, reading: FunnelReading, now: int) -> list[Event]:
    """Take what was read as the source; nothing when there is one. Raises ReportSourceUnread while it may yet be read.

    The report was intended: nothing is read for one that was not.
    """
    if report.source is not None:
        return []
    assert report.plan is not None, "a source is read after it was wanted"
    gap = reading if isinstance(reading, FunnelGap) else None
    if gap is not None and gap.code not in LASTING and now < report.patient_until:
        raise ReportSourceUnread(
            "The report's source could not be read yet.",
            next_action="Retry the same request after Retry-After. The service reads the source again.",
            readiness_gap={"code": gap.code, "message": gap.message},
            patient_until=report.patient_until,
        )
    return [
        ReportSourceMaterialized(
            provider=provider,
            source_hash=hash_of(report.plan, reading),
            steps=[] if isinstance(reading, FunnelGap) else reading,
            gap=None if gap is None else gap.code,
            materialized_at=now,
        )
    ]


def decide_record(report: Report, document: FunnelReviewOutput, recorded_by: str, now: int) -> list[Event]:
    """Record the report; the same one again records nothing.

    Raises ReportSourceRequired, ReportAlreadyRecorded, and what require_held raises.
    """
    plain = msgspec.to_builtins(document)
    sha256 = canonical_sha256(plain)
    if report.status is Status.RECORDED:
        if report.report_sha256 == sha256:
            return []
        raise ReportAlreadyRecorded(
            "The run has recorded its report.",
            next_action="Read the run: its output is the report that was recorded.",
            field="report",
            expected=report.report_sha256,
            actual=sha256,
        )
    if report.source is None or report.plan is None:
        raise ReportSourceRequired(
            "The report's source has not been read.", next_action="Read the report source first."
        )
    require_held(report.plan, report.source, document)
    return [
        ReportRecorded(
            report_json=canonical(plain).decode(), report_sha256=sha256, recorded_by=recorded_by, recorded_at=now
        )
    ]


def evolve(state: Report, event: Event) -> Report:
    """Fold an event of a report."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case ReportSourceIntended():
            return Report(
                status=status,
                run_id=event.run_id,
                automation_id=event.automation_id,
                plan=event.plan,
                state_revision=event.state_revision,
                patient_until=event.patient_until,
                intended_at=event.intended_at,
            )
        case ReportSourceMaterialized():
            source = FunnelSource(event.provider, event.source_hash, event.steps, event.gap, event.materialized_at)
            return msgspec.structs.replace(state, status=status, source=source)
        case ReportRecorded():
            return msgspec.structs.replace(
                state,
                status=status,
                report_sha256=event.report_sha256,
                recorded_at=event.recorded_at,
            )
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("rep", TABLE, Report(), evolve, ReportSourceRequired, Report)
