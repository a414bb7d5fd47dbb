"""Wire contract of automation control: one consistent read of everything an operator needs (G-102, R-AUT-11)."""

from typing import Literal

import msgspec

from schemas.credentials import CredentialMetadata
from schemas.kernel.shape import EvidenceSource, HistoryCheck

ExceptionKind = Literal[
    "approval_pending",
    "lease_expired",
    "grant_unsettled",
    "budget_exhausted",
    "external_follow_up_required",
    "verification_pending",
    "receipt_unclaimed",
    "runner_credential_missing",
    "ungranted_pull_request",
]


class ControlAutomation(msgspec.Struct, frozen=True, kw_only=True):
    """An automation of the contract. `next_scheduled_for` is null if cases trigger it."""

    automation_id: str
    name: str
    playbook_id: str
    enabled: bool
    next_scheduled_for: int | None


class ControlContract(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the contract."""

    contract_id: str
    revision: int
    etag: str
    enabled: bool
    paused: bool
    automations: list[ControlAutomation]


class ControlBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A rolling budget and what counts against it now."""

    automation_id: str
    budget: str
    limit: int
    used: int
    remaining: int
    window_seconds: int
    resets_at: int | None


class ControlOperation(msgspec.Struct, frozen=True):
    """The operation that resolves an exception."""

    method: str
    path: str


class ControlException(msgspec.Struct, frozen=True, kw_only=True):
    """A condition that needs attention. It disappears with its cause."""

    kind: ExceptionKind
    automation_id: str
    run_id: str | None = None
    claim_id: str | None = None
    grant_id: str | None = None
    approval_id: str | None = None
    since: int
    message: str
    operation: ControlOperation | None = None


class ControlReport(msgspec.Struct, frozen=True, kw_only=True):
    """A recent private report. Its content is in its run's output."""

    report_id: str
    automation_id: str
    run_id: str
    period_start: int
    period_end: int
    recorded_at: int


class Control(msgspec.Struct, frozen=True):
    """A safe control: something that only reduces authority."""

    id: str
    method: str
    path: str
    requires_if_match: bool
    requires_idempotency_key: bool


class ControlBounds(msgspec.Struct, frozen=True):
    """The limits of this read, and the lifetimes of leases and grants."""

    max_automations: int = 20
    max_credentials: int = 50
    max_exceptions: int = 50
    max_reports: int = 20
    lease_ttl_seconds: int = 900
    grant_ttl_seconds: int = 900


class ControlTruncation(msgspec.Struct, frozen=True):
    """The names of the truncated lists."""

    credentials: bool
    exceptions: bool
    recent_reports: bool


class AutomationControl(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state at one server time. There is no queue and nothing to acknowledge."""

    project_id: str
    server_time: int
    contract: ControlContract | None
    evidence_source: EvidenceSource
    historical_evidence_check: HistoryCheck | None
    no_error_source: bool
    budgets: list[ControlBudget]
    credentials: list[CredentialMetadata]
    exceptions: list[ControlException]
    recent_reports: list[ControlReport]
    controls: list[Control]
    bounds: ControlBounds
    truncation: ControlTruncation
    next_action: str
