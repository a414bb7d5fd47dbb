"""Alerts, blueprints, public queries, webhooks and notifications of a project."""

from collections.abc import Sequence
from typing import NamedTuple

from service.console.kit.page import Fields, FormProblem, View, body_of, first, form, page
from service.console.kit.visit import Json, Visit
from service.http.edge import inner

# Query blueprints in forms: the chosen one, with a field for each of its parameters.


class ParameterField(NamedTuple):
    """A field of a form. Its name says how the text becomes a value. `of_event`: the value is the name of an event."""

    name: str
    label: str
    kind: str
    value: str
    required: bool
    hint: str
    of_event: bool


class ChosenBlueprint(NamedTuple):
    """All blueprints, and the chosen one with its fields."""

    all: Sequence[Json]
    one: Json
    fields: Sequence[ParameterField]


async def chosen_blueprint(visit: Visit) -> ChosenBlueprint:
    """The blueprint of the query parameter `blueprint`, with the values in others. The first one for any other name."""
    found = (await visit.read("list_query_blueprints"))["blueprints"]
    wanted = visit.query.get("blueprint")
    one = next((each for each in found if each["blueprint_id"] == wanted), found[0])
    schema = one["params_schema"]
    fields = [_field(name, prop, name in schema["required"]) for name, prop in schema["properties"].items()]
    given = [
        field._replace(
            value=visit.query.get(field.name, field.value),
            of_event=field.name.partition(":")[0] in one["required_events"],
        )
        for field in fields
    ]
    return ChosenBlueprint(found, one, given)


def _field(name: str, prop: Json, required: bool) -> ParameterField:
    shape = next((one for one in prop.get("anyOf", ()) if one.get("type") != "null"), prop)
    hint = shape.get("description") or prop.get("description", "")
    value = str(prop["default"]) if prop.get("default") is not None else ""
    label = name.replace("_", " ").capitalize()
    if shape.get("type") == "array":
        return ParameterField(
            f"params.{name}:lines", label, "lines", value, required, f"{hint} One a line.".strip(), False
        )
    if shape.get("type") == "string":
        return ParameterField(f"params.{name}", label, "text", value, required, hint, False)
    return ParameterField(f"params.{name}:json", label, "number", value, required, hint, False)


# The alerts of a project, and a test of one on the past.

OPERATORS = (
    ("gte", "at least"),
    ("gt", "more than"),
    ("lte", "at most"),
    ("lt", "less than"),
    ("eq", "exactly"),
    ("neq", "other than"),
)
ALERT_KINDS = {"created": "", "evaluated_clear": "good", "triggered": "bad"}
WORDS = {"created": "not yet evaluated", "evaluated_clear": "clear", "triggered": "triggered"}


@page("projects/{project_id}/alerts", section="alerts")
async def show_alerts(visit: Visit) -> View:
    """Show the alerts, and a form for another."""
    return await _shown(visit, None)


@form("projects/{project_id}/alerts")
async def make_alert(visit: Visit, fields: Fields) -> View:
    """Test an alert on the last days. Raises FormProblem."""
    body = body_of(fields, inner.pipeline_of(visit.call).bound["preview_alert"].body_type)
    said = await visit.ask("preview_alert", visit.values, body=body)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    visit.query = {**visit.query, "blueprint": first(fields, "blueprint_id")}
    return await _shown(visit, said.body)


async def _shown(visit: Visit, preview: Json | None) -> View:
    project_id = visit.values["project_id"]
    found = await visit.read("list_alerts", project_id=project_id)
    facts = {
        "found": found,
        "blueprint": await chosen_blueprint(visit),
        "preview": preview,
        "operators": OPERATORS,
        "told": dict(OPERATORS),
        "kinds": ALERT_KINDS,
        "words": WORDS,
    }
    return View("telling/alerts.html", "Alerts", facts, project_id)


FORMS = [make_alert]


# The public queries of a project: numbers for everybody.


@page("projects/{project_id}/public-queries", section="public-queries")
async def show_public_queries(visit: Visit) -> View:
    """Show the public queries, and a form for another."""
    project_id = visit.values["project_id"]
    found = await visit.read("list_public_queries", project_id=project_id)
    facts = {"found": found, "blueprint": await chosen_blueprint(visit)}
    return View("telling/queries.html", "Public queries", facts, project_id)


# The webhooks of a project, and the deliveries to each.

STATUSES = ("pending", "delivered", "failed", "exhausted", "stopped")
WEBHOOK_KINDS = {"registered": "", "tested": "good", "delivering": "good", "unhealthy": "bad", "deleted": ""}
DELIVERY_KINDS = {"pending": "wait", "delivered": "good", "failed": "bad", "exhausted": "bad", "stopped": ""}
A_PAGE = 50


@page("projects/{project_id}/webhooks", section="webhooks")
async def show_webhooks(visit: Visit) -> View:
    """Show the webhooks, and a form for another."""
    project_id = visit.values["project_id"]
    found = await visit.read("list_webhooks", project_id=project_id)
    facts = {"found": found, "kinds": WEBHOOK_KINDS, "events": await _events(visit)}
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
        "kinds": WEBHOOK_KINDS,
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


# The destinations of notifications of a project, and your rule for each.

CHATS = (("slack", "Slack"), ("teams", "Microsoft Teams"), ("discord", "Discord"), ("mattermost", "Mattermost"))
MAIL = ("mail", "Mail to a member")
DESTINATION_NAMES = dict((*CHATS, MAIL))
OCCASIONS = (
    ("case.created", "A new case"),
    ("case.regressed", "An error that came back"),
    ("approval.requested", "A runner that asks for an approval"),
    ("run.ended", "A run that ended, with its verdict"),
    ("alert.triggered", "An alert"),
    ("automation.stopped", "An automation that was stopped"),
    ("report.recorded", "A weekly report, as a link alone"),
)
DESTINATION_KINDS = {"active": "good", "stopped": "bad"}
NOTIFICATION_KINDS = {**DELIVERY_KINDS, "held": "wait", "merged": "good"}


@page("projects/{project_id}/notifications", section="notifications")
async def show_notifications(visit: Visit) -> View:
    """Show the destinations, and a form for another."""
    project_id = visit.values["project_id"]
    found = await visit.read("list_notifications", project_id=project_id)
    mails = visit.call.services.settings.smtp_url is not None
    people = await visit.try_read("list_members", project_id=project_id) if mails else None
    members = [(one["user_id"], one["email"] or one["user_id"]) for one in people["members"]] if people else []
    facts = {
        "found": found,
        "kinds": DESTINATION_KINDS,
        "offered": (*CHATS, MAIL) if mails else CHATS,
        "names": DESTINATION_NAMES,
        "members": members,
    }
    return View("telling/notifications.html", "Notifications", facts, project_id)


@page("projects/{project_id}/notifications/{id}", section="notifications")
async def show_destination(visit: Visit) -> View:
    """Show a destination with the rule of the reader, and a page of what was sent."""
    project_id, destination_id = visit.values["project_id"], visit.values["id"]
    query = {"after": visit.query.get("after"), "limit": A_PAGE}
    log = await visit.read("list_notification_deliveries", project_id=project_id, id=destination_id, query=query)
    found = await visit.read("list_notifications", project_id=project_id)
    one = next(each for each in found["destinations"] if each["id"] == destination_id)
    facts = {
        "one": one,
        "log": log,
        "kinds": DESTINATION_KINDS,
        "sent_kinds": NOTIFICATION_KINDS,
        "names": DESTINATION_NAMES,
        "occasions": OCCASIONS,
    }
    return View("telling/destination.html", "Destination", facts, project_id)


PAGES = [show_alerts, show_public_queries, show_webhooks, show_webhook, show_notifications, show_destination]
