"""The payment provider: its official library, asked from threads, with deadlines and a bound (G-073).

Nothing here is in a transaction. The library is loaded with the first request, because most installations sell
nothing and it costs 27 MB. No key, secret, link or answer of the provider is logged: of a failure its class, its
status and the provider's code for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import structlog

from service.auth.refusals import Refusal
from service.billing.notifications import lookup_key
from service.billing.verify_signature import is_signed
from service.egress.lookups import OF_OPERATOR, Lookups, NameTooSlow
from service.fairness.not_done import ReadNotDone
from service.settings import Settings
from service.settingvalues import Plan

if TYPE_CHECKING:
    import stripe

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
        self._waiting = 0

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
        """Whether the provider has signed these bytes (G-073). Without a secret nothing is signed."""
        if self._secret is None or not header.isascii():
            return False
        library = await asyncio.to_thread(lambda: self._library)  # loading it takes a good part of a second
        return is_signed(library, self._secret, header, body)

    async def _ask(self, work: Callable[[stripe.StripeClient], T]) -> T:
        if self._key is None:
            raise PaymentProviderUnavailable("No payment provider is configured.", next_action=_NOT_CONFIGURED)
        await self._check_name()
        if self._waiting >= MOST_WAITING:
            raise PaymentProviderUnavailable
        self._waiting += 1
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
        self._waiting -= 1
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
