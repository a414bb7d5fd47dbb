"""Wire contract of saved views: filters of cases under a name, with what they find."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.cases.case import Tag
from schemas.cases.log import Trust
from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed, Epoch

MOST_COUNTED, LISTED_COUNTED = 1_000, 100
"""Cases that are counted of one view, and of each in the list."""
LONGEST_SEEN = 366 * 86_400

ViewName = Annotated[str, Meta(min_length=1, max_length=100, pattern=patterns.LABEL)]


class CaseViewFilter(Closed, frozen=True, kw_only=True):
    """The filter of a view, as in the list of cases. A member that is null or left out filters nothing."""

    PROVENANCE: ClassVar[Origins] = origins(server="text")

    status: Literal["open", "resolved", "ignored", "all"] = "open"
    text: Annotated[str, Meta(max_length=200, pattern=patterns.HOLDS_A_WORD)] | None = None
    tag: Tag | None = None
    release: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    environment: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    path: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    person: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    trust: Trust | None = None
    seen_within: Annotated[int, Meta(ge=60, le=LONGEST_SEEN)] | None = None
    order: Literal["newest", "last_seen", "errors", "people"] = "newest"


class SaveCaseView(Closed, frozen=True):
    """A name and a filter. A change replaces both."""

    name: ViewName
    filter: CaseViewFilter


class CaseViewCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a view now. With `more`, there are more cases than the counted ones."""

    cases: int
    more: bool
    errors: int


class CaseView(msgspec.Struct, frozen=True, kw_only=True):
    """A saved view."""

    view_id: str
    project_id: str
    name: str
    filter: CaseViewFilter
    counts: CaseViewCounts
    link: str
    etag: str
    created_by: str
    created_at: Epoch
    changed_by: str | None
    changed_at: Epoch | None


class CaseViewRecord(CaseView, frozen=True, kw_only=True):
    """One saved view."""

    next_action: str


class CaseViewList(msgspec.Struct, frozen=True, kw_only=True):
    """All saved views of a project, by name."""

    project_id: str
    views: list[CaseView]
    count: int
    next_action: str


class CaseViewSaved(msgspec.Struct, frozen=True, kw_only=True):
    """The view as it was saved. `link` leads to its cases."""

    view_id: str
    project_id: str
    name: str
    filter: CaseViewFilter
    link: str
    etag: str
    next_action: str


class CaseViewRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The removed view."""

    view_id: str
    project_id: str
    removed: Literal[True] = True
    next_action: str
