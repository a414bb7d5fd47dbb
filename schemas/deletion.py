"""Wire contracts of deletions of projects and erasures of people."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Closed, Epoch

# Wire contracts of deletions (R-DEL, R-AUTH-19, G-130).

CONFIRM = "DELETE"

Count = Annotated[int, Meta(ge=0)]
PollAfter = Annotated[int, Meta(ge=1, description="Seconds to wait before a retry.")]


class DeleteAccount(Closed, frozen=True):
    """Delete your account. `confirm` is the word DELETE."""

    confirm: str


class ManifestCounts(msgspec.Struct, frozen=True):
    """The number of each kind to delete."""

    contracts: Count
    automations: Count
    credentials: Count
    trigger_receipts: Count
    claims: Count
    runs: Count
    approvals: Count
    grants: Count
    pr_proofs: Count
    verifications: Count
    reports: Count
    events: Count


class DeletedThing(msgspec.Struct, frozen=True):
    """One object to delete, without its content. `type` is a member of `counts`."""

    id: str
    type: str
    automation_id: str | None
    status: str
    created_at: Epoch


class AutomationDeletionManifest(msgspec.Struct, frozen=True):
    """Complete counts, and the first samples by type and id. The hash is of the canonical form of the rest."""

    counts: ManifestCounts
    sample_limit: Literal[20]
    samples: Annotated[list[DeletedThing], Meta(max_length=20)]
    samples_truncated: bool
    manifest_sha256: str


class FollowUpOutside(msgspec.Struct, frozen=True):
    """An effect outside the service, which the service cannot stop."""

    kind: str
    reference: str | None
    run_id: str | None
    action: str


WaitsFor = Literal["copy"]


class DeletionProgress(msgspec.Struct, frozen=True):
    """The remaining objects, each number capped at 10000."""

    projects_left: Count
    open_left: Count
    telemetry_left: Count
    waits_for: WaitsFor | msgspec.UnsetType = msgspec.UNSET


class ProjectDeleting(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion in progress. Repeat the request with its key to read its `progress`."""

    status: Literal["deleting"]
    phase: Literal["fenced", "purging"]
    project_id: str
    deletion_id: str
    fenced_at: Epoch
    poll_after_seconds: PollAfter
    automation_deletion_manifest: AutomationDeletionManifest
    progress: DeletionProgress | msgspec.UnsetType = msgspec.UNSET
    revision: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    next_action: str


class ProjectDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a deletion, kept for 30 days."""

    status: Literal["deleted"]
    phase: Literal["deleted"]
    project_id: str
    deletion_id: str
    fenced_at: Epoch
    deleted_at: Epoch
    automation_deletion_manifest: AutomationDeletionManifest
    external_follow_ups: list[FollowUpOutside]
    next_action: str


class CascadedCounts(msgspec.Struct, frozen=True):
    """The objects deleted with an account. Counts are complete once all its projects are fenced."""

    projects: Count
    api_keys: Count
    credentials: Count
    memberships: Count
    webhooks: Count
    cases: Count


class AccountDeleting(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion of an account in progress. Repeat the request with its key to read its `progress`."""

    status: Literal["deleting"]
    phase: Literal["fenced", "purging"]
    user_id: str
    deletion_id: str
    fenced_at: Epoch
    poll_after_seconds: PollAfter
    cascaded: CascadedCounts
    automation_deletion_manifest: AutomationDeletionManifest | None
    progress: DeletionProgress | msgspec.UnsetType = msgspec.UNSET
    revision: Annotated[int, Meta(ge=1)] | msgspec.UnsetType = msgspec.UNSET
    next_action: str


class AccountDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an account's deletion, kept for 30 days."""

    status: Literal["deleted"]
    user_id: str
    deletion_id: str
    fenced_at: Epoch
    deleted_at: Epoch
    cascaded: CascadedCounts
    automation_deletion_manifest: AutomationDeletionManifest
    external_follow_ups: list[FollowUpOutside]
    note: str
    next_action: str


# Wire contract of the deletion of a person of a project's telemetry (G-197).

PersonHash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class UserDeleting(msgspec.Struct, frozen=True, kw_only=True):
    """The deletion of a person in progress. Repeat the request with its key until it answers 200."""

    status: Literal["deleting"]
    phase: Literal["fenced", "purging"]
    project_id: str
    deletion_id: str
    person_hash: PersonHash
    names: Count
    fenced_at: Epoch
    poll_after_seconds: PollAfter
    waits_for: WaitsFor | msgspec.UnsetType = msgspec.UNSET
    next_action: str


class UserDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of the deletion of a person. It holds no name."""

    status: Literal["deleted"]
    phase: Literal["deleted"]
    project_id: str
    deletion_id: str
    person_hash: PersonHash
    names: Count
    records: Count
    fenced_at: Epoch
    deleted_at: Epoch
    next_action: str
