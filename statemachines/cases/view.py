"""Saved views: filters of cases under a name, for all members of a project.

One stream a project. Each view has a revision of its own, which is the fence of its changes. A view holds how long ago
a case was last seen, never a time, so it finds other cases tomorrow.
"""

from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    LimitReached,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    require_given,
    require_same,
    transition_table,
)

VIEWS_LIMIT = 50
"""Saved views of a project at most: its list counts the cases of each."""


def stream(project_id: str) -> Stream:
    """History of the views of a project."""
    return Stream(MACHINE, project_id, derived_id("views", project_id))


def make_etag(view_id: str, revision: int) -> str:
    """The quoted tag of a view at a revision."""
    return f'"{view_id}:{revision}"'


class Status(Enum):
    """Whether the project has ever had views."""

    NONE = "none"
    SOME = "some"


class ViewFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a view finds, in the words of the list of cases. `seen_within` is in seconds. None: whatever it is."""

    status: str = "open"
    text: str | None = None
    tag: str | None = None
    release: str | None = None
    environment: str | None = None
    path: str | None = None
    person: str | None = None
    trust: str | None = None
    seen_within: int | None = None
    order: str = "newest"


class CaseViewSaved(Event, frozen=True):
    """A member saved a filter under a name."""

    TOPIC = "case_view.saved.v1"
    DOCUMENT = True
    id: str
    name: str
    filter: ViewFilter
    saved_by: str
    saved_at: int


class CaseViewChanged(Event, frozen=True):
    """A member gave a view another name or filter."""

    TOPIC = "case_view.changed.v1"
    DOCUMENT = True
    id: str
    name: str
    filter: ViewFilter
    changed_by: str
    changed_at: int


class CaseViewRemoved(Event, frozen=True):
    """A member removed a view. The cases stay as they are."""

    TOPIC = "case_view.removed.v1"
    id: str
    removed_at: int


TABLE = transition_table(
    Status,
    Status.NONE,
    [
        [CaseViewSaved.TOPIC, [Status.NONE, Status.SOME], Status.SOME],
        [CaseViewChanged.TOPIC, Status.SOME, Status.SOME],
        [CaseViewRemoved.TOPIC, Status.SOME, Status.SOME],
    ],
)


class KeptView(msgspec.Struct, frozen=True):
    """A view as decisions need it."""

    id: str
    revision: int
    name: str
    filter: ViewFilter


class CaseViews(msgspec.Struct, frozen=True):
    """The views of a project, oldest first."""

    status: Status = Status.NONE
    views: tuple[KeptView, ...] = ()


class CaseViewNotFound(Rejection):
    """There is no such view in the project, or none any more."""

    code = "not_found"


class TooManyViews(LimitReached):
    """The project has as many views as it may have."""


class ViewWish(msgspec.Struct, frozen=True):
    """A view to save."""

    name: str
    filter: ViewFilter


def no_view() -> CaseViewNotFound:
    """The one refusal for an absent, removed or foreign view."""
    return CaseViewNotFound("There is no such view.", next_action="List the saved views of the project.")


def find(state: CaseViews, view_id: str) -> KeptView:
    """Find a view. Raises CaseViewNotFound."""
    for view in state.views:
        if view.id == view_id:
            return view
    raise no_view()


def decide_save(state: CaseViews, view_id: str, wish: ViewWish, *, by: str, now: int) -> list[Event]:
    """Save a view under a new id. An existing one of this id is not saved again. Raises TooManyViews."""
    if any(view.id == view_id for view in state.views):
        return []
    if len(state.views) >= VIEWS_LIMIT:
        raise TooManyViews(f"A project has at most {VIEWS_LIMIT} saved views.", next_action="Remove a view.")
    return [CaseViewSaved(view_id, wish.name, wish.filter, by, now)]


def decide_change(
    state: CaseViews, view_id: str, wish: ViewWish, *, if_match: str | None, by: str, now: int
) -> list[Event]:
    """Change a view at the revision of its tag. What is so already records nothing.

    Raises CaseViewNotFound, IfMatchRequired, PreconditionFailed.
    """
    view = find(state, view_id)
    etag = make_etag(view.id, view.revision)
    given = require_given(
        if_match, etag, "A change of a view needs If-Match.", "Read the view, and send its etag as If-Match."
    )
    require_same(given, etag, "The view has changed since you read it.", "Read the view again, then decide anew.")
    if ViewWish(view.name, view.filter) == wish:
        return []
    return [CaseViewChanged(view_id, wish.name, wish.filter, by, now)]


def decide_remove(state: CaseViews, view_id: str, *, if_match: str | None, now: int) -> list[Event]:
    """Remove a view, at a revision where a tag is given. Raises CaseViewNotFound, PreconditionFailed."""
    view = find(state, view_id)
    if if_match is not None:
        etag = make_etag(view.id, view.revision)
        require_same(if_match, etag, "The view has changed since you read it.", "Read the view again.")
    return [CaseViewRemoved(view_id, now)]


def evolve(state: CaseViews, event: Event) -> CaseViews:
    """Fold an event of the views."""
    status, views = Status[destination(TABLE, event, state.status)], state.views
    match event:
        case CaseViewSaved():
            views = (*views, KeptView(event.id, 1, event.name, event.filter))
        case CaseViewChanged():
            views = tuple(
                KeptView(one.id, one.revision + 1, event.name, event.filter) if one.id == event.id else one
                for one in views
            )
        case CaseViewRemoved():
            views = tuple(one for one in views if one.id != event.id)
    return CaseViews(status, views)


MACHINE = StateMachine("views", TABLE, CaseViews(), evolve, CaseViewNotFound, CaseViews)
