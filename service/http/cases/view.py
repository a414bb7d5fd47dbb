"""Saved views of cases at the edge: list, save, read, change, remove (extensions of the document)."""

from functools import partial

from litestar.params import FromPath, JSONBody

from projections.cases import CaseView
from schemas.cases import view as wire
from service.cases import view as show
from service.cases import view as views
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from statemachines.cases.view import ViewWish

ALL = "/v1/projects/{project_id}/case-views"
ONE = ALL + "/{view_id}"


@groups.CASES.get(ALL, "List saved views of cases")
@Who(KEY)
@Docs(wire.CaseViewList, extension=True)
async def list_case_views(call: Call) -> Answer:
    """List the views of a project by name, each with the number of its cases up to 100."""
    store, project_id = call.services.store, call.project_id
    found = [
        (view, await views.count(store, project_id, view.filter, wire.LISTED_COUNTED))
        for view in await views.views_of(store, project_id)
    ]
    return Answer(200, show.listed(project_id, found, _base(call)))


@groups.CASES.post(ALL, "Save a view of cases")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs({201: wire.CaseViewSaved}, extension=True)
async def save_case_view(call: Call, data: JSONBody[wire.SaveCaseView]) -> Outcome:
    """Save a filter of cases under a name, for all members."""
    return await call.carry_out(views.save(call.project_id, _wish(data), by=call.user_id), partial(_saved, call, 201))


@groups.CASES.get(ONE, "Read a saved view of cases")
@Who(KEY)
@Docs(wire.CaseViewRecord, errors=("not_found",), extension=True)
async def get_case_view(call: Call, view_id: FromPath[str]) -> Answer:
    """Show a view with the number of its cases up to 1,000, and its tag."""
    store, project_id = call.services.store, call.project_id
    view = await views.find_view(store, project_id, view_id)
    counts = await views.count(store, project_id, view.filter, wire.MOST_COUNTED)
    shown = show.record(project_id, view, counts, _base(call))
    return Answer(200, shown, {"etag": shown.etag})


@groups.CASES.put(ONE, "Change a saved view of cases")
@Who(KEY)
@Fencing(if_match="optional", idempotency="optional")
@Docs(wire.CaseViewSaved, errors=("not_found",), extension=True)
async def change_case_view(call: Call, data: JSONBody[wire.SaveCaseView], view_id: FromPath[str]) -> Outcome:
    """Replace the name and the filter of a view."""
    intent = views.change(call.project_id, view_id, _wish(data), if_match=call.if_match, by=call.user_id)
    return await call.carry_out(intent, partial(_saved, call, 200))


@groups.CASES.delete(ONE, "Remove a saved view of cases")
@Who(KEY)
@Fencing(if_match="optional", idempotency="optional")
@Docs(wire.CaseViewRemoved, errors=("not_found",), extension=True)
async def remove_case_view(call: Call, view_id: FromPath[str]) -> Outcome:
    """Remove a view. Its cases stay as they are."""
    intent = views.remove(call.project_id, view_id, if_match=call.if_match)
    return await call.carry_out(intent, partial(_removed, call.project_id))


def _wish(data: wire.SaveCaseView) -> ViewWish:
    return ViewWish(data.name, show.filter_of(data.filter))


def _base(call: Call) -> str:
    return str(call.services.settings.base_url)


def _saved(call: Call, status: int, view: CaseView) -> Answer:
    shown = show.saved(call.project_id, view, _base(call))
    return Answer(status, shown, {"etag": shown.etag})


def _removed(project_id: str, view_id: str) -> Answer:
    return Answer(200, show.removed(project_id, view_id))


ENDPOINTS = [list_case_views, save_case_view, get_case_view, change_case_view, remove_case_view]
