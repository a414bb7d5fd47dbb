"""Wire contract of a back-test: a candidate contract, tried on the days that are over."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.contracts.contract import Entries
from schemas.kernel.shape import Closed
from schemas.runs.decision import Decision

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
