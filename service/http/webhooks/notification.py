"""Notifications at the edge: destinations that owners add, and rules that members set for themselves."""

from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody

from schemas import notifications as wire
from schemas.kernel.published import body_schema
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, OWNER
from service.http.webhooks.webhook import answered, judged_address, mark, no_key
from service.ids import new_id
from service.webhooks import destination as destinations
from service.webhooks.sending import AttemptOutcome
from service.webhooks.testing import too_many_tests
from statemachines.contracts.cron import known_zones
from statemachines.notifications import QuietHours

PATH = "/v1/projects/{project_id}/notifications"
ALL = PATH + "/destinations"
ONE = ALL + "/{id}"
NOT_FOUND = ("destination_not_found",)


@groups.WEBHOOKS.get(PATH, "List a project's destinations of notifications, with your rules")
@Who(KEY)
@Docs(wire.NotificationList, extension=True)
async def list_notifications(call: Call) -> Answer:
    """List all destinations of the project, newest first, each with the rule of the caller."""
    found = await destinations.destinations_of(call.services.store, call.project_id)
    return Answer(200, destinations.listed(call.project_id, found, call.user_id))


@groups.WEBHOOKS.post(ALL, "Add a chat as a destination of notifications")
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="optional")
@Docs({201: wire.DestinationAdded}, errors=("service_unavailable",), extension=True)
async def add_notification_destination(call: Call, data: JSONBody[wire.AddDestination]) -> Outcome:
    """Add a destination. A repeat of the request shows no address (G-008)."""
    key = call.services.settings.encryption_key
    if key is None:
        raise no_key()
    address = await judged_address(call, data.url)
    wish = destinations.AddressWish(data.kind, address.url, address.origin, data.name)
    return await call.carry_out(destinations.add(call.project_id, wish, call.user_id, key), _created)


def _created(made: destinations.NewDestination) -> Answer:
    return Answer(201, destinations.created(made, raw=True), stored=destinations.created(made, raw=False))


@groups.WEBHOOKS.delete(ONE, "Delete a destination with its rules and what is queued for it")
@Who(OWNER, owner=True)
@Fencing(if_match="optional", idempotency="optional")
@Docs(wire.DestinationDeleted, errors=NOT_FOUND, extension=True)
async def delete_notification_destination(call: Call, id: FromPath[str]) -> Outcome:
    """Delete a destination: no attempt begins after the answer."""
    return await call.carry_out(destinations.delete(call.project_id, id, if_match=call.if_match), _ended)


def _ended(gone: destinations.EndedDestination) -> Answer:
    return Answer(200, destinations.ended(gone))


@groups.WEBHOOKS.post(ONE + "/test", "Send a test message to a destination")
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs(wire.DestinationTested, errors=NOT_FOUND, extension=True)
async def test_notification_destination(call: Call, id: FromPath[str]) -> Outcome:
    """Send a test and tell its outcome, also when the chat refuses it. One key names one message."""
    stored = await answered(call, destinations.look_at(call.project_id, id))
    if stored is not None:
        return stored
    found = await destinations.find_destination(call.services.store, call.project_id, id)
    delivery = mark(call, "whd") or new_id("whd")
    attempt = await call.services.webhook_tester.test_destination(found, delivery, call.principal.tenant)
    delivered = attempt is not None and attempt.delivered
    intent = destinations.tested(call.project_id, id, delivered=delivered)
    return await call.carry_out(intent, partial(_tested, id, delivery, attempt))


def _tested(id: str, delivery: str, attempt: AttemptOutcome | None, _: None) -> Answer:
    if attempt is None:
        raise too_many_tests(1)
    return Answer(200, destinations.shown_test(id, delivery, attempt))


@groups.WEBHOOKS.put(ONE + "/rule", "Set your rule for a destination")
@Who(KEY)
@Fencing(if_match="optional", idempotency="optional")
@Docs(wire.RuleRecord, errors=NOT_FOUND, extension=True)
async def set_notification_rule(call: Call, data: JSONBody[wire.SetRule], id: FromPath[str]) -> Outcome:
    """Set the rule of the caller, and replace the one before."""
    _check_rule(data)
    quiet = data.quiet_hours
    hours = None if quiet is None else QuietHours(quiet.begins, quiet.ends, quiet.timezone)
    intent = destinations.set_rule(call.project_id, id, call.user_id, tuple(data.events), hours, if_match=call.if_match)
    return await call.carry_out(intent, _ruled)


def _ruled(changed: destinations.ChangedRule) -> Answer:
    shown = destinations.rule_record(changed)
    return Answer(200, shown, {"etag": shown.etag})


@groups.WEBHOOKS.delete(ONE + "/rule", "Remove your rule for a destination")
@Who(KEY)
@Fencing(if_match="optional", idempotency="optional")
@Docs(wire.RuleRecord, errors=(*NOT_FOUND, "not_found"), extension=True)
async def remove_notification_rule(call: Call, id: FromPath[str]) -> Outcome:
    """Remove the rule of the caller."""
    intent = destinations.remove_rule(call.project_id, id, call.user_id, if_match=call.if_match)
    return await call.carry_out(intent, _ruled)


@groups.WEBHOOKS.get(ONE + "/deliveries", "List the notifications of a destination in the order of the log")
@Who(KEY)
@Docs(wire.NotificationLog, errors=NOT_FOUND, extension=True)
async def list_notification_deliveries(
    call: Call, params: NamedDependency[wire.NotificationQuery], id: FromPath[str]
) -> Answer:
    """List notifications after a position, without their texts."""
    store = call.services.store
    await destinations.find_destination(store, call.project_id, id)
    page = await destinations.notifications_of(store, call.project_id, id, params.after, params.status, params.limit)
    return Answer(200, page)


def _check_rule(data: wire.SetRule) -> None:
    """Check what lies between the members of a rule. Raises InvalidPayload."""
    quiet = data.quiet_hours
    invalid = []
    if len(set(data.events)) < len(data.events):
        invalid.append(("events", "must be unique"))
    if quiet is not None and quiet.begins == quiet.ends:
        invalid.append(("quiet_hours.ends", "must differ from begins"))
    if quiet is not None and quiet.timezone not in known_zones():
        invalid.append(("quiet_hours.timezone", "must be an IANA time zone"))
    if invalid:
        raise InvalidPayload("The rule cannot be set.", invalid=invalid, schema=body_schema(wire.SetRule))


ENDPOINTS = [
    list_notifications,
    add_notification_destination,
    delete_notification_destination,
    test_notification_destination,
    set_notification_rule,
    remove_notification_rule,
    list_notification_deliveries,
]
