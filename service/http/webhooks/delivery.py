"""The log of deliveries at the edge: read, resent, replayed (G-161)."""

from functools import partial

from schemas import webhooks as wire
from schemas.kernel.published import body_schema
from service.auth.refusals import InvalidPayload, refusal
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.http.webhooks.webhook import NOT_FOUND, ONE, answered, find, mark
from service.webhooks import testing
from service.webhooks import webhook as webhooks
from service.webhooks.queueing import events_of


@groups.WEBHOOKS.get(ONE + "/deliveries", "List the deliveries of a webhook in the order of the log")
@Who(KEY)
@Docs(wire.DeliveryList, errors=NOT_FOUND, extension=True)
async def list_webhook_deliveries(call: Call[None, wire.DeliveryQuery]) -> Answer:
    """List deliveries after a position, without their bodies."""
    found, query = await find(call), call.query
    page = await webhooks.deliveries_of(
        call.services.store, call.project_id, found.row.id, query.after, query.status, query.limit
    )
    return Answer(200, webhooks.delivery_list(*page))


@groups.WEBHOOKS.post(ONE + "/deliveries/{delivery_id}/resend", "Send a delivery again, with the same id and body")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.DeliveryResent, errors=(*NOT_FOUND, "delivery_not_found"), extension=True)
async def resend_webhook_delivery(call: Call[None, None]) -> Outcome:
    """Queue a delivery again, once for a key, and show it as it is then."""
    stored = await answered(call)
    if stored is not None:
        return stored
    found, store, delivery = await find(call), call.services.store, call.path["delivery_id"]
    if await webhooks.find_delivery(store, call.project_id, found.row.id, delivery) is None:
        raise refusal("delivery_not_found")
    await testing.resend(store, call.project_id, found.row.id, delivery, mark(call, "ask"))
    again = await webhooks.find_delivery(store, call.project_id, found.row.id, delivery)
    if again is None:
        raise refusal("delivery_not_found")
    return await call.carry_out(webhooks.look_at(call.project_id, found.row.id), partial(_resent, again))


def _resent(delivery: webhooks.LoggedDelivery, _: None) -> Answer:
    return Answer(200, webhooks.resent(delivery))


@groups.WEBHOOKS.post(ONE + "/replay", "Send the events of a range of the log again")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.WebhookReplayed, errors=NOT_FOUND, extension=True)
async def replay_webhook(call: Call[wire.ReplayWebhook, None]) -> Outcome:
    """Queue what the webhook is subscribed to, from its registration on, once for a key. Ids are as before."""
    body = call.body
    if not 0 < body.until - body.after <= wire.MAX_RANGE:
        raise InvalidPayload(
            "The range cannot be replayed.",
            invalid=[("until", f"must be 1 to {wire.MAX_RANGE} positions after after")],
            schema=body_schema(wire.ReplayWebhook),
        )
    stored = await answered(call)
    if stored is not None:
        return stored
    found = await find(call)
    queued = await testing.replay(call.services.store, found, body.after, body.until, mark(call, "ask"))
    return await call.carry_out(webhooks.look_at(call.project_id, found.row.id), partial(_replayed, found, queued))


def _replayed(webhook: webhooks.StandingWebhook, queued: int, _: None) -> Answer:
    return Answer(200, webhooks.replayed(webhook, queued))


# A project's events at the edge, for callers without a receiver (G-161).


@groups.WEBHOOKS.get(
    "/v1/projects/{project_id}/project-events",
    "List a project's events in the order of the log, as webhooks are told of them",
)
@Who(KEY)
@Docs(wire.ProjectEventList, extension=True)
async def list_project_events(call: Call[None, wire.ProjectEventQuery]) -> Answer:
    """List events after a position."""
    query = call.query
    names = testing.DOCUMENTED if query.names is None else frozenset(query.names.split(","))
    if names - set(testing.TOPICS):
        raise InvalidPayload(
            "A parameter is not acceptable.", invalid=[("names", "must be names of events, parted by commas")]
        )
    found, next_after = await events_of(call.services.store, call.project_id, names, query.after, query.limit)
    events = [
        wire.ProjectEvent(
            id=one.told.id, event=one.told.event, position=one.position, created_at=one.told.created_at, data=one.data
        )
        for one in found
    ]
    shown = wire.ProjectEventList(
        project_id=call.project_id,
        events=events,
        next_after=next_after,
        next_action="Poll on with after, as next_after says.",
    )
    return Answer(200, shown)


ENDPOINTS = [list_webhook_deliveries, resend_webhook_delivery, replay_webhook, list_project_events]
