"""Saved views of cases: the list with its counts, and one view with its filter."""

from collections.abc import Mapping, Sequence
from typing import Any

from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.cases import ORDERS, ORIGINS, SEEN, STATUSES

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
    facts = {"found": found, "texts": TEXTS, "choices": choices, "given": given, "told": told}
    return View("cases/view.html", found["name"], facts, project_id, {"Tag": found["etag"]})


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
