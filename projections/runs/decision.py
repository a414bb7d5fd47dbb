"""Decisions as they are kept: why a case was offered, started on or passed over, each time the answer changed (G-137).

Facts outside streams, like the counters of a case: what telemetry makes of a case by the minute is no event, and no
rebuild knows of it. No column holds a text of telemetry.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from projections.kernel.projection import Table
from statemachines.contracts.policy import Thresholds
from statemachines.runs.materiality import CaseFacts, Check
from statemachines.runs.offering.issue_receipt import SkipCode

Stage = Literal["issue", "claim", "start"]
LookKind = Literal["sweep", "issue", "claim", "start"]


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One decision on one case for one automation. `outcome` is equal for two that say the same (outcome_of).

    `look` is what looked and `asked_by` the kind of caller behind it; `code` is None for a case that passed;
    `receipt_id` is None where the decision is about no receipt. Times are epoch seconds.
    """

    project_id: str
    id: str
    automation_id: str
    case_id: str
    case_revision: int
    stage: Stage
    look: LookKind
    asked_by: str
    code: SkipCode | None
    outcome: str
    receipt_id: str | None
    policy_sha256: str
    decided_at: int
    inputs: CaseFacts
    thresholds: Thresholds
    checks: list[Check]
    age_seconds: int | None
    material: bool


DECISIONS = Table("automation_decisions", DecisionRow, ("project_id", "id"))
