"""Wire contract of the deletion of a person of a project's telemetry (G-197)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.deletion.removal import Count, PollAfter
from schemas.kernel.shape import Epoch

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
