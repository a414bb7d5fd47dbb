"""Wire contracts of approvals: a runner asks, an owner decides (G-108)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel.origins import Origins, Told, originated, origins, told
from schemas.kernel.paging import PageQuery
from schemas.kernel.shape import Closed
from schemas.runs.claim import LeaseEpoch, StateRevision
from schemas.runs.receipt import ObjectId

MAX_EVIDENCE_BYTES = 16384

ApprovalAction = Literal["draft_pr", "auto_merge", "escalate"]
ApprovalStatus = Literal["pending", "approved", "rejected", "expired", "cancelled"]


class RequestApproval(Closed, frozen=True, kw_only=True):
    """A request for approval. `summary` and `evidence` come from the runner. They are shown, never acted upon."""

    state_revision: StateRevision
    lease_epoch: LeaseEpoch
    action: ApprovalAction
    summary: Annotated[str, Meta(min_length=1, max_length=2000)]
    evidence: Annotated[dict[str, Any], Meta(description="At most 16384 bytes in canonical form.")] | UnsetType = UNSET


class DecideApproval(Closed, frozen=True):
    """A person's decision."""

    decision: Literal["approve", "reject"]
    reason: Annotated[str, Meta(min_length=1, max_length=2000)] | UnsetType = UNSET


class ApprovalQuery(PageQuery, frozen=True):
    """Filters of the list."""

    status: ApprovalStatus | None = None
    run_id: ObjectId | None = None


_SERVER = (
    "approval_id project_id run_id automation_id status requested_at expires_at decided_at decided_by reason "
    "next_action"
)
_RUNNER = "action summary evidence"
APPROVAL_ORIGINS = origins(server=_SERVER, runner=_RUNNER)
REQUESTED_ORIGINS = origins(server=f"{_SERVER} state_revision", runner=_RUNNER)


@originated
class Approval(Told, frozen=True, kw_only=True):
    """A request and its result."""

    approval_id: str
    project_id: str
    run_id: str
    automation_id: str
    action: ApprovalAction
    summary: str
    evidence: dict[str, Any] | None
    status: ApprovalStatus
    requested_at: int
    expires_at: int
    decided_at: int | None
    decided_by: str | None
    reason: str | None
    next_action: str
    origins: Annotated[Origins, told(APPROVAL_ORIGINS)]


@originated
class RequestedApproval(Approval, frozen=True, kw_only=True):
    """A request as its runner sees it, with the run revision for the runner's next command."""

    state_revision: StateRevision
    origins: Annotated[Origins, told(REQUESTED_ORIGINS)]


class ApprovalList(msgspec.Struct, frozen=True):
    """A page of requests, newest first."""

    project_id: str
    approvals: list[Approval]
    count: int
    next_cursor: str | None
    next_action: str
