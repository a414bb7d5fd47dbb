"""Decisions on the wire, and where a case stands with automation, in fixed sentences (G-137, R-GEN-13)."""

from __future__ import annotations

import msgspec

from projections.runs.decision import DecisionRow
from schemas.cases.case import CaseAutomation, CaseCheck, CaseWork
from schemas.runs import decision as wire
from service.runs.reads.decided import AutomationStanding, CaseStanding
from statemachines.contracts.contract import Status

_WORKING = frozenset({"case_already_claimed", "run_live"})
_REASONS = {
    "materiality_not_met": "The case does not meet the policy's thresholds. The failed check names which.",
    "environment_not_observed": "The case had no error in the environment that the automation heals.",
    "receipt_open": "A receipt offers the case, and no runner has claimed it yet.",
    "case_already_claimed": "A runner has claimed the case.",
    "run_live": "A run works on the case.",
    "merged_waits_for_deploy": "People merged it with changes. A deploy by CI and an error after it must come first.",
    "cooldown": "A runner had the case recently. The policy's cooldown must pass first.",
    "budget_exhausted": "The policy allows no further attempt on this revision of the case.",
    "suppressed": "A suppression rule matches the case and will take effect soon.",
    "max_cases_per_sweep": "Other cases came first: the policy offers only so many at once.",
    "automation_paused": "Automation is paused for this project. An owner can enable it again.",
    "automation_disabled": "The automation is disabled. An owner can enable it.",
}
_OFFERED_NEXT = "The next look for work may offer it. Looks take the most frequent open cases first."
_FENCED = "The project is being deleted."
_NO_CONTRACT = "The project has no automation contract."
_NONE_FOR_CASES = "No automation of the contract is triggered by cases."
_SEE_EACH = "No automation is working on the case. Each entry gives the reason."
_HELD = {code: _REASONS[code] for code in ("receipt_open", "case_already_claimed", "run_live")}
_PAUSED = _REASONS["automation_paused"]


def decision(row: DecisionRow) -> wire.Decision:
    """Show a decision."""
    inputs = row.inputs
    return wire.Decision(
        decision_id=row.id,
        automation_id=row.automation_id,
        receipt_id=row.receipt_id or "",
        stage=row.stage,
        look=row.look,
        asked_by=row.asked_by,
        verdict="passed" if row.code is None else "passed_over",
        code=row.code,
        policy_sha256=row.policy_sha256,
        decided_at=row.decided_at,
        inputs=wire.DecisionInputs(
            case_id=inputs.case_id,
            case_revision=inputs.revision,
            case_status=inputs.status,
            trust=inputs.trust,
            event_count=inputs.event_count,
            first_seen_at=inputs.first_seen_at,
            last_seen_at=inputs.last_seen_at,
        ),
        thresholds=msgspec.convert(msgspec.structs.asdict(row.thresholds), wire.DecisionThresholds),
        checks=[wire.DecisionCheck(check.check, check.passed, check.observed, check.required) for check in row.checks],
        age_seconds=row.age_seconds,
        passed=row.material,
    )


def case_work(standing: CaseStanding) -> CaseWork:
    """Say whether an automation works on a case, and of each that cases wake why it does or does not."""
    automations, held = standing.by_automation(), standing.held()
    return CaseWork(
        working=held in _WORKING,
        reason=_HELD[held] if held in _HELD else _why(standing, automations),
        automations=[_automation(one) for one in automations],
    )


def _why(standing: CaseStanding, automations: list[AutomationStanding]) -> str:
    """Why nothing holds the case."""
    if standing.fenced:
        return _FENCED
    if standing.contract_row is None:
        return _NO_CONTRACT
    if standing.contract.status is Status.PAUSED:
        return _PAUSED
    if not automations:
        return _NONE_FOR_CASES
    return _reason(automations[0].code) if len(automations) == 1 else _SEE_EACH


def _automation(standing: AutomationStanding) -> CaseAutomation:
    checks = [] if standing.judgement is None else standing.judgement.checks
    return CaseAutomation(
        automation_id=standing.automation_id,
        code=standing.code,
        reason=_reason(standing.code),
        since=standing.since,
        checks=[CaseCheck(check.check, check.passed, check.observed, check.required) for check in checks],
    )


def _reason(code: str | None) -> str:
    return _OFFERED_NEXT if code is None else _REASONS[code]
