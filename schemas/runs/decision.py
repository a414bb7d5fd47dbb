"""Wire contract of automation decisions: why a case was, or was not, reason enough for work (R-AUT-22, G-137).

A decision shows its inputs, its thresholds and each check, so that it can be recomputed. None of its inputs is a
text of telemetry (R-AUT-23).
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.contracts.contract import Entries
from schemas.contracts.playbook import AutomationId, Sha256
from schemas.kernel.shape import Closed, PageQuery
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


# Wire contract of a back-test: a candidate contract, tried on the days that are over.

MAX_DAYS = 90
MAX_SHOWN = 5000


class BacktestInput(Closed, frozen=True):
    """A contract as you would save it, and the number of past days to test it on."""

    policy_version: Literal[2]
    automations: Entries
    days: Annotated[int, Meta(ge=1, le=MAX_DAYS)]


class BacktestReceipt(msgspec.Struct, frozen=True):
    """A receipt that would have been issued: for a case, or for a slot of a schedule. Times are epoch seconds."""

    receipt_id: str
    automation_id: str
    case_id: str | None
    case_revision: int | None
    scheduled_for: int | None
    issued_at: int
    expires_at: int


class BacktestUse(msgspec.Struct, frozen=True, kw_only=True):
    """The upper bound of one automation's use, with each receipt claimed and each run at its limits."""

    automation_id: str
    receipts: int
    max_runs: int
    max_prs: int
    max_cost_usd: str


class BacktestUnknown(msgspec.Struct, frozen=True):
    """A gap in the data: of one case, which is left out, or of whole days (`case_id` is null)."""

    case_id: str | None
    missing: list[str]


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated decisions and receipts of a contract, by time. Nothing was recorded.

    `considered` counts the cases of every look, `decisions` the answers that changed, as automation-decisions does.
    """

    project_id: str
    period_start: int
    period_end: int
    looks: int
    looked_from: int | None
    looked_until: int | None
    considered: int
    automations: list[BacktestUse]
    receipts: Annotated[list[BacktestReceipt], Meta(max_length=MAX_SHOWN)]
    receipts_truncated: bool
    decisions: Annotated[list[Decision], Meta(max_length=MAX_SHOWN)]
    decisions_truncated: bool
    unknown: Annotated[list[BacktestUnknown], Meta(max_length=MAX_SHOWN)]
    unknown_truncated: bool
    assumptions: list[str]
    next_action: str
