"""Notifications at the edge: destinations that owners add, and rules that members set for themselves."""

from contextlib import suppress
from functools import partial

from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, RequestBody
from msgspec import UNSET

from schemas import notifications as wire
from schemas.kernel.published import body_schema
from service.auth.authority import carry_out
from service.auth.refusals import InvalidPayload, NotFound
from service.eventstore.declare.commands import Answer, Outcome
from service.http.answer.page import FORM, HEADERS, HTML, frame
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import ANYONE, KEY, OWNER
from service.http.webhooks.webhook import answered, judged_address, mark, no_key
from service.ids import new_id
from service.webhooks import destination as destinations
from service.webhooks.mail import UNSUBSCRIBE, UnsubscribeToken, read_token
from service.webhooks.sending import AttemptOutcome
from service.webhooks.testing import too_many_tests
from statemachines.contracts.cron import known_zones
from statemachines.notifications import DestinationNotFound, QuietHours, RuleNotFound
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

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


@groups.WEBHOOKS.post(ALL, "Add a chat, or mail to a member, as a destination of notifications")
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="optional")
@Docs({201: wire.DestinationAdded}, errors=("not_found", "service_unavailable"), extension=True)
async def add_notification_destination(call: Call, data: JSONBody[wire.AddDestination]) -> Outcome:
    """Add a destination. A repeat of the request shows no address (G-008)."""
    key = call.services.settings.encryption_key
    if key is None:
        raise no_key()
    _check_address(data, mails=call.services.settings.smtp_url is not None)
    wish = _mail_wish(call, data) if data.url is UNSET else await _chat_wish(call, data, data.url)
    return await call.carry_out(destinations.add(call.project_id, wish, call.user_id, key), _created)


def _check_address(data: wire.AddDestination, *, mails: bool) -> None:
    """Check that a chat has an address, and mail none but a server to send it. Raises InvalidPayload."""
    mail = data.kind == wire.MAIL
    invalid = []
    if mail and not mails:
        invalid.append(("kind", "must be a chat: the operator has set no SERVICE_SMTP_URL"))
    if mail is (data.url is not UNSET):
        invalid.append(("url", "must not be there for mail" if mail else "must be the address of a chat"))
    if not mail and data.member_id is not UNSET:
        invalid.append(("member_id", "must not be there for a chat"))
    if invalid:
        schema = body_schema(wire.AddDestination)
        raise InvalidPayload("The destination cannot be added.", invalid=invalid, schema=schema)


async def _chat_wish(call: Call, data: wire.AddDestination, url: str) -> destinations.AddressWish:
    address = await judged_address(call, url)
    return destinations.AddressWish(data.kind, address.url, address.origin, data.name)


def _mail_wish(call: Call, data: wire.AddDestination) -> destinations.AddressWish:
    """Mail to a member, the caller if none is named."""
    member_id = call.user_id if data.member_id is UNSET else data.member_id
    return destinations.AddressWish(data.kind, None, destinations.MAILTO, data.name, member_id)


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
    """Set the rule of the caller, and replace the one before. One for mail is that of its member alone."""
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


# The page that ends mail to a member, for whoever holds the link in a message (RFC 8058).

UNSUBSCRIBE_PATH = f"/{UNSUBSCRIBE}/{{token}}"
MAX_FORM = 4096
_ASK = """<p>Do you want no more messages of this kind by mail?</p>
<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click">
<p><button>Send me no more</button></p></form>
"""
_ENDED = "<p>You get no more messages of this kind by mail. A rule of yours in the console starts them again.</p>\n"
PAGE_TITLE = "Notifications by mail"
_NOTHING_TO_END = (DestinationNotFound, RuleNotFound, ProjectNotFound, ProjectDeletionInProgress)


@groups.WEBHOOKS.get(UNSUBSCRIBE_PATH, "Show how to end mail to you, as a page")
@Who(ANYONE)
@Fencing(rate="device_poll")
@Docs(str, extension=True, errors=("not_found",), content_type=HTML)
async def show_unsubscribe_page(call: Call, token: FromPath[str]) -> Outcome:
    """Ask whether to end it, and change nothing."""
    _opened(call, token)
    return Outcome(200, frame(PAGE_TITLE, _ASK), HEADERS)


@groups.WEBHOOKS.post(UNSUBSCRIBE_PATH, "End mail to you")
@Who(ANYONE)
@Body(max_body=MAX_FORM, media_type=FORM)
@Fencing(rate="device_poll")
@Docs(str, extension=True, errors=("not_found",), content_type=HTML)
async def unsubscribe(call: Call, data: RequestBody[bytes], token: FromPath[str]) -> Outcome:  # noqa: ARG001 - the token says all
    """Remove the rule of a member for their mail. A repeat changes nothing, whatever has become of the rule."""
    named = _opened(call, token)
    intent = destinations.remove_rule(*named, if_match=None)
    with suppress(*_NOTHING_TO_END):
        await carry_out(call.services.store, "webhooks", "unsubscribe", intent, project=named.project_id)
    return Outcome(200, frame(PAGE_TITLE, _ENDED), HEADERS)


def _opened(call: Call, token: str) -> UnsubscribeToken:
    """Open the token of a link. Raises NotFound."""
    named = read_token(call.services.settings.encryption_key, token)
    if named is None:
        raise NotFound("There is no such link.", next_action="Remove your rule in the console.")
    return named


ENDPOINTS = [
    list_notifications,
    add_notification_destination,
    delete_notification_destination,
    test_notification_destination,
    set_notification_rule,
    remove_notification_rule,
    list_notification_deliveries,
    show_unsubscribe_page,
    unsubscribe,
]
