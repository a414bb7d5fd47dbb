"""All pages and forms of the console: found by address, answered, and put into their frame (C-3)."""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from service.auth.refusals import InvalidPayload, NotFound, Unauthenticated
from service.console import pages
from service.console.kit import page
from service.console.kit import page as kit
from service.console.kit.rendering import DONE, load, render
from service.console.kit.texts import HERE, TooMuchHere
from service.console.kit.visit import FRAMELESS, HEADERS, Json, ReadRefused, Said, Visit, together, way_to
from service.eventstore.declare.commands import Outcome
from service.http.answer.errors import failure_of
from service.http.answer.reply import Streamed
from service.http.declare.call import Call
from service.http.edge import inner
from service.registry import modules
from statemachines.kernel.machine import Rejection

MOST_PARAMETERS = 50
SWITCHED = 10
"""Projects that the frame of a page offers to switch to."""
LITTLE = 48 * 1024
"""Bytes of answers and entries up to which a page is rendered in the event loop."""


@cache
def _pages() -> Sequence[kit.Page]:
    return _in_order(one for module in modules(pages) for one in getattr(module, "PAGES", ()))


@cache
def _forms() -> Sequence[kit.Form]:
    return _in_order((*kit.COMMANDS, *(one for module in modules(pages) for one in getattr(module, "FORMS", ()))))


def _in_order(found: Iterable[kit.Answerer[Any]]) -> list[Any]:
    """Put literal addresses before those with values in the same place."""
    return sorted(found, key=lambda one: [(part.startswith("{"), part) for part in one.address.split("/")])


def warm() -> None:
    """Load all pages and forms."""
    _pages()
    _forms()


async def show(call: Call, place: str) -> Outcome:
    """Answer with a page. Raises NotFound for a place without one."""
    visit, one = _visit(call, place, _pages())
    made = await _view(visit, one)
    return _file(made) if isinstance(made, kit.Download) else await _answer(visit, one, made)


async def send(call: Call, data: bytes, place: str) -> Outcome:
    """Answer a form, with another page or with the way to one. Raises NotFound and InvalidPayload."""
    visit, one = _visit(call, place, _forms())
    fields = kit.read_form(call, data)
    visit.entered = {name: values[0] for name, values in fields.items()}
    if not hmac.compare_digest(kit.first(fields, "_csrf").encode(), visit.csrf.encode()):
        return await again(visit, fields, kit.FormProblem.of_form())
    try:
        made = await one.answer(visit, fields)
    except kit.FormProblem as problem:
        return await again(visit, fields, problem)
    except ReadRefused as refused:
        return _refused(visit, refused.said)
    except Rejection as rejection:
        found = failure_of(rejection)
        return await again(visit, fields, kit.FormProblem(found.status, found._asdict()))
    if isinstance(made, kit.View):
        return await _answer(visit, one, made)
    return _lead(made)


async def follow(call: Call) -> Streamed:
    """Tell a page of changes to what it shows. Raises NotFound for anything else."""
    return await page.follow(call, Visit(call, "follow", {}, _query(call.scope["query_string"])))


async def again(visit: Visit, fields: kit.Fields, problem: kit.FormProblem) -> Outcome:
    """The page of a form again, with the problem and with the values entered."""
    if problem.status == HTTPStatus.UNAUTHORIZED:
        return _lead(kit.Redirect("enter"))
    place, _, query = kit.first(fields, "_back").partition("?")
    back, one = _visit(visit.call, place, _pages(), query.encode())
    back.entered = visit.entered
    view = await _view(back, one)
    if isinstance(view, kit.Download):
        raise NotFound
    return await _answer(back, one, view, problem)


def _visit(
    call: Call, place: str, among: Sequence[kit.Answerer[Any]], query: bytes | None = None
) -> tuple[Visit, kit.Answerer[Any]]:
    for one in among:
        values = one.match(place)
        if values is not None:
            return Visit(call, place, values, _query(call.scope["query_string"] if query is None else query)), one
    raise NotFound


def _query(text: bytes) -> Mapping[str, str]:
    """The first value of each parameter. Raises InvalidPayload for too many."""
    try:
        pairs = parse_qsl(text.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise InvalidPayload("The address has too many parameters.") from None
    return dict(reversed(pairs))


async def _view(visit: Visit, one: kit.Page) -> kit.View | kit.Download:
    try:
        return await one.answer(visit)
    except ReadRefused as refused:
        if refused.said.status == HTTPStatus.UNAUTHORIZED:
            raise Unauthenticated from None  # The session ended between two reads.
        facts = {"error": refused.said.error}
        return kit.View("kit/refused.html", "This page cannot be shown", facts, status=refused.said.status)


async def _answer(
    visit: Visit, one: kit.Answerer[Any], view: kit.View, problem: kit.FormProblem | None = None
) -> Outcome:
    frame = await _frame(visit, view.project_id)
    project = frame.project
    may = visit.permitted(project["project"]["role"] if project else None)
    facts = {
        **view.facts,
        "visit": visit.shown,
        "view": replace(view, facts={}),
        "project": project,
        "may": may,
        "sections": kit.sections(view.project_id, one.section, may, frame.waiting),
        "frame": frame,
        "zoned": "zone" in visit.preferences,
        "now": await visit.call.services.store.now(),
        "problem": None if problem is None else problem.shown,
        "changed": problem.changed(visit.entered, view.state) if problem else (),
        "done": _done(visit),
        "here": _here(visit),
        "follows": page.address(visit, view.follows, view.project_id) if view.follows else "",
        "theme": visit.preferences.get("theme", ""),
    }
    status = view.status if problem is None else problem.status
    return Outcome(status, await _rendered(visit, view.template, facts), HEADERS)


class Surroundings(NamedTuple):
    """What the frame of a page shows: the project, how much waits in its sections, and whether automation is on.

    `projects` are the newest of the person, whose name is `who`.
    """

    project: Json | None
    waiting: Mapping[str, str]
    automated: bool
    projects: Sequence[Json]
    who: str


async def _frame(visit: Visit, project_id: str | None) -> Surroundings:
    reads = [visit.try_read("list_projects", query={"limit": SWITCHED})]
    if project_id is not None:
        reads += [visit.try_read("get_setup", project_id=project_id), visit.control(project_id)]
    listed, *of_project = await together(reads)
    project, control = of_project or (None, None)
    contract = control["contract"] if control else None
    automated = bool(contract and contract["enabled"] and not contract["paused"])
    projects = listed["projects"] if listed else []
    return Surroundings(project, kit.waiting_in(control), automated, projects, await visit.who())


async def _rendered(visit: Visit, template: str, facts: Mapping[str, Any]) -> bytes:
    """A page. It is rendered in the event loop while it is little, else in another process. Raises ReadNotDone."""
    zone = visit.preferences.get("zone", "UTC")
    if visit.weight + sum(map(len, visit.entered.values())) <= LITTLE:
        await visit.call.once(load, template)
        with suppress(TooMuchHere):
            return render(template, facts, zone, here=HERE)
    return await visit.call.offload(render, template, facts, zone)


def _file(made: kit.Download) -> Outcome:
    """A file that a browser keeps and never shows."""
    named = f'attachment; filename="{made.name}"'
    headers = {**HEADERS, "content-type": "application/octet-stream", "content-disposition": named}
    return Outcome(HTTPStatus.OK, made.body, headers)


def _done(visit: Visit) -> str:
    """The sentence after an operation. Empty without any."""
    name = visit.query.get("done", "")
    if not name or name in DONE:
        return DONE.get(name, "")
    bound = inner.pipeline_of(visit.call).bound.get(name)
    return "" if bound is None else f"Done: {bound.operation.summary}."


def _here(visit: Visit) -> str:
    """The address of the page itself."""
    query = urlencode({name: value for name, value in visit.query.items() if name != "done"})
    return visit.place + (f"?{query}" if query else "")


def _refused(visit: Visit, said: Said) -> Outcome:
    facts: Mapping[str, Any] = {"failure": said.error, "request_id": visit.call.request_id, "theme": ""}
    return Outcome(said.status, render("kit/failure.html", facts), HEADERS)


def _lead(to: kit.Redirect) -> Outcome:
    address = way_to(to.place)
    if to.done:
        address += f"{'&' if '?' in address else '?'}{urlencode({'done': to.done})}"
    return Outcome(HTTPStatus.SEE_OTHER, b"", {**FRAMELESS, "location": address, **to.headers})
