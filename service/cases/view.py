"""Saved views: filters of cases under a name, with what they find now.

A view finds what the list of cases shows by the same filter, in its order. Its cases are counted up to a bound.
"""

from typing import Any

import msgspec

from projections.cases import CASE_VIEWS, CaseView
from schemas.cases import view as wire
from service.cases import listing
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.read.reader import END
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.cases import view as views

# Commands: saved, changed and removed, each at the revision of its view.


def save(project_id: str, wish: views.ViewWish, *, by: str) -> Intent[CaseView]:
    """Save a view under a new id. Raises TooManyViews."""
    stream, view_id = views.stream(project_id), new_id("view")

    def decide(unit: Unit) -> CaseView:
        unit.append(stream, views.decide_save(unit.state(stream), view_id, wish, by=by, now=unit.now))
        return _kept(unit, project_id, view_id)

    return Intent([stream], decide)


def change(project_id: str, view_id: str, wish: views.ViewWish, *, if_match: str | None, by: str) -> Intent[CaseView]:
    """Change a view. Raises CaseViewNotFound, IfMatchRequired, PreconditionFailed."""
    stream = views.stream(project_id)

    def decide(unit: Unit) -> CaseView:
        state = unit.state(stream)
        unit.append(stream, views.decide_change(state, view_id, wish, if_match=if_match, by=by, now=unit.now))
        return _kept(unit, project_id, view_id)

    return Intent([stream], decide)


def remove(project_id: str, view_id: str, *, if_match: str | None) -> Intent[str]:
    """Remove a view. Raises CaseViewNotFound, PreconditionFailed."""
    stream = views.stream(project_id)

    def decide(unit: Unit) -> str:
        unit.append(stream, views.decide_remove(unit.state(stream), view_id, if_match=if_match, now=unit.now))
        return view_id

    return Intent([stream], decide)


def _kept(unit: Unit, project_id: str, view_id: str) -> CaseView:
    row = unit.row(CASE_VIEWS, *views.stream(project_id).name)
    assert row is not None, "the views have a row once there is one"
    return next(view for view in row.views if view.id == view_id)


# Reads: the views of a project, and the cases of one.


async def views_of(store: EventStore, project_id: str) -> list[CaseView]:
    """Read all views of a project, by name."""
    row = await store.get(CASE_VIEWS, project_id, views.stream(project_id).id)
    return [] if row is None else sorted(row.views, key=lambda view: (view.name.casefold(), view.id))


async def find_view(store: EventStore, project_id: str, view_id: str) -> CaseView:
    """Read one view. Raises CaseViewNotFound."""
    for view in await views_of(store, project_id):
        if view.id == view_id:
            return view
    raise views.no_view()


async def cases_of(store: EventStore, project_id: str, wanted: views.ViewFilter, most: int) -> list[listing.ListedCase]:
    """Read the cases that a filter finds now, up to so many, in its order."""
    since = None if wanted.seen_within is None else await store.now() - wanted.seen_within
    found = listing.CaseFilter(
        status=None if wanted.status == "all" else wanted.status,
        environment=wanted.environment,
        release=wanted.release,
        since=since,
        text=wanted.text,
        trust=listing.shown_trust(wanted.trust, wanted.status),
        tag=wanted.tag,
        path=wanted.path,
        person=wanted.person,
    )
    if wanted.order == "newest":
        return await listing.list_cases(store, project_id, found, END, most)
    order: Any = wanted.order
    return await listing.list_ordered(store, project_id, found, order, END, most)


async def count(store: EventStore, project_id: str, wanted: views.ViewFilter, most: int) -> wire.CaseViewCounts:
    """Count what a filter finds now, up to so many cases."""
    newest = msgspec.structs.replace(wanted, order="newest")
    found = await cases_of(store, project_id, newest, most + 1)
    counted = found[:most]
    return wire.CaseViewCounts(
        cases=len(counted), more=len(found) > most, errors=sum(case.event_count for case in counted)
    )


# Views on the wire.

_SAVED = "Open its link, or read its counts with GET on its id."
_LISTED = "Open a link, or act on all cases of a view with its preview first."


def filter_of(asked: wire.CaseViewFilter) -> views.ViewFilter:
    """The filter of a body, as it is recorded."""
    return msgspec.convert(msgspec.structs.asdict(asked), views.ViewFilter)


def shown_filter(kept: views.ViewFilter) -> wire.CaseViewFilter:
    """A recorded filter, as it is shown."""
    return wire.CaseViewFilter(**msgspec.structs.asdict(kept))


def link_of(base_url: str, project_id: str, view_id: str) -> str:
    """The page of the console with the cases of a view."""
    return f"{base_url}/console/projects/{project_id}/cases?view={view_id}"


def saved(project_id: str, view: CaseView, base_url: str) -> wire.CaseViewSaved:
    """A view that was just saved or changed."""
    return wire.CaseViewSaved(
        view_id=view.id,
        project_id=project_id,
        name=view.name,
        filter=shown_filter(view.filter),
        link=link_of(base_url, project_id, view.id),
        etag=views.make_etag(view.id, view.revision),
        next_action=_SAVED,
    )


def record(project_id: str, view: CaseView, counts: wire.CaseViewCounts, base_url: str) -> wire.CaseViewRecord:
    """One view with its counts."""
    return wire.CaseViewRecord(**_members(project_id, view, counts, base_url), next_action=_LISTED)


def listed(project_id: str, found: list[tuple[CaseView, wire.CaseViewCounts]], base_url: str) -> wire.CaseViewList:
    """All views with their counts."""
    shown = [wire.CaseView(**_members(project_id, view, counts, base_url)) for view, counts in found]
    following = _LISTED if shown else "Save a filter of cases with POST on this path."
    return wire.CaseViewList(project_id=project_id, views=shown, count=len(shown), next_action=following)


def removed(project_id: str, view_id: str) -> wire.CaseViewRemoved:
    """Tell that a view is no more."""
    return wire.CaseViewRemoved(view_id=view_id, project_id=project_id, next_action="Nothing to do. Its cases stay.")


def _members(project_id: str, view: CaseView, counts: wire.CaseViewCounts, base_url: str) -> dict[str, Any]:
    return {
        "view_id": view.id,
        "project_id": project_id,
        "name": view.name,
        "filter": shown_filter(view.filter),
        "counts": counts,
        "link": link_of(base_url, project_id, view.id),
        "etag": views.make_etag(view.id, view.revision),
        "created_by": view.created_by,
        "created_at": view.created_at,
        "changed_by": view.changed_by,
        "changed_at": view.changed_at,
    }
