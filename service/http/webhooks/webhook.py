"""Webhooks at the edge: registered, listed, changed, tested, deleted (R-WEB, G-090)."""

from collections.abc import Sequence
from functools import partial

import msgspec
from litestar.params import FromPath, JSONBody

from schemas import webhooks as wire
from schemas.kernel.published import body_schema
from service.auth.authority import PrincipalKind
from service.auth.refusals import InvalidPayload, ServiceUnavailable
from service.egress.exchange import take_apart
from service.egress.guard import reach_of_webhooks
from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.ids import new_id
from service.webhooks import webhook as webhooks
from service.webhooks.sending import AttemptOutcome
from service.webhooks.testing import catalogue, too_many_tests
from statemachines.kernel.machine import derived_id
from statemachines.webhooks import WebhookChange, no_webhook

# Requests whose act is not part of a command: queued again, replayed, tested (G-007, G-008). Such a request is
# answered from the record of its key before it acts, or binds its key first. So a repeat after the answer acts no
# second time, nor does the same key with another body. Of twins at the same time, the facts themselves let one act:
# they keep the mark of the request.


async def answered(call: Call, look: Intent[None]) -> Outcome | None:
    """The answer stored under the key of a request. None: its key is bound to it now, or it has none.

    `look` looks at what the request is for. Raises as it does, and what the store raises.
    """
    if call.key is None:
        return None
    found = await call.carry_out(look, _bound)
    return found if found.replayed else None


def mark(call: Call, prefix: str) -> str | None:
    """An id made from the request's key, path and caller. None without a key."""
    if call.key is None:
        return None
    return derived_id(prefix, call.scope["path"], f"{call.principal.kind.value}:{call.principal.id}", call.key)


def _bound(_: None) -> Answer:
    return Answer(200, None, pending=True)


PATH = "/v1/projects/{project_id}/webhooks"
ONE = PATH + "/{id}"
NOT_FOUND = ("webhook_not_found",)
RECENT = 20


@groups.WEBHOOKS.post(PATH, "Register a webhook and receive its secret once")
@Who(KEY, fresh=True)
@Fencing(idempotency="optional")
@Docs({201: wire.WebhookCreated}, errors=("service_unavailable",))
async def create_webhook(call: Call, data: JSONBody[wire.CreateWebhook]) -> Outcome:
    """Register an address. A repeat of the request shows no secret (G-008)."""
    key = call.services.settings.encryption_key
    if key is None:
        raise no_key()
    events = _names(call, data.events)
    address = await judged_address(call, data.url)
    intent = webhooks.register(call.project_id, address, events, text_of(data.description), key)
    return await call.carry_out(intent, _created)


def _created(made: webhooks.NewWebhook) -> Answer:
    return Answer(201, webhooks.created(made, raw=True), stored=webhooks.created(made, raw=False))


@groups.WEBHOOKS.get(PATH, "List a project's webhooks with their latest outcomes")
@Who(KEY)
@Docs(wire.WebhookList)
async def list_webhooks(call: Call) -> Answer:
    """List all webhooks of the project, newest first."""
    found = await webhooks.webhooks_of(call.services.store, call.project_id)
    return Answer(200, webhooks.listed(call.project_id, found, call.services.settings.encryption_key))


@groups.WEBHOOKS.get(ONE, "Read a webhook")
@Who(KEY)
@Docs(wire.WebhookDetail, errors=NOT_FOUND)
async def get_webhook(call: Call, id: FromPath[str]) -> Answer:
    """Show one webhook with its newest deliveries."""
    found = await find(call, id)
    recent = await webhooks.recent_deliveries(call.services.store, call.project_id, found.row.id, RECENT)
    return Answer(200, webhooks.detail(found, recent, call.services.settings.encryption_key))


@groups.WEBHOOKS.patch(ONE, "Change a webhook's address, events or description, or stop and start it")
@Who(KEY, fresh_when="it names an address")
@Fencing(idempotency="optional")
@Docs(wire.WebhookRecord, errors=(*NOT_FOUND, "service_unavailable"), extension=True)
async def change_webhook(call: Call, data: JSONBody[wire.ChangeWebhook], id: FromPath[str]) -> Outcome:
    """Change what the body names."""
    key = call.services.settings.encryption_key
    if data.url is not msgspec.UNSET:
        call.ask_fresh()
        if key is None:
            raise no_key()
    address = None if data.url is msgspec.UNSET else await judged_address(call, data.url)
    events = None if data.events is msgspec.UNSET else _names(call, data.events)
    found = await webhooks.find_webhook(call.services.store, call.project_id, id)
    wish = WebhookChange(
        origin=None if address is None else address.origin,
        events=events,
        enabled=None if data.enabled is msgspec.UNSET else data.enabled,
        readdressed=address is not None,
        described=data.description is not msgspec.UNSET,
    )
    text = data.description or None if wish.described else None
    intent = webhooks.change(call.project_id, id, wish, address=address, description=text, key=key)
    return await call.carry_out(intent, partial(_changed, found, key))


def _changed(found: webhooks.StandingWebhook | None, key: bytes | None, changed: webhooks.ChangedWebhook) -> Answer:
    facts = webhooks.WebhookFacts() if found is None else found.facts
    return Answer(200, webhooks.record(webhooks.StandingWebhook(changed.row, changed.target, facts), key))


@groups.WEBHOOKS.delete(ONE, "Delete a webhook and what is queued for it")
@Who(KEY, fresh=True)
@Fencing(idempotency="optional")
@Docs(wire.WebhookDeletedBody, errors=NOT_FOUND)
async def delete_webhook(call: Call, id: FromPath[str]) -> Outcome:
    """Delete a webhook: no attempt begins after the answer (R-WEB-09)."""
    return await call.carry_out(webhooks.delete(call.project_id, id), _ended)


def _ended(webhook: webhooks.EndedWebhook) -> Answer:
    return Answer(200, webhooks.ended(webhook))


@groups.WEBHOOKS.post(ONE + "/test", "Send a test delivery to a webhook")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.WebhookTested, errors=NOT_FOUND)
async def test_webhook(call: Call, id: FromPath[str]) -> Outcome:
    """Send a test and tell its outcome, also when the receiver fails. One key names one delivery."""
    stored = await answered(call, webhooks.look_at(call.project_id, id))
    if stored is not None:
        return stored
    found = await find(call, id)
    delivery = mark(call, "whd") or new_id("whd")
    attempt = await call.services.webhook_tester.test(found, delivery, call.principal.tenant)
    intent = webhooks.tested(call.project_id, found.row.id, delivered=attempt is not None and attempt.delivered)
    return await call.carry_out(intent, partial(_tested, found.row.id, delivery, attempt))


def _tested(webhook_id: str, delivery: str, attempt: AttemptOutcome | None, _: None) -> Answer:
    """Show an outcome. Without one the unit has refused before, unless a command was just looking at the webhook."""
    if attempt is None:
        raise too_many_tests(1)
    return Answer(200, webhooks.shown_test(webhook_id, delivery, attempt))


@groups.WEBHOOKS.post(ONE + "/rotate-secret", "Replace a webhook's secret and receive the new one once")
@Who(KEY, fresh=True)
@Fencing(idempotency="optional")
@Docs(wire.WebhookSecret, errors=(*NOT_FOUND, "service_unavailable"), extension=True)
async def rotate_webhook_secret(call: Call, id: FromPath[str]) -> Outcome:
    """Replace the secret. The one before signs beside it for a day (G-161)."""
    key = call.services.settings.encryption_key
    if key is None:
        raise no_key()
    found = await webhooks.find_webhook(call.services.store, call.project_id, id)
    facts = webhooks.WebhookFacts() if found is None else found.facts
    intent = webhooks.rotate_secret(call.project_id, id, key)
    return await call.carry_out(intent, partial(_rotated, facts, key))


def _rotated(facts: webhooks.WebhookFacts, key: bytes, done: webhooks.RotatedSecret) -> Answer:
    shown, stored = (webhooks.rotated(done, facts, key, raw=raw) for raw in (True, False))
    return Answer(200, shown, stored=stored)


def no_key() -> ServiceUnavailable:
    """The refusal of an installation that could not keep a secret."""
    return ServiceUnavailable(
        "Secrets of webhooks cannot be kept: no encryption key is configured.",
        next_action="Ask the operator to set SERVICE_ENCRYPTION_KEY.",
    )


async def find(call: Call, id: str) -> webhooks.StandingWebhook:
    """Read the webhook of the path. Raises WebhookNotFound."""
    found = await webhooks.find_webhook(call.services.store, call.project_id, id)
    if found is None:
        raise no_webhook()
    return found


async def judged_address(call: Call, url: str) -> webhooks.AddressChange:
    """Judge an address by the guard's rules. Raises InvalidPayload."""
    services = call.services
    reach = reach_of_webhooks(allow_private=services.settings.webhook_allow_private)
    reason = await services.guard.refusal(url, call.principal.tenant, reach)
    if reason is not None:
        raise InvalidPayload(
            "The address cannot be called.",
            invalid=[("url", reason)],
            schema=body_schema(call.operation.takes),
        )
    target = take_apart(url)
    return webhooks.AddressChange(url, f"{'https' if target.secure else 'http'}://{target.authority}")


def _names(call: Call, events: Sequence[str]) -> tuple[str, ...]:
    """Check the rule between the names. Raises InvalidPayload."""
    if len(set(events)) < len(events):
        reason = "must be unique"
    elif wire.STAR in events and len(events) > 1:
        reason = f"must hold {wire.STAR} alone or not at all"
    else:
        return tuple(events)
    raise InvalidPayload(
        "The events cannot be subscribed to.", invalid=[("events", reason)], schema=body_schema(call.operation.takes)
    )


# The kinds of deliveries at the edge, for everybody (G-091, G-160).

CACHED = {"cache-control": "public, max-age=300"}


@groups.WEBHOOKS.get("/v1/webhook-events", "List the kinds of deliveries with schema and example")
@Who(frozenset({PrincipalKind.ANONYMOUS}))
@Docs(wire.WebhookEventList, extension=True)
async def list_webhook_events() -> Answer:
    """List every kind of delivery."""
    return Answer(200, catalogue(), CACHED)


ENDPOINTS = [
    create_webhook,
    list_webhooks,
    get_webhook,
    change_webhook,
    delete_webhook,
    test_webhook,
    rotate_webhook_secret,
    list_webhook_events,
]
