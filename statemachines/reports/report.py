"""A report, from the wish for its source to its record (G-112): intended, materialized, recorded, once each.

That a source is wanted is recorded before a provider is asked. What the first read that came to something said is the
source for ever; until then the same wish reads again. A read that failed is tried again for a while, and is then what
the source says: a gap. Nothing here ends: when its run is over, nobody asks any more (runs.reporting).
"""

from __future__ import annotations

from enum import Enum

import msgspec

from schemas.contracts.playbook import FunnelReviewOutput
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
from statemachines.reports.check_report import require_held
from statemachines.reports.source import (
    LASTING,
    FunnelGap,
    FunnelPlan,
    FunnelReading,
    FunnelSource,
    FunnelStep,
    GapCode,
    hash_of,
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
