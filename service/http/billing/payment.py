"""Subscribing, the customer's portal, and what the payment provider tells (R-BILL-06 to R-BILL-10, G-073).

The provider is asked before the unit of work, which stores the answer under the key of the request. A repeat of a key
is the same request at the provider too.
"""

import hashlib
import ipaddress
from typing import Any
from urllib.parse import urlsplit

from litestar.di import NamedDependency
from litestar.params import JSONBody, RequestBody

from schemas import billing as wire
from schemas.kernel.published import body_schema
from service.auth.authority import carry_out
from service.auth.refusals import InvalidPayload, refusal
from service.billing import subscription, usage
from service.billing.payments import Page, read, whose
from service.billing.plans import AccountStanding, account_usage, held_by, larger_plan, month_named, month_of
from service.eventstore.connect.facts import DAY
from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.eventstore.read.reader import read_as
from service.fairness.turns import PAYMENTS
from service.http.body.gate import check_body, check_values
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.headers import head_of
from service.http.declare.operations import ANYONE, KEY

MOST_VALUES = 20_000
"""Of a notification: more than the provider's longest."""
SIGNATURE_HEADERS = frozenset({"provider-signature", "stripe-signature"})

AnyCall = Call


@groups.USAGE_BILLING.post("/v1/billing/checkout", "Get a link to subscribe your account to a plan")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.CheckoutStarted, errors=("payment_provider_unavailable",))
async def start_billing_checkout(call: Call, data: JSONBody[wire.CheckoutRequest]) -> Outcome:
    """Have the provider make a page for the account's person. Another plan replaces the one that the account has."""
    services = call.services
    after = _address(call, data, "success_url", data.success_url), _address(call, data, "cancel_url", data.cancel_url)
    terms = services.settings.terms
    held = await held_by(services.store, terms, call.user_id)
    if held.plan == data.plan:
        raise InvalidPayload(
            "The account has this plan already.",
            invalid=[("plan", "must be another plan than the account has")],
            schema=body_schema(wire.CheckoutRequest),
        )
    page = await services.payments.create_checkout(
        user_id=call.user_id,
        name=data.plan,
        plan=terms.plans[data.plan],
        customer_id=held.customer_id,
        after=after,
        key=_key(call),
    )
    return await call.carry_out(_known(page), lambda made: Answer(200, usage.checkout(data.plan, made)))


@groups.USAGE_BILLING.post("/v1/billing/portal", "Get a link to change or cancel your subscription")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.PortalStarted, errors=("payment_provider_unavailable",))
async def open_billing_portal(call: Call, data: JSONBody[wire.PortalRequest]) -> Outcome:
    """Have the provider open its page for the account's person."""
    services = call.services
    after = _address(call, data, "return_url", data.return_url)
    held = await held_by(services.store, services.settings.terms, call.user_id)
    page = await services.payments.create_portal(
        user_id=call.user_id, customer_id=held.customer_id, after=after, key=_key(call)
    )
    return await call.carry_out(_known(page), lambda made: Answer(200, usage.portal(made)))


@groups.USAGE_BILLING.post("/v1/billing/webhook", "Receive a notification of the payment provider")
@Who(ANYONE)
@Body(strict=False)
@Docs(wire.NotificationTaken, errors=("invalid_signature",))
async def receive_billing_webhook(call: Call, data: RequestBody[bytes]) -> Answer:
    """Check the signature over the bytes as they came, then record what they say of a subscription."""
    services, terms = call.services, call.services.settings.terms
    head = head_of(call.scope)
    given = [head.headers[name] for name in SIGNATURE_HEADERS if name in head.headers]
    if (
        len(given) != 1
        or head.repeated & SIGNATURE_HEADERS
        or not await services.payments.verify_signature(given[0], data)
    ):
        raise refusal("invalid_signature")
    read_as(PAYMENTS)
    body = _object(data)
    found = read(body, terms.plans)
    user_id = None if found is None else await whose(services.store, found)
    if found is None or user_id is None:
        return Answer(200, usage.notification(body, None, None))
    recorded = await carry_out(services.store, "payment provider", "tell", subscription.tell(user_id, found.said))
    held = None if recorded is None else await held_by(services.store, terms, user_id)
    return Answer(200, usage.notification(body, user_id, held))


def _object(raw: bytes) -> dict[str, Any]:
    """Parse a signed body. Raises InvalidPayload for anything but a JSON object."""
    check_values(raw, MOST_VALUES)
    value = check_body(raw)
    if not isinstance(value, dict):
        raise InvalidPayload("The body is not acceptable.", invalid=[("", "the body must be an object")])
    return value


def _known(page: Page) -> Intent[Page]:
    return Intent([], lambda _: page)


def _key(call: Call) -> str | None:
    """What makes a repeat the same request at the provider: it hears neither the client's key nor who has it."""
    if call.key is None:
        return None
    return hashlib.sha256(f"{call.user_id}\x00{call.key}\x00{call.request_hash}".encode()).hexdigest()


def _address(call: Call, data: wire.CheckoutRequest | wire.PortalRequest, field: str, given: str | None) -> str:
    """Where the person goes afterwards: what was given, else this service. Raises InvalidPayload (G-073)."""
    if given is None:
        return call.services.settings.base_url
    try:
        parts = urlsplit(given)
        _ = parts.port
        fit = parts.username is None and bool(parts.hostname) and given.isprintable() and " " not in given
        fit = fit and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.hostname or "")))
    except ValueError:
        fit = False
    if not fit:
        reason = "must be an https address, or http to loopback"
        raise InvalidPayload("An address cannot be used.", invalid=[(field, reason)], schema=body_schema(type(data)))
    return given


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# What an account has used, by month and by day and what it has (R-BILL-01 to R-BILL-05).


@groups.USAGE_BILLING.get("/v1/usage", "Read the usage of your account in a month")
@Who(KEY)
@Docs(wire.Usage)
async def get_usage(call: Call, params: NamedDependency[wire.UsageQuery]) -> Answer:
    """Show what the account's projects have sent, and how that stands against its plan."""
    standing = await _standing(call, params)
    return Answer(200, usage.usage(standing, _upgrade(call, standing)))


@groups.USAGE_BILLING.get("/v1/billing/status", "Read the plan, payment and quota of your account")
@Who(KEY)
@Docs(wire.BillingStatus)
async def get_billing_status(call: Call, params: NamedDependency[wire.UsageQuery]) -> Answer:
    """Show what the account has, how its payment stands, and how a month stands against its plan (R-BILL-05)."""
    terms, sold = call.services.settings.terms, call.services.payments.configured
    standing, held = await _standing(call, params), await held_by(call.services.store, terms, call.user_id)
    return Answer(200, usage.status(call.user_id, standing, held, _upgrade(call, standing), sold=sold))


async def _standing(call: Call, params: wire.UsageQuery) -> AccountStanding:
    """Judge the month that is asked for. Raises InvalidPayload for one that has not begun."""
    store = call.services.store
    now = await store.now()
    month = month_of(now) if params.period is None else month_named(params.period, now)
    if month is None:
        raise InvalidPayload("There is no such period yet.", invalid=[("period", "must be a month that has begun")])
    return await usage.standing_in(store, call.services.settings.terms, call.user_id, month, now)


def _upgrade(call: Call, standing: AccountStanding) -> wire.Upgrade:
    larger = larger_plan(call.services.settings.terms, standing.allowance.plan)
    return usage.upgrade(larger, sold=call.services.payments.configured)


@groups.USAGE_BILLING.get("/v1/usage/history", "Read the usage of your account by day")
@Who(KEY)
@Docs(wire.UsageHistory)
async def get_usage_history(call: Call, params: NamedDependency[wire.HistoryQuery]) -> Answer:
    """Show the last days, those on which nothing came included."""
    now = await call.services.store.now()
    today, days = now - now % DAY, params.days
    found = await account_usage(call.services.store, call.user_id, today - (days - 1) * DAY, today)
    return Answer(200, usage.history(days, today, found))


ENDPOINTS = [
    start_billing_checkout,
    open_billing_portal,
    receive_billing_webhook,
    get_usage,
    get_usage_history,
    get_billing_status,
]
