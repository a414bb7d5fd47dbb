"""The webhooks of a project, and the deliveries to each."""

from __future__ import annotations

from service.console.kit.page import View, page
from service.console.kit.visit import Json, Visit

STATUSES = ("pending", "delivered", "failed", "exhausted", "stopped")
KINDS = {"registered": "", "tested": "good", "delivering": "good", "unhealthy": "bad", "deleted": ""}
DELIVERY_KINDS = {"pending": "wait", "delivered": "good", "failed": "bad", "exhausted": "bad", "stopped": ""}
A_PAGE = 50


@page("projects/{project_id}/webhooks", section="webhooks")
async def show_webhooks(visit: Visit) -> View:
    """Show the webhooks, and a form for another."""
    project_id = visit.values["project_id"]
    found = await visit.read("list_webhooks", project_id=project_id)
    facts = {"found": found, "kinds": KINDS, "events": await _events(visit)}
    return View("telling/webhooks.html", "Webhooks", facts, project_id)


@page("projects/{project_id}/webhooks/{id}", section="webhooks")
async def show_webhook(visit: Visit) -> View:
    """Show a webhook with its deliveries, a page of them."""
    project_id, hook_id = visit.values["project_id"], visit.values["id"]
    one = await visit.read("get_webhook", project_id=project_id, id=hook_id)
    query = {"status": visit.query.get("status"), "after": visit.query.get("after"), "limit": A_PAGE}
    deliveries = await visit.read("list_webhook_deliveries", project_id=project_id, id=hook_id, query=query)
    facts = {
        "one": one,
        "kinds": KINDS,
        "delivery_kinds": DELIVERY_KINDS,
        "statuses": STATUSES,
        "events": await _events(visit),
        "deliveries": deliveries,
    }
    state = {"Address": one["url"], "Events": ", ".join(one["events"]), "State": one["status"]}
    return View("telling/webhook.html", "Webhook", facts, project_id, state=state)


async def _events(visit: Visit) -> list[Json]:
    """The kinds of events for webhooks."""
    found = await visit.try_read("list_webhook_events")
    return [one for one in found["events"] if one["event"] != "webhook.test"] if found else []


PAGES = [show_webhooks, show_webhook]
