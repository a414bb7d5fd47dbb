"""Wire contract of batches: one act on many cases, with its preview."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.cases.case import CaseRevision, CaseStatus
from schemas.cases.view import CaseViewFilter
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed, Identifier

MAX_CASES = 1_000

BatchAction = Annotated[
    Literal["resolve", "ignore", "suppress", "assign"],
    Meta(description="Act on each case. `suppress` makes a rule for the fingerprint of each."),
]
Count = Annotated[int, Meta(ge=0)]


class PreviewCaseBatch(Closed, frozen=True, kw_only=True):
    """An act on the cases that a filter finds, or a saved view. Exactly one of the two is named."""

    action: BatchAction
    view_id: Identifier | msgspec.UnsetType = msgspec.UNSET
    filter: CaseViewFilter | msgspec.UnsetType = msgspec.UNSET


class BatchCase(Closed, frozen=True):
    """A case at the revision that the act was decided on."""

    case_id: Identifier
    case_revision: CaseRevision


class ActOnCases(Closed, frozen=True, kw_only=True):
    """An act on cases, each at its revision. `assign` alone takes a `user_id`, null for nobody."""

    action: BatchAction
    cases: Annotated[list[BatchCase], Meta(min_length=1, max_length=MAX_CASES, description="The cases, each once.")]
    user_id: Annotated[
        Identifier | msgspec.UnsetType | None, Meta(description="Member to assign the cases to. Null: nobody.")
    ] = msgspec.UNSET


class PreviewedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case of the filter, and the effect of the act on it now."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="title")

    case_id: str
    case_revision: int
    title: str
    status: CaseStatus
    effect: Literal["moves", "unchanged", "refused"]


class CaseBatchPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of an act now. With `more`, the filter finds further cases beside the shown `cases`."""

    project_id: str
    action: BatchAction
    cases: Annotated[list[PreviewedCase], Meta(description="The cases, in the order of the filter.")]
    count: Annotated[int, Meta(description="Number of cases in the answer.")]
    more: bool
    moves: Count
    unchanged: Count
    refused: Annotated[int, Meta(ge=0, description="Number of refused cases.")]
    next_action: str


class CaseBatchPart(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one case. A refused one has the code and the message of its refusal.

    `status` and `case_revision` are null where the refusal does not tell them.
    """

    case_id: str
    outcome: Literal["moved", "unchanged", "refused"]
    status: CaseStatus | None = None
    case_revision: int | None = None
    code: str | None = None
    message: Annotated[str | None, Meta(description="Reason for the refusal. Null without one.")] = None


class CaseBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of each case that was tried. `left` are the others: repeat the request with its key."""

    batch_id: str
    project_id: str
    action: BatchAction
    parts: list[CaseBatchPart]
    moved: Count
    unchanged: Count
    refused: Annotated[int, Meta(ge=0, description="Number of refused cases.")]
    left: list[str]
    complete: bool
    next_action: str
