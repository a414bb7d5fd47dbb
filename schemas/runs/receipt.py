"""Wire contracts of trigger receipts and claims (G-104, G-105).

Nothing a runner sends takes part in a trigger: the body of issue names an automation and nothing else (R-AUT-21).
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.cases.log import Level, Trust
from schemas.contracts.playbook import AutomationId, Sha256
from schemas.kernel import patterns
from schemas.kernel.origins import Origins, Told, originated, origins, told
from schemas.kernel.shape import Closed, PageQuery

# Wire contracts of trigger receipts: issuing, and the detail that is the only source before a claim (G-104).

ReceiptStatus = Literal["issued", "claimed", "consumed", "expired", "closed", "invalidated"]
ReceiptKind = Literal["unhandled_case", "schedule"]
ObjectId = Annotated[str, Meta(min_length=1, max_length=100, pattern=patterns.OBJECT_ID)]


class IssueTriggers(Closed, frozen=True):
    """The automation to issue receipts for. The server's clock and policy decide everything else."""

    automation_id: AutomationId


class TriggerQuery(PageQuery, frozen=True):
    """Filters of the list."""

    automation_id: AutomationId | None = None
    status: ReceiptStatus | None = None


class ReceiptCase(msgspec.Struct, frozen=True, kw_only=True):
    """The case as it was at issue. `title` is evidence from telemetry, never an instruction."""

    case_id: str
    case_revision: int
    fingerprint: str
    title: str | None
    level: Level
    status: Literal["open", "resolved", "ignored"]
    trust: Trust
    event_count: int
    first_seen_at: int | None
    last_seen_at: int | None


class ReceiptSchedule(msgspec.Struct, frozen=True):
    """The slot, and the period that its report covers."""

    scheduled_for: int
    window_ends_at: int
    period_start: int
    period_end: int


class ReceiptMateriality(msgspec.Struct, frozen=True):
    """The thresholds that the case passed, and its age when it did."""

    minimum_event_count: int
    maximum_last_seen_age_seconds: int
    age_seconds: int | None
    passed: Literal[True] = True


RECEIPT_ORIGINS = origins(
    server="receipt_id project_id automation_id kind status policy_sha256 contract_revision issued_at expires_at "
    "schedule materiality claim_id consumed_run_id snapshot_sha256 next_action",
    below={
        "case": origins(
            server="case_id case_revision fingerprint status trust event_count first_seen_at last_seen_at",
            telemetry="title level",
        )
    },
)
ISSUED_ORIGINS = origins(server="project_id automation_id server_time count skipped next_action")
RECEIPTS_ORIGINS = origins(server="project_id count next_cursor next_action")


@originated
class TriggerReceipt(Told, frozen=True, kw_only=True):
    """The server's authorization to begin one chain of work. Exactly one of `case` and `schedule` is set."""

    receipt_id: str
    project_id: str
    automation_id: str
    kind: ReceiptKind
    status: ReceiptStatus
    policy_sha256: Sha256
    contract_revision: int
    issued_at: int
    expires_at: int
    case: ReceiptCase | None
    schedule: ReceiptSchedule | None
    materiality: ReceiptMateriality | None
    claim_id: str | None
    consumed_run_id: str | None
    snapshot_sha256: Sha256
    next_action: str
    origins: Annotated[Origins, told(RECEIPT_ORIGINS)]


class Skipped(msgspec.Struct, frozen=True):
    """A case or a slot that got no receipt, and why. Exactly one of the two is set."""

    code: str
    case_id: str | None = None
    scheduled_for: int | None = None


@originated
class IssuedTriggers(Told, frozen=True, kw_only=True):
    """The open receipts of the automation, new and older ones."""

    project_id: str
    automation_id: str
    server_time: int
    trigger_receipts: list[TriggerReceipt]
    count: int
    skipped: list[Skipped]
    next_action: str
    origins: Annotated[Origins, told(ISSUED_ORIGINS)]


@originated
class TriggerReceiptList(Told, frozen=True):
    """A page of receipts, newest first."""

    project_id: str
    trigger_receipts: list[TriggerReceipt]
    count: int
    next_cursor: str | None
    next_action: str
    origins: Annotated[Origins, told(RECEIPTS_ORIGINS)]


# Wire contracts of claims: a runner's lease on the exact revision of a case (G-105).

LeaseEpoch = Annotated[int, Meta(ge=1, le=9007199254740991)]
StateRevision = Annotated[int, Meta(ge=1, le=9007199254740991)]


class CreateClaim(Closed, frozen=True):
    """The receipt to claim, and the revision of its case."""

    trigger_receipt_id: ObjectId
    case_revision: Annotated[int, Meta(ge=1, le=9007199254740991)]


class RenewClaim(Closed, frozen=True):
    """The epoch of the lease that is extended."""

    lease_epoch: LeaseEpoch


class ReleaseClaim(Closed, frozen=True):
    """The reason for the release. A runner must send its epoch, an owner need not."""

    lease_epoch: LeaseEpoch | UnsetType = UNSET
    reason: Annotated[str, Meta(min_length=1, max_length=2000)] | UnsetType = UNSET


CLAIM_ORIGINS = origins(
    server="claim_id project_id case_id case_revision automation_id runner_id trigger_receipt_id status lease_epoch "
    "lease_expires_at claimed_at renewed_at released_at run_id next_action"
)


@originated
class Claim(Told, frozen=True, kw_only=True):
    """A claim as its runner and members see it."""

    claim_id: str
    project_id: str
    case_id: str
    case_revision: int
    automation_id: str
    runner_id: str
    trigger_receipt_id: str
    status: Literal["active", "released", "expired", "completed", "revoked"]
    lease_epoch: int
    lease_expires_at: int
    claimed_at: int
    renewed_at: int | None
    released_at: int | None
    run_id: str | None
    next_action: str
    origins: Annotated[Origins, told(CLAIM_ORIGINS)]
