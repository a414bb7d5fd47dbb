"""Wire contract of automation decisions: why a case was, or was not, reason enough for work (R-AUT-22, G-137).

A decision shows its inputs, its thresholds and each check, so that it can be recomputed. None of its inputs is a
text of telemetry (R-AUT-23).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.contracts.playbook import AutomationId, Sha256
from schemas.kernel.paging import PageQuery
from schemas.runs.receipt import ObjectId

Verdict = Literal["passed", "passed_over"]


class DecisionQuery(PageQuery, frozen=True):
    """Filters of the list."""

    automation_id: AutomationId | None = None
    case_id: ObjectId | None = None
    verdict: Verdict | None = None


class DecisionInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that were judged."""

    case_id: str
    case_revision: int
    case_status: str
    trust: str
    event_count: int
    first_seen_at: int | None
    last_seen_at: int | None
    provider_read_to: int | None


class DecisionThresholds(msgspec.Struct, frozen=True):
    """The requirement of the policy."""

    minimum_event_count: int
    maximum_last_seen_age_seconds: int


class DecisionCheck(msgspec.Struct, frozen=True):
    """One check, its result, and the values compared."""

    check: str
    passed: bool
    observed: str | None
    required: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision on one case: to issue a receipt for it, to claim it, or to start the run of its receipt.

    `code` is the reason to pass a case over, null for a case that passed. `receipt_id` is empty without a receipt.
    `look` is the sweep or request that decided, `asked_by` its kind of caller. `passed` covers the thresholds alone.
    """

    decision_id: str
    automation_id: str
    receipt_id: str
    stage: Literal["issue", "claim", "start"]
    look: Literal["sweep", "issue", "claim", "start"]
    asked_by: str
    verdict: Verdict
    code: str | None
    policy_sha256: Sha256
    decided_at: int
    inputs: DecisionInputs
    thresholds: DecisionThresholds
    checks: list[DecisionCheck]
    age_seconds: int | None
    passed: bool


class DecisionList(msgspec.Struct, frozen=True):
    """A page of decisions, newest first."""

    project_id: str
    decisions: list[Decision]
    count: int
    next_cursor: str | None
    next_action: str
