"""Wire contracts of claims: a runner's lease on the exact revision of a case (G-105)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schemas.kernel.origins import Origins, Told, originated, origins, told
from schemas.kernel.shape import Closed
from schemas.runs.receipt import ObjectId

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
