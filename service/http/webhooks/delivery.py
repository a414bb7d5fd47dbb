"""The log of deliveries at the edge: read, resent, replayed (G-161)."""

from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

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
async def list_webhook_deliveries(call: Call, params: NamedDependency[wire.DeliveryQuery], id: FromPath[str]) -> Answer:
    """List deliveries after a position, without their bodies."""
    found = await find(call, id)
    page = await webhooks.deliveries_of(
        call.services.store, call.project_id, found.row.id, params.after, params.status, params.limit
    )
    return Answer(200, webhooks.delivery_list(*page))


@groups.WEBHOOKS.post(ONE + "/deliveries/{delivery_id}/resend", "Send a delivery again, with the same id and body")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.DeliveryResent, errors=(*NOT_FOUND, "delivery_not_found"), extension=True)
async def resend_webhook_delivery(call: Call, delivery_id: FromPath[str], id: FromPath[str]) -> Outcome:
    """Queue a delivery again, once for a key, and show it as it is then."""
    stored = await answered(call, webhooks.look_at(call.project_id, id))
    if stored is not None:
        return stored
    found, store = await find(call, id), call.services.store
    if await webhooks.find_delivery(store, call.project_id, found.row.id, delivery_id) is None:
        raise refusal("delivery_not_found")
    await testing.resend(store, call.project_id, found.row.id, delivery_id, mark(call, "ask"))
    again = await webhooks.find_delivery(store, call.project_id, found.row.id, delivery_id)
    if again is None:
        raise refusal("delivery_not_found")
    return await call.carry_out(webhooks.look_at(call.project_id, found.row.id), partial(_resent, again))


def _resent(delivery: webhooks.LoggedDelivery, _: None) -> Answer:
    return Answer(200, webhooks.resent(delivery))


@groups.WEBHOOKS.post(ONE + "/replay", "Send the events of a range of the log again")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.WebhookReplayed, errors=NOT_FOUND, extension=True)
async def replay_webhook(call: Call, data: JSONBody[wire.ReplayWebhook], id: FromPath[str]) -> Outcome:
    """Queue what the webhook is subscribed to, from its registration on, once for a key. Ids are as before."""
    if not 0 < data.until - data.after <= wire.MAX_RANGE:
        raise InvalidPayload(
            "The range cannot be replayed.",
            invalid=[("until", f"must be 1 to {wire.MAX_RANGE} positions after after")],
            schema=body_schema(wire.ReplayWebhook),
        )
    stored = await answered(call, webhooks.look_at(call.project_id, id))
    if stored is not None:
        return stored
    found = await find(call, id)
    queued = await testing.replay(call.services.store, found, data.after, data.until, mark(call, "ask"))
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
async def list_project_events(call: Call, params: NamedDependency[wire.ProjectEventQuery]) -> Answer:
    """List events after a position."""
    names = testing.DOCUMENTED if params.names is None else frozenset(params.names.split(","))
    if names - set(testing.TOPICS):
        raise InvalidPayload(
            "A parameter is not acceptable.", invalid=[("names", "must be names of events, parted by commas")]
        )
    found, next_after = await events_of(call.services.store, call.project_id, names, params.after, params.limit)
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
