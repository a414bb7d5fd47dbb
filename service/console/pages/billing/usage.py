"""The usage of the person's account against its plan, and the ways to pay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, first
from service.console.kit.page import View, form, page
from service.console.kit.together import together
from service.console.kit.visit import Visit

DAYS = 60
HTTP = ("https://", "http://")


@page("projects/{project_id}/usage", section="usage")
async def show_usage(visit: Visit) -> View:
    """Show the usage of the account, with the part of the project."""
    project_id = visit.values["project_id"]
    health = await visit.read("get_project_health", project_id=project_id)
    history, billing = await together(
        [visit.try_read("get_usage_history", query={"days": DAYS}), visit.try_read("get_billing_status")]
    )
    days = [(day, ()) for day in history["snapshots"]] if history else []
    facts = {"month": health["usage_this_month"], "billing": billing, "days": days}
    return View("billing/usage.html", "Usage and billing", facts, project_id)


@form("projects/{project_id}/usage/checkout")
async def check_out(visit: Visit, fields: Fields) -> View:
    """Ask for the address of the payment page. Raises FormProblem."""
    return await _led(visit, fields, "start_billing_checkout", {"plan": first(fields, "plan")}, "checkout_url")


@form("projects/{project_id}/usage/portal")
async def open_portal(visit: Visit, fields: Fields) -> View:
    """Ask for the address of the payment provider's portal. Raises FormProblem."""
    return await _led(visit, fields, "open_billing_portal", {}, "url")


async def _led(visit: Visit, fields: Fields, operation: str, body: Mapping[str, Any], member: str) -> View:
    headers = {"idempotency-key": first(fields, "_key")} if first(fields, "_key") else {}
    said = await visit.ask(operation, {}, body=body, headers=headers)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    address = said.body[member]
    facts = {"address": address, "safe": address.startswith(HTTP), "next_action": said.body["next_action"]}
    return View("billing/leave.html", "Go on at the payment provider", facts, visit.values["project_id"])


PAGES = [show_usage]
FORMS = [check_out, open_portal]
