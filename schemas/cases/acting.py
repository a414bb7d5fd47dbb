"""Wire contract of what members do to cases: resolve, ignore, reopen, assign, comment, merge, split (G-145)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from schemas.cases.case import CaseStatus
from schemas.kernel.shape import SAFE_INTEGER, Closed, Identifier

CaseRevision = Annotated[
    int, Meta(ge=1, le=SAFE_INTEGER, description="The revision of the case that this was decided on.")
]


class ActOnCase(Closed, frozen=True):
    """Resolve, ignore or reopen a case at a revision."""

    case_revision: CaseRevision


class AssignCase(Closed, frozen=True):
    """The member to assign the case to, or null to unassign it."""

    case_revision: CaseRevision
    user_id: Identifier | None


class CommentOnCase(Closed, frozen=True):
    """A comment on the case."""

    case_revision: CaseRevision
    text: Annotated[str, Meta(min_length=1, max_length=5000)]


class MergeCase(Closed, frozen=True):
    """The case of the same project to merge this one into. Later errors are counted there."""

    case_revision: CaseRevision
    into_case_id: Identifier


class SplitCase(Closed, frozen=True):
    """The merged fingerprint to split off into a case of its own."""

    case_revision: CaseRevision
    fingerprint: Annotated[str, Meta(min_length=1, max_length=200)]


class CaseActed(msgspec.Struct, frozen=True, kw_only=True):
    """The case after the command. `split_case_id` names the case that was split off."""

    case_id: str
    project_id: str
    status: CaseStatus
    revision: int
    merged_into: str | None
    assignee: str | None
    split_case_id: str | msgspec.UnsetType = msgspec.UNSET
    next_action: str


class CaseCommented(msgspec.Struct, frozen=True, kw_only=True):
    """The comment. `created_at` is in epoch seconds. `revision` is the case's, unchanged by a comment."""

    id: str
    case_id: str
    project_id: str
    user_id: str
    text: str
    created_at: int
    revision: int
    next_action: str
