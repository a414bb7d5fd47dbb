"""Background work of billing: what is surplus at the payment provider ends there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.billing.settling import settle
from service.eventstore.history import StoredEvent
from service.eventstore.reactor import Job
from service.services import Services
from service.tasks import LOCK, Task
from statemachines.billing.subscription import SubscriptionActivated

SETTLE = "billing.settle"


async def settle_subscriptions(services: Services, _: Mapping[str, Any]) -> None:
    """Look once."""
    await settle(services.store, services.payments)


def wake(_: StoredEvent) -> Job:
    """A subscription has begun: another one may be surplus."""
    return Job(SETTLE, {}, once=f"{LOCK}:{SETTLE}")


TASKS = [Task(SETTLE, settle_subscriptions, cron="*/5 * * * *")]
REACTIONS = {SubscriptionActivated.TOPIC: wake}
