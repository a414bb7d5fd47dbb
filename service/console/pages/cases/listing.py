"""The cases of a project: filtered, in pages, and several of them acted on at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.console.kit.following import ALL
from service.console.kit.page import View, page
from service.console.kit.visit import Visit

PAGE = 25
SEEN: Mapping[str, tuple[str, int]] = {
    "hour": ("in the last hour", 3_600),
    "day": ("in the last 24 hours", 86_400),
    "week": ("in the last 7 days", 7 * 86_400),
    "month": ("in the last 30 days", 30 * 86_400),
}
STATUSES: Sequence[tuple[str, str]] = (
    ("open", "Open"),
    ("resolved", "Resolved"),
    ("ignored", "Ignored"),
    ("all", "All"),
)
ORIGINS: Sequence[tuple[str, str]] = (
    ("customer_provider", "Your product"),
    ("synthetic", "Onboarding proofs"),
)
ORDERS: Sequence[tuple[str, str, str]] = (
    ("newest", "Newest", "newest first"),
    ("last_seen", "Last seen", "last error first"),
    ("errors", "Errors", "most errors first"),
    ("people", "People", "most people first"),
)
"""The orders: the value, the name in the filters, and in words above the table."""
ASKED = ("status", "environment", "release", "text", "trust", "cursor", "since", "order")
FILTERS = ("environment", "release", "text", "trust", "since", "seen")


@page("projects/{project_id}/cases", section="cases")
async def show_cases(visit: Visit) -> View:
    """Show the cases of a project in the order asked for, newest first by default."""
    project_id, asked = visit.values["project_id"], visit.query
    query = {name: asked.get(name) for name in ASKED}
    if asked.get("seen") in SEEN:
        query["since"] = str(await visit.call.services.store.now() - SEEN[asked["seen"]][1])
    found = await visit.read(
        "list_cases", project_id=project_id, query={**query, "limit": asked.get("limit") or PAGE, "trend": "true"}
    )
    shown = found["cases"]
    facts = {
        "found": found,
        "statuses": STATUSES,
        "origins_of": ORIGINS,
        "orders": ORDERS,
        "order": asked.get("order") or "newest",
        "seen": [(name, label) for name, (label, _) in SEEN.items()],
        "environments": sorted({case["environment"] for case in shown}),
        "releases": sorted({case["release"] for case in shown if case["release"]}),
        "filtered": any(asked.get(name) for name in FILTERS) or asked.get("status", "open") != "open",
        "members": await _members(visit, project_id),
        "me": visit.call.user_id,
    }
    return View("cases/listed.html", "Cases", facts, project_id, follows=[ALL])


async def _members(visit: Visit, project_id: str) -> list[tuple[str, str]]:
    """The members to assign cases to, as far as the person may see them."""
    found = await visit.try_read("list_members", project_id=project_id, query={"limit": 200})
    return [(one["user_id"], one["email"] or one["user_id"]) for one in found["members"]] if found else []


PAGES = [show_cases]
