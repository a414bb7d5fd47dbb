"""The payment provider: asked from threads with deadlines, and what its notifications say (G-073).

Nothing here is in a transaction. The library is loaded with the first request, because most installations sell
nothing and it costs 27 MB. No key, secret, link or answer of the provider is logged: of a failure its class, its
status and the provider's code for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import structlog

from projections.accounts import PEOPLE
from projections.billing import SUBSCRIPTIONS
from service.auth.refusals import Refusal, require_extra
from service.egress.lookups import OF_OPERATOR, Lookups, NameTooSlow
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import NOBODY, ReadNotDone
from service.release import missing
from service.settings import Settings
from service.settingvalues import FREE_PLAN, Plan
from statemachines.billing import BEFORE_ALL, Moment, Notification, Standing

if TYPE_CHECKING:
    import stripe


# Whether the payment provider has signed what came in its name (G-073).

TOLERANCE_SECONDS: Final = 300


def is_signed(library: Any, secret: str, header: str, body: bytes) -> bool:
    """Whether the bytes are signed with the secret, within five minutes of now by the real clock (G-073, G-120).

    The comparison takes the same time whatever is wrong. `library` is the provider's own, loaded.
    """
    try:
        # What Webhook.construct_event does before it parses; the edge parses, with its own bounds.
        library.WebhookSignature.verify_header(body, header, secret, TOLERANCE_SECONDS)
    except (library.SignatureVerificationError, UnicodeDecodeError):
        return False
    # The library lets the time of a signature lie ahead as far as it likes.
    [moment, *_] = (int(part[2:]) for part in header.split(",") if part.startswith("t="))
    return moment <= time.time() + TOLERANCE_SECONDS


# What the payment provider tells, in the words of the machine, and whom it is about (R-BILL-10, G-073). A provider's
# account may sell other things too, and its notifications may be of any kind: what is not about a plan of this service
# is acknowledged, and nothing is done.

CHECKOUT = "checkout.session.completed"
RANKS: Mapping[str, int] = {
    "customer.subscription.created": 0,
    "customer.subscription.updated": 1,
    "customer.subscription.paused": 1,
    "customer.subscription.resumed": 1,
    "customer.subscription.trial_will_end": 1,
    "customer.subscription.deleted": 2,
}
"""Types about a subscription, in the order in which they can happen within a second."""
SEEN_RANK = min(RANKS.values()) - 1
_STANDINGS: Mapping[str, Standing] = {
    "active": Standing.ACTIVE,
    "trialing": Standing.ACTIVE,
    "past_due": Standing.PAST_DUE,
    "unpaid": Standing.SUSPENDED,
    "paused": Standing.SUSPENDED,
    "canceled": Standing.CANCELED,
    "incomplete_expired": Standing.CANCELED,
}
"""By the provider's word; what is `incomplete` has not begun."""
_PAID = frozenset({"paid", "no_payment_required"})
_MOST_TEXT = 255
_MOST_SECONDS = 1 << 40


class ReadNotification(NamedTuple):
    """A notification about a plan of this service; `user_id` is who it says that it is about."""

    said: Notification
    user_id: str | None


def read(body: Mapping[str, Any], plans: Mapping[str, Plan]) -> ReadNotification | None:
    """Read a notification; None for one that says nothing about a plan of this service."""
    kind, happened = body.get("type"), _dict(body.get("data"))
    about, id_, created = _dict(happened.get("object")), _text(body.get("id")), _seconds(body.get("created"))
    if id_ is None or created is None:
        return None
    if kind == CHECKOUT:
        return _checkout(about, plans)
    if not isinstance(kind, str) or kind not in RANKS:
        return None
    told = Moment(created, RANKS[kind], id_)
    return _subscription(about, plans, told, ended=kind == "customer.subscription.deleted")


def read_seen(about: Any, plans: Mapping[str, Plan], seen_at: int) -> ReadNotification | None:
    """Read a subscription as the provider shows it; None for one that has no plan of this service.

    `seen_at` (the provider's epoch seconds): whatever was told of it since then is later than what is seen.
    """
    return _subscription(_dict(about), plans, Moment(seen_at, SEEN_RANK, ""), ended=False)


def _checkout(session: Mapping[str, Any], plans: Mapping[str, Plan]) -> ReadNotification | None:
    metadata = _dict(session.get("metadata"))
    subscription, customer = _id_of(session.get("subscription")), _id_of(session.get("customer"))
    plan = _plan_named(metadata.get("plan"), plans)
    if subscription is None or customer is None or plan is None or _text(session.get("payment_status")) not in _PAID:
        return None
    user_id = _text(metadata.get("user_id")) or _text(session.get("client_reference_id"))
    return ReadNotification(Notification(subscription, customer, Standing.PAID, plan, None, BEFORE_ALL), user_id)


def _subscription(
    about: Mapping[str, Any], plans: Mapping[str, Plan], told: Moment, *, ended: bool
) -> ReadNotification | None:
    subscription, customer = _id_of(about.get("id")), _id_of(about.get("customer"))
    status = about.get("status")
    standing = Standing.CANCELED if ended else _STANDINGS.get(status) if isinstance(status, str) else None
    items = _dict(about.get("items")).get("data")
    item = next((item for item in map(_dict, items) if _plan_of(item, plans)), {}) if isinstance(items, list) else {}
    metadata = _dict(about.get("metadata"))
    plan = _plan_of(item, plans) or _plan_named(metadata.get("plan"), plans)
    if subscription is None or customer is None or standing is None:
        return None
    if plan is None and standing is not Standing.CANCELED:
        return None
    until = _seconds(item.get("current_period_end"))  # on the subscription itself in older versions of the API
    until = _seconds(about.get("current_period_end")) if until is None else until
    said = Notification(subscription, customer, standing, plan or "", until, told)
    return ReadNotification(said, _text(metadata.get("user_id")))


def _plan_of(item: Mapping[str, Any], plans: Mapping[str, Plan]) -> str | None:
    """The plan that a price of the provider stands for: what the price says itself, else its lookup key.

    Prices of earlier releases have the name of the plan as their key.
    """
    price = _dict(item.get("price"))
    key = price.get("lookup_key")
    by_key = next((name for name in plans if key in {name, lookup_key(name)}), None) if isinstance(key, str) else None
    return _plan_named(_dict(price.get("metadata")).get("plan"), plans) or _plan_named(by_key, plans)


def lookup_key(plan: str) -> str:
    """The key of a plan's monthly price: one of ours, which nothing else in the provider's account has by chance."""
    return f"service_{plan}_month"


def _plan_named(name: Any, plans: Mapping[str, Plan]) -> str | None:
    return name if isinstance(name, str) and name in plans and name != FREE_PLAN else None


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _MOST_TEXT and value.isprintable() else None


def _id_of(value: Any) -> str | None:
    """An object's id, where the provider gives either it or the object."""
    return _text(value.get("id") if isinstance(value, dict) else value)


def _seconds(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_SECONDS else None


async def whose(store: EventStore, found: ReadNotification) -> str | None:
    """Find the account that a notification is about; None for nobody's.

    What is known of the subscription goes first, then what the provider was given to remember, then the customer.
    """
    for where, value in (
        ("t.subscription_id = %s", found.said.subscription_id),
        (None, found.user_id),
        ("t.customer_id = %s", found.said.customer_id),
    ):
        if where is not None:
            rows = await store.find(SUBSCRIPTIONS, where, value, limit=1)
            if rows:
                return rows[0].project_id
        elif value is not None and await store.get(PEOPLE, value, value) is not None:
            return value
    return None


# The payment provider: its official library, asked from threads, with deadlines and a bound (G-073).

log = structlog.get_logger(__name__)

T = TypeVar("T")

THREADS: Final = 4
MOST_WAITING: Final = 16
"""Requests of a process that may be under way or wait for a thread; one more is refused."""
CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 8.0
DEADLINE_SECONDS: Final = 15.0
"""For all requests of one operation; the thread ends by the two above."""
PAGE: Final = 100
"""Subscriptions of a page, the most that the provider gives."""
SETTLING_SECONDS: Final = 15
"""By so much what is read there counts as older than its answer says: longer than a request may take."""
CURRENCY: Final = "usd"
PRODUCT: Final = "service_plan"
"""The member of a product's metadata that names its plan."""
_KEY = (
    "Ask the operator to set SERVICE_PAYMENT_API_KEY to a key that is valid and may write prices, checkout sessions, "
    "customers and portal sessions."
)
_NO_PORTAL = "Ask the operator to activate the customer portal in the settings of the payment provider."
_SEE_LOG = "Ask the operator to look at payment_provider_failed in the log of the service."
_NOT_CONFIGURED = "Set SERVICE_PAYMENT_API_KEY (and SERVICE_PAYMENT_WEBHOOK_SECRET) where the service runs."


class PaymentProviderUnavailable(Refusal):
    """The provider is not configured, does not answer, or refuses what the service asks of it."""

    code = "payment_provider_unavailable"


class PaymentProviderRefuses(PaymentProviderUnavailable):
    """The provider answers, and will refuse the same again, until the operator has changed something."""

    final = True


class Page(NamedTuple):
    """A page of the provider for one person: its id, its address, and the price that it is about, if any."""

    session_id: str
    url: str
    price_id: str


class SeenSubscriptions(NamedTuple):
    """A page of the provider's subscriptions, the newest first, as it shows them.

    `at`: everything that had happened by then is in it, in the provider's epoch seconds. `last_id` is where the next
    page goes on; None when there is none.
    """

    subscriptions: list[Any]
    at: int
    last_id: str | None


class Payments:
    """The provider as one process speaks to it."""

    def __init__(self, settings: Settings, lookups: Lookups | None = None) -> None:
        self._lookups = lookups or Lookups()
        self._key = settings.payment_api_key
        self._base = settings.payment_api_base
        self._secret = settings.payment_webhook_secret
        places = FairBounds(SHARE.of(MOST_WAITING))
        self._waiting = FairSemaphore(places, refuse=lambda _, __: PaymentProviderUnavailable())

    @property
    def configured(self) -> bool:
        """Whether anything can be sold."""
        return self._key is not None

    async def create_checkout(
        self, *, user_id: str, name: str, plan: Plan, customer_id: str | None, after: tuple[str, str], key: str | None
    ) -> Page:
        """Open a page on which a person subscribes to the plan called `name`.

        `after` are the addresses of success and of giving up. Whoever repeats a `key` gets the same page. Raises
        PaymentProviderUnavailable.
        """
        success, cancel = after
        metadata = {"user_id": user_id, "plan": name}

        def ask(client: stripe.StripeClient) -> Page:
            price = _price(client, name, plan)
            params: Any = {
                "mode": "subscription",
                "line_items": [{"price": price, "quantity": 1}],
                "success_url": success,
                "cancel_url": cancel,
                "client_reference_id": user_id,
                "metadata": metadata,
                "subscription_data": {"metadata": metadata},
            }
            if customer_id is not None:
                params["customer"] = customer_id
            session = client.v1.checkout.sessions.create(params, _options(key, "checkout"))
            return Page(session.id, session.url or "", price)

        return await self._ask(ask)

    async def create_portal(self, *, user_id: str, customer_id: str | None, after: str, key: str | None) -> Page:
        """Open the page of a customer; who is none yet becomes one. Raises PaymentProviderUnavailable."""

        def ask(client: stripe.StripeClient) -> Page:
            customer = customer_id
            if customer is None:
                new: Any = {"metadata": {"user_id": user_id}}
                customer = client.v1.customers.create(new, _options(user_id, "customer")).id
            params: Any = {"customer": customer, "return_url": after}
            try:
                session = client.v1.billing_portal.sessions.create(params, _options(key, "portal"))
            except self._library.InvalidRequestError as error:
                if error.code is not None:
                    raise
                _log(error)
                raise PaymentProviderRefuses(
                    "The payment provider opens no page for customers.", next_action=_NO_PORTAL
                ) from None
            return Page(session.id, session.url, "")

        return await self._ask(ask)

    async def cancel(self, subscription_id: str) -> None:
        """End a subscription at once, with what was paid too much credited. Raises PaymentProviderUnavailable.

        One that has ended, or is not known there, is no failure.
        """

        def ask(client: stripe.StripeClient) -> None:
            try:
                client.v1.subscriptions.cancel(subscription_id, {"prorate": True})
            except self._library.InvalidRequestError as error:
                if error.code != "resource_missing":
                    raise

        await self._ask(ask)

    async def list_subscriptions(self, after: str | None) -> SeenSubscriptions | None:
        """Read a page of all subscriptions there, the ended ones too: those made before the one with the id `after`.

        None when the provider does not know that one. Raises PaymentProviderUnavailable.
        """
        wanted: dict[str, Any] = {"status": "all", "limit": PAGE}
        wanted |= {} if after is None else {"starting_after": after}

        def ask(client: stripe.StripeClient) -> SeenSubscriptions | None:
            try:
                answer = client.raw_request("get", "/v1/subscriptions", **wanted)
            except self._library.InvalidRequestError as error:
                if after is not None and error.code == "resource_missing":
                    return None
                raise
            try:
                return _seen(answer.data, answer.headers["date"])
            except (LookupError, TypeError, ValueError):
                raise PaymentProviderUnavailable("The answer of the payment provider is not a page.") from None

        return await self._ask(ask)

    async def verify_signature(self, header: str, body: bytes) -> bool:
        """Whether the provider has signed these bytes (G-073). Without a secret nothing is signed.

        Raises ExtraMissing without the provider's library.
        """
        if self._secret is None or not header.isascii():
            return False
        require_extra("stripe")
        library = await asyncio.to_thread(lambda: self._library)  # loading it takes a good part of a second
        return is_signed(library, self._secret, header, body)

    async def _ask(self, work: Callable[[stripe.StripeClient], T]) -> T:
        if self._key is None:
            raise PaymentProviderUnavailable("No payment provider is configured.", next_action=_NOT_CONFIGURED)
        if (line := missing("stripe")) is not None:
            raise PaymentProviderRefuses("Payments need the extra `stripe`, and it is not installed.", next_action=line)
        await self._check_name()
        self._waiting.take(NOBODY)
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._guarded, work)
        # A thread that is given up keeps its place until it has ended.
        future.add_done_callback(self._freed)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await asyncio.shield(future)
        except TimeoutError:
            log.warning("payment_provider_too_slow", seconds=DEADLINE_SECONDS)
            raise PaymentProviderUnavailable("The payment provider did not answer in time.") from None

    async def _check_name(self) -> None:
        """Look the name of the provider up before a thread is taken. Raises PaymentProviderUnavailable when it is late.

        A name without addresses is left to the library. A proxy may know it.
        """
        try:
            await self._lookups.find(OF_OPERATOR, urlsplit(self._base).hostname or "")
        except (NameTooSlow, ReadNotDone):
            log.warning("payment_provider_name_too_slow")
            raise PaymentProviderUnavailable("The name of the payment provider was not found in time.") from None

    def _freed(self, future: asyncio.Future[Any]) -> None:
        self._waiting.leave(NOBODY)
        if not future.cancelled():
            future.exception()  # heard, also when nobody waits any more

    def _guarded(self, work: Callable[[stripe.StripeClient], T]) -> T:
        """Run in a thread: what the provider or the way there does wrong is one refusal."""
        try:
            return work(self._client)
        except self._library.StripeError as error:
            _log(error)
            refused = self._refusal_of(error)
        raise refused

    def _refusal_of(self, error: stripe.StripeError) -> Refusal:
        """Tell lasting failures from passing ones."""
        if isinstance(error, (self._library.AuthenticationError, self._library.PermissionError)):
            return PaymentProviderRefuses("The payment provider refuses the key of the service.", next_action=_KEY)
        if isinstance(error, self._library.InvalidRequestError):
            return PaymentProviderRefuses("The payment provider refuses the request.", next_action=_SEE_LOG)
        return PaymentProviderUnavailable()

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS, "payments")

    @cached_property
    def _library(self) -> Any:
        import stripe  # noqa: PLC0415 - see the module's docstring

        # It logs what it sends, and the provider's own words, which may repeat a key.
        logging.getLogger("stripe").setLevel(logging.CRITICAL + 1)
        return stripe

    @cached_property
    def _client(self) -> stripe.StripeClient:
        assert self._key is not None
        made: stripe.StripeClient = self._library.StripeClient(
            self._key,
            base_addresses={"api": self._base},
            http_client=self._library.RequestsClient(timeout=(CONNECT_SECONDS, READ_SECONDS)),
            max_network_retries=0,
        )
        return made


def _price(client: stripe.StripeClient, name: str, plan: Plan) -> str:
    """Find the provider's monthly price of a plan by its lookup key, or make it: plans are configured here alone."""
    key = lookup_key(name)
    wanted: Any = {"lookup_keys": [key], "active": True, "limit": 10, "expand": ["data.product"]}
    for price in client.v1.prices.list(wanted).data:
        if _sells(price, name, plan):
            return str(price.id)
    new: Any = {
        "currency": CURRENCY,
        "unit_amount": plan.price_cents,
        "recurring": {"interval": "month"},
        "product_data": {"name": name.capitalize(), "metadata": {PRODUCT: name}},
        "lookup_key": key,
        "transfer_lookup_key": True,
        "metadata": {"plan": name},
    }
    return client.v1.prices.create(new, _options(f"{key}:{plan.price_cents}", "price")).id


def _sells(price: Any, name: str, plan: Plan) -> bool:
    """Whether a price is that of a plan: its amount, each month, for a product that this service has made."""
    recurring, product = getattr(price, "recurring", None), getattr(price, "product", None)
    of_product = getattr(product, "metadata", None)
    return (
        (price.unit_amount, price.currency) == (plan.price_cents, CURRENCY)
        and (getattr(recurring, "interval", None), getattr(recurring, "interval_count", 1)) == ("month", 1)
        and getattr(product, "active", False) is True
        and getattr(of_product, PRODUCT, None) == name
    )


def _log(error: stripe.StripeError) -> None:
    log.warning("payment_provider_failed", error=type(error).__name__, status=error.http_status, code=error.code)


def _seen(page: Any, answered_at: str) -> SeenSubscriptions:
    """Read a page. Raises LookupError, TypeError and ValueError for what is none."""
    last = str(page["data"][-1]["id"]) if page["has_more"] else None
    return SeenSubscriptions(
        list(page["data"]), int(parsedate_to_datetime(answered_at).timestamp()) - SETTLING_SECONDS, last
    )


def _options(key: str | None, purpose: str) -> Any:
    """What makes a repeat of a request the same request at the provider."""
    return {} if key is None else {"idempotency_key": f"service-{purpose}-{key}"}
