"""Background work of deletions: moved on at once after the fence, and by the minute until they have ended (G-119)."""

from collections.abc import Mapping
from typing import Any

import structlog

from service.billing.subscription import settle
from service.deletion.advancing import Advancer, sweep
from service.deletion.people import Eraser, sweep_erasures
from service.eventstore.log.reactor import Job
from service.eventstore.read.stored import LogEvent
from service.services import LOCK, Services, Task
from statemachines.deletion.erasure import ErasureFenced
from statemachines.deletion.removal import DeletionFenced

log = structlog.get_logger(__name__)

ADVANCE = "deletion.advance"


async def advance(services: Services, _: Mapping[str, Any]) -> None:
    """Sweep once. What a killed sweep left undone the next one finds again.

    Nobody is to pay for an account that goes: its subscriptions end first.
    """
    await settle(services.store, services.payments)
    ended = await sweep(services.store, Advancer(services.store, services.settings.erasure_ledger))
    ended += await sweep_erasures(services.store, Eraser.of(services.store, services.settings))
    if ended:
        log.info("deletions_ended", number=ended)


def wake(_: LogEvent) -> Job:
    """Go on with a deletion right after its fence."""
    return Job(ADVANCE, {}, once=f"{LOCK}:{ADVANCE}")


TASKS = [Task(ADVANCE, advance, cron="* * * * *")]
REACTIONS = {DeletionFenced.TOPIC: wake, ErasureFenced.TOPIC: wake}
