"""Verification, its report and answer contracts on the wire: all from the same findings (G-062, G-157)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from projections.install import InstallRow
from schemas.install import (
    AnswerBlocker,
    AnswerContract,
    AnswerContracts,
    DailyUse,
    GateCode,
    GateFailure,
    InstallVerdict,
    ReadinessGap,
    RequiredProperties,
    Signal,
    VerifyReport,
)
from service.analytics.queries import BoundedQueries
from service.eventstore.store import EventStore
from service.install.contract import GATES
from service.onboarding.evidence import AskedProject, ask_about
from service.onboarding.lifecycle import evidence_status
from service.onboarding.whose import WhoseEvidence
from service.sql import load_query
from statemachines.install import NO_MAP
from statemachines.onboarding.plan import Milestone, Plan
from statemachines.onboarding.proof import (
    FUNNEL_STEPS,
    NEWEST_ROWS,
    GapCode,
    Question,
    Questions,
    SeenRows,
    safe_failure,
)

# Verifying an install: the evidence for its gates, read before a verdict is recorded (R-INST-08, R-INST-09, G-157).

_DEPLOYS = load_query("install", "deploys")


class InstallFindings(NamedTuple):
    """The evidence of a project at a time in epoch seconds. `deploys` are those to the environment of its plan."""

    at: int
    asked: AskedProject
    any_deploy: bool
    deploys: SeenRows | None

    def beside(self, install: InstallRow | None) -> InstallFindings:
        """The same evidence beside an install."""
        return self._replace(asked=self.asked._replace(install=install))


async def find(store: EventStore, queries: BoundedQueries, project_id: str, tenant: str) -> InstallFindings:
    """Read the evidence in the name of a tenant. Raises as `ask_about`."""
    at = await store.now()
    asked = await ask_about(store, queries, project_id, tenant, all_signals=True)
    environment = None if asked.signal_map is None else asked.signal_map.plan.deploy.environment
    [[any_deploy, count, last_at]] = await store.fetch(
        _DEPLOYS, project_id=project_id, environment=environment, newest=NEWEST_ROWS
    )
    return InstallFindings(at, asked, any_deploy, SeenRows(count, last_at) if count else None)


def failed_gates(findings: InstallFindings) -> list[GateCode]:
    """The gates that stop a verification, in order. A verified source needs no report."""
    asked = findings.asked
    mapped = asked.map_revision != NO_MAP
    reported = mapped and asked.install is not None and asked.install.reported_on == asked.map_revision
    passed: dict[GateCode, bool] = {
        "signal_map_missing": mapped,
        "implementation_report_missing": reported or asked.source_verified,
        "no_events_received": asked.all_seen.event_at is not None,
        "no_deploy_recorded": findings.any_deploy,
        "no_error_received": asked.all_seen.error_at is not None,
    }
    return [code for code in GATES if not passed[code]]


_GAPS: Final = {
    GapCode.EVENT: "The event {name} has not been seen.",
    GapCode.PROPERTY: "The newest rows of the event {name} lack the property {property}.",
    GapCode.ERROR: "No error with the failure marker {name} has been seen.",
}
_MEND: Final = "Mend each gate in gate_failures, then verify again with POST …/install/verify."
_READY: Final = "Read GET …/answer-contracts, and run the blueprint of a question."
_GAPS_LEFT: Final = "The install works. Close readiness_gaps before you rely on every question of the plan."
_VERIFY: Final = "Verify with POST …/install/verify. Answers are relied on only after a recorded success."
_NO_MAP: Final = "There is no signal map yet. Have a plan reviewed and approved."
_INSTRUMENT: Final = "Instrument what the blockers name, or wait for real data."


def verdict(project_id: str, findings: InstallFindings) -> InstallVerdict:
    """A verification."""
    asked, failures = findings.asked, _failures(findings)
    ok = not failures
    return InstallVerdict(
        ok=ok,
        project_id=project_id,
        status="verified" if ok else "blocked",
        gate_failures=failures,
        readiness_gaps=_gaps(asked.questions),
        answer_ready=asked.answer_ready,
        verified_at=_verified_at(asked) if ok else None,
        verify_report=f"/v1/projects/{project_id}/verify-report",
        next_action=_after(asked, ok=ok),
    )


def report(project_id: str, findings: InstallFindings, evidence: WhoseEvidence) -> VerifyReport:
    """The report of an install with a signal map, and whose evidence counts."""
    asked, failures = findings.asked, _failures(findings)
    assert asked.signal_map is not None, "without a map there is no report"
    ok = not failures
    return VerifyReport(
        project_id=project_id,
        ok=ok,
        status="verified" if ok else "blocked",
        answer_ready=asked.answer_ready,
        gate_failures=failures,
        readiness_gaps=_gaps(asked.questions),
        signals=_signals(asked.signal_map.plan, findings),
        evidence_status=evidence_status(asked.signal_map.plan, asked.signal_map.receipt),
        evidence_source=evidence.evidence_source,
        historical_evidence_check=evidence.historical_evidence_check,
        daily_use=_daily_use(asked),
        verified_at=_verified_at(asked),
        generated_at=findings.at,
        next_action=_after(asked, ok=ok),
    )


def contracts(project_id: str, asked: AskedProject) -> AnswerContracts:
    """The questions of a project's signal map, or none."""
    shown: list[AnswerContract] = []
    if asked.signal_map is not None:
        shown = [_contract(question, asked.signal_map.plan) for question in asked.questions.asked]
    if asked.signal_map is None:
        following = _NO_MAP
    elif asked.questions.ready:
        following = _READY if asked.install_verified else _VERIFY
    else:
        following = _INSTRUMENT
    return AnswerContracts(
        project_id=project_id,
        answer_contracts=shown,
        count=len(shown),
        answer_ready=asked.answer_ready,
        daily_use=_daily_use(asked),
        next_action=following,
    )


def _failures(findings: InstallFindings) -> list[GateFailure]:
    return [GateFailure(code, GATES[code]) for code in failed_gates(findings)]


def _gaps(questions: Questions) -> list[ReadinessGap]:
    return [
        ReadinessGap(gap.code.value, _GAPS[gap.code].format(name=gap.name, property=gap.property))
        for gap in questions.gaps
    ]


def _verified_at(asked: AskedProject) -> int | None:
    return None if asked.install is None or asked.state != "verified" else asked.install.verified_at


def _after(asked: AskedProject, *, ok: bool) -> str:
    if not ok:
        return _MEND
    if asked.questions.gaps:
        return _GAPS_LEFT
    return _READY if asked.answer_ready else _VERIFY


def _daily_use(asked: AskedProject) -> DailyUse:
    """Whether questions can be asked: only of a verified project, without gaps, with every question ready."""
    reasons = []
    if asked.signal_map is None:
        reasons.append("There is no signal map.")
    if not asked.install_verified:
        reasons.append("Neither the source nor the install is verified.")
    questions = asked.questions
    for number, what in (
        (len(questions.gaps), "gaps in the source"),
        (questions.blocked, "questions blocked by a missing property"),
        (questions.pending, "questions without real data"),
    ):
        if number:
            reasons.append(f"There are {what}: {number}.")
    return DailyUse(state="needs_data_or_instrumentation" if reasons else "queried", reasons=reasons)


def _signals(plan: Plan, findings: InstallFindings) -> list[Signal]:
    seen = findings.asked.all_seen
    events = dict.fromkeys(milestone.event for milestone in plan.milestones)
    return [
        *(_signal("analytics", event, seen.events.get(event)) for event in events),
        _signal("error", safe_failure(plan).marker, seen.failure),
        _signal("deploy", plan.deploy.environment, findings.deploys),
    ]


def _signal(kind: str, name: str, rows: SeenRows | None) -> Signal:
    return Signal(
        kind=kind,  # type: ignore[arg-type] # one of three words above
        name=name,
        observed=rows is not None,
        row_count=0 if rows is None else rows.row_count,
        last_seen_at=None if rows is None else rows.last_at,
    )


def _contract(question: Question, plan: Plan) -> AnswerContract:
    return AnswerContract(
        id=question.id,
        question=_text(question, plan),
        blueprint_id="ordered-funnel" if question.funnel else "event-count",
        required_events=list(dict.fromkeys(milestone.event for milestone in question.milestones)),
        required_properties=_required(question.milestones),
        status=question.status.value,
        blockers=[AnswerBlocker(gap.code.value, gap.name, gap.property) for gap in question.blockers],
    )


def _text(question: Question, plan: Plan) -> str:
    if not question.funnel:
        return f"How often: {question.milestones[0].meaning}"
    steps = len(dict.fromkeys(milestone.event for milestone in plan.milestones))
    if steps > FUNNEL_STEPS:
        return f"{plan.business_question} (the first {FUNNEL_STEPS} of {steps} different events)"
    return plan.business_question


def _required(milestones: Sequence[Milestone]) -> list[RequiredProperties]:
    needed: dict[str, dict[str, None]] = {}
    for milestone in milestones:
        needed.setdefault(milestone.event, {}).update(dict.fromkeys(milestone.properties))
    return [RequiredProperties(event, list(names)) for event, names in needed.items()]
