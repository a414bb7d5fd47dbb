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
    """Resolve, ignore or reopen a case as it stands at a revision."""

    case_revision: CaseRevision


class AssignCase(Closed, frozen=True):
    """Who is to look after the case: a member of the project; null: nobody."""

    case_revision: CaseRevision
    user_id: Identifier | None


class CommentOnCase(Closed, frozen=True):
    """What a member has to say about the case."""

    case_revision: CaseRevision
    text: Annotated[str, Meta(min_length=1, max_length=5000)]


class MergeCase(Closed, frozen=True):
    """The case of the same project that gets the errors of this one from now on."""

    case_revision: CaseRevision
    into_case_id: Identifier


class SplitCase(Closed, frozen=True):
    """The fingerprint whose errors are to be a case of their own again; it was merged into this one."""

    case_revision: CaseRevision
    fingerprint: Annotated[str, Meta(min_length=1, max_length=200)]


class CaseActed(msgspec.Struct, frozen=True, kw_only=True):
    """How the case stands afterwards. `split_case_id` names the case that was split off (absent: none was)."""

    case_id: str
    project_id: str
    status: CaseStatus
    revision: int
    merged_into: str | None
    assignee: str | None
    split_case_id: str | msgspec.UnsetType = msgspec.UNSET
    next_action: str


class CaseCommented(msgspec.Struct, frozen=True, kw_only=True):
    """The comment as it was written; `created_at` in epoch seconds. `revision`: the case's, as before."""

    id: str
    case_id: str
    project_id: str
    user_id: str
    text: str
    created_at: int
    revision: int
    next_action: str
