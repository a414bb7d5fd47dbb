"""Wire contracts of approvals and grants (G-108, G-109)."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel import patterns
from schemas.kernel.origins import Origins, Told, originated, origins, told
from schemas.kernel.shape import Closed, PageQuery
from schemas.runs.receipt import LeaseEpoch, ObjectId, StateRevision

# Wire contracts of approvals: a runner asks, an owner decides (G-108).

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


# Wire contracts of grants: authorize one bounded effect, then consume it once (G-109).

DeliveryMode = Literal["review_required", "auto_merge"]
MergeMethod = Literal["squash", "merge", "rebase"]
GrantKind = Literal["draft_pr", "auto_merge"]
Branch = Annotated[str, Meta(min_length=1, max_length=200)]
HeadSha = Annotated[str, Meta(min_length=40, max_length=64, pattern=patterns.HEAD_SHA)]
Path = Annotated[str, Meta(min_length=1, max_length=500)]


class TestRun(Closed, frozen=True):
    """One of the policy's test commands, and whether it passed."""

    __test__ = False

    command: Annotated[str, Meta(min_length=1, max_length=500)]
    passed: bool


class AuthorizeDraftPr(Closed, frozen=True, kw_only=True):
    """The exact pull request that the runner wants to open."""

    state_revision: StateRevision
    lease_epoch: LeaseEpoch
    repository: Annotated[str, Meta(min_length=1, max_length=500)]
    base_branch: Branch
    head_branch: Branch
    head_sha: HeadSha
    delivery_mode: DeliveryMode
    files_changed: Annotated[list[Path], Meta(min_length=1, max_length=100)]
    changed_lines: Annotated[int, Meta(ge=1, le=9007199254740991)]
    tests: Annotated[list[TestRun], Meta(max_length=100)]
    title: Annotated[str, Meta(min_length=1, max_length=300)] | UnsetType = UNSET
    tree_sha: HeadSha | UnsetType = UNSET
    patch_id: HeadSha | UnsetType = UNSET


class AuthorizeAutoMerge(Closed, frozen=True, kw_only=True):
    """The exact pull request whose auto-merge the runner wants to turn on."""

    state_revision: StateRevision
    lease_epoch: LeaseEpoch
    pr_number: Annotated[int, Meta(ge=1, le=2147483647)]
    head_sha: HeadSha
    merge_method: MergeMethod


class ConsumeGrant(Closed, frozen=True, kw_only=True):
    """The grant to consume."""

    grant_id: ObjectId
    state_revision: StateRevision
    lease_epoch: LeaseEpoch


class GrantBinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The binding of a grant: the members of its request without the fencing token."""

    repository: str | None = None
    base_branch: str | None = None
    head_branch: str | None = None
    head_sha: str
    delivery_mode: DeliveryMode | None = None
    files_changed: list[str] | None = None
    changed_lines: int | None = None
    tests: list[TestRun] | None = None
    title: str | None = None
    tree_sha: str | None = None
    patch_id: str | None = None
    pr_number: int | None = None
    merge_method: MergeMethod | None = None


_GRANT_FACTS = (
    "grant_id project_id run_id automation_id kind status approval_id authorized_at expires_at consumed_at settled_at "
    "state_revision next_action"
)
GRANT_ORIGINS = origins(server=_GRANT_FACTS, runner="binding")
CONSUMED_ORIGINS = origins(server=f"{_GRANT_FACTS} call_authorized reconcile_only", runner="binding")


@originated
class Grant(Told, frozen=True, kw_only=True):
    """A grant and its state."""

    grant_id: str
    project_id: str
    run_id: str
    automation_id: str
    kind: GrantKind
    status: Literal["authorized", "consumed", "settled", "expired", "revoked", "unresolved"]
    binding: GrantBinding
    approval_id: str | None
    authorized_at: int
    expires_at: int
    consumed_at: int | None
    settled_at: int | None
    state_revision: int
    next_action: str
    origins: Annotated[Origins, told(GRANT_ORIGINS)]


@originated
class ConsumedGrant(Grant, frozen=True, kw_only=True):
    """The answer to a consume: only the first may call the provider, every other only reconciles (R-AUT-32)."""

    call_authorized: bool
    reconcile_only: bool
    origins: Annotated[Origins, told(CONSUMED_ORIGINS)]
