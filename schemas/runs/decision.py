"""Wire contract of automation decisions: why a case was, or no longer was, reason enough for work (R-AUT-22, R-AUT-23).

A decision shows its inputs, its thresholds and each check, so that it can be recomputed. None of its inputs is
a text of telemetry.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.contracts.playbook import AutomationId, Sha256
from schemas.kernel.paging import PageQuery


class DecisionQuery(PageQuery, frozen=True):
    """Filters of the list."""

    automation_id: AutomationId | None = None


class DecisionInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that were judged."""

    case_id: str
    case_revision: int
    case_status: str
    trust: str
    event_count: int
    first_seen_at: int | None
    last_seen_at: int | None


class DecisionThresholds(msgspec.Struct, frozen=True):
    """What the policy asked for."""

    minimum_event_count: int
    maximum_last_seen_age_seconds: int


class DecisionCheck(msgspec.Struct, frozen=True):
    """One check, its result, and the values compared."""

    check: str
    passed: bool
    observed: str | None
    required: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One decision: at issue of a receipt, or at the start of its run."""

    automation_id: str
    receipt_id: str
    stage: Literal["issue", "start"]
    policy_sha256: Sha256
    decided_at: int
    inputs: DecisionInputs
    thresholds: DecisionThresholds
    checks: list[DecisionCheck]
    age_seconds: int | None
    passed: bool


class DecisionList(msgspec.Struct, frozen=True):
    """A page of decisions, by receipts, newest first."""

    project_id: str
    decisions: list[Decision]
    count: int
    next_cursor: str | None
    next_action: str
