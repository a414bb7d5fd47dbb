"""Background work of billing: what is surplus at the payment provider ends there, what it told in vain is read."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter

from service.billing.subscription import reconcile, settle
from service.eventstore.log.reactor import Job
from service.eventstore.read.stored import LogEvent
from service.services import LOCK, Services, Task
from statemachines.billing import SubscriptionActivated

SETTLE = "billing.settle"
RECONCILE = "billing.reconcile"
READ = Counter("service_subscriptions_read", "Subscriptions that were read at the payment provider.")
CORRECTED = Counter(
    "service_subscriptions_corrected", ("Subscriptions that differed from those of the payment provider.")
)


async def settle_subscriptions(services: Services, _: Mapping[str, Any]) -> None:
    """Look once."""
    await settle(services.store, services.payments)


async def reconcile_subscriptions(services: Services, _: Mapping[str, Any]) -> None:
    """Look once, and count what was found."""
    look = await reconcile(services.store, services.payments, services.settings.plans)
    READ.inc(look.read)
    CORRECTED.inc(look.corrected)


def wake(_: LogEvent) -> Job:
    """A subscription has begun: another one may be surplus."""
    return Job(SETTLE, {}, once=f"{LOCK}:{SETTLE}")


TASKS = [
    Task(SETTLE, settle_subscriptions, cron="*/5 * * * *"),
    Task(RECONCILE, reconcile_subscriptions, cron="*/10 * * * *"),
]
REACTIONS = {SubscriptionActivated.TOPIC: wake}
