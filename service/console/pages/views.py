"""Saved views of cases: the list with its counts, one view with its filter, and acts on all that it finds."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from service.auth.refusals import InvalidPayload
from service.console.kit.page import Fields, FormProblem, View, first, form, page
from service.console.kit.visit import Visit, local
from service.console.pages.cases import ORDERS, ORIGINS, SEEN, STATUSES, members_of

TEXTS: Sequence[tuple[str, str, int]] = (
    ("text", "Title or message", 200),
    ("environment", "Environment", 100),
    ("release", "Release", 200),
    ("tag", "Tag of the first error", 300),
    ("path", "Beginning of the culprit", 200),
    ("person", "Person", 200),
)
"""The texts of a filter: the member, the label of its field, and the longest text."""
SPANS: Sequence[tuple[str, str]] = tuple((str(seconds), label) for label, seconds in SEEN.values())
CHOICES: Sequence[tuple[str, str, Sequence[tuple[str, str]]]] = (
    ("status", "Status", STATUSES),
    ("seen_within", "Last seen", (("", "at any time"), *SPANS)),
    ("trust", "Origin", (("", "Default"), *ORIGINS)),
    ("order", "Order", tuple((value, label) for value, label, _ in ORDERS)),
)
"""The choices of a filter: the member, the label of its field, and its options."""

ACTIONS: Mapping[str, tuple[str, str]] = {
    "resolve": ("Resolve", "resolved"),
    "ignore": ("Ignore", "ignored"),
    "suppress": ("Suppress", "suppressed"),
    "assign": ("Assign", "assigned"),
}
"""The acts on all cases of a view: the label, and the word for it afterwards."""


@page("projects/{project_id}/views", section="views")
async def show_views(visit: Visit) -> View:
    """Show the views of a project, and a form with the filter of the address."""
    project_id = visit.values["project_id"]
    found = await visit.read("list_case_views", project_id=project_id)
    asked = {name: visit.query.get(name, "") for name in (*(name for name, *_ in TEXTS), "status", "trust", "order")}
    span = SEEN.get(visit.query.get("seen", ""))
    given = {**asked, "seen_within": str(span[1]) if span else visit.query.get("seen_within", "")}
    facts = {"found": found, "texts": TEXTS, "choices": CHOICES, "given": given, "told": told}
    return View("cases/views.html", "Views", facts, project_id)


@page("projects/{project_id}/views/{view_id}", section="views")
async def show_view(visit: Visit) -> View:
    """Show one view: what it finds, and its filter to change."""
    project_id, view_id = visit.values["project_id"], visit.values["view_id"]
    found = await visit.read("get_case_view", project_id=project_id, view_id=view_id)
    given = {name: "" if value is None else str(value) for name, value in found["filter"].items()}
    if given["seen_within"] and given["seen_within"] not in dict(SPANS):
        choices = [_with_own_span(choice, given["seen_within"]) for choice in CHOICES]
    else:
        choices = list(CHOICES)
    facts = {
        "found": found,
        "texts": TEXTS,
        "choices": choices,
        "given": given,
        "told": told,
        "actions": ACTIONS,
        "preview": await _preview(visit, project_id, view_id),
        "members": await members_of(visit, project_id),
    }
    return View("cases/view.html", found["name"], facts, project_id, {"Tag": found["etag"]})


async def _preview(visit: Visit, project_id: str, view_id: str) -> Mapping[str, Any] | None:
    """What the act that the address names would do to the cases of a view."""
    action = visit.query.get("action", "")
    if action not in ACTIONS:
        return None
    body = {"action": action, "view_id": view_id}
    said = await visit.ask("preview_case_batch", {"project_id": project_id}, body=body)
    if not said.ok:
        return None
    sent = [{name: one[name] for name in ("case_id", "case_revision")} for one in said.body["cases"]]
    return {**said.body, "sent": msgspec.json.encode(sent).decode()}


@form("projects/{project_id}/cases/batch", section="cases")
async def act_on_found(visit: Visit, fields: Fields) -> View:
    """Act on previewed cases, each at the revision seen. Raises FormProblem when all is refused."""
    project_id, action = visit.values["project_id"], first(fields, "action")
    await visit.read("get_setup", project_id=project_id)
    try:
        cases = msgspec.json.decode(first(fields, "cases"))
    except (msgspec.DecodeError, RecursionError):
        raise InvalidPayload("The cases are not acceptable.", invalid=[("cases", "must be JSON")]) from None
    body: dict[str, Any] = {"action": action, "cases": cases}
    if action == "assign":
        body["user_id"] = first(fields, "user_id") or None
    headers = {"idempotency-key": first(fields, "_key")}
    said = await visit.ask("act_on_cases", {"project_id": project_id}, body=body, headers=headers)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    facts = {
        "batch": said.body,
        "word": ACTIONS.get(action, ("", action))[1],
        "sent": {name: first(fields, name) for name in ("action", "cases", "user_id", "_key", "_next")},
        "after": local(first(fields, "_next")),
    }
    return View("cases/batched.html", "Results for the cases", facts, project_id)


def _with_own_span(
    choice: tuple[str, str, Sequence[tuple[str, str]]], seconds: str
) -> tuple[str, str, Sequence[tuple[str, str]]]:
    """A choice, with an option for a span that a program has saved."""
    name, label, options = choice
    return (name, label, (*options, (seconds, f"in the last {seconds} seconds"))) if name == "seen_within" else choice


def told(wanted: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A filter in words: pairs of label and value, without what filters nothing."""
    names: list[tuple[str, str, Mapping[str, str]]] = [(name, label, {}) for name, label, _ in TEXTS]
    names += [(name, label, dict(options)) for name, label, options in CHOICES]
    given = [(label, str(wanted[name]), options) for name, label, options in names if wanted[name] is not None]
    return [(label, options.get(value, value)) for label, value, options in given]


PAGES = [show_views, show_view]
FORMS = [act_on_found]
