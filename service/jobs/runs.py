"""Background work of automation: the minute sweep (G-119)."""

from collections.abc import Mapping
from typing import Any

import structlog

from service.runs.sweep import Sweep
from service.services import Services, Task

log = structlog.get_logger(__name__)

SWEEP = "automation.sweep"


async def sweep(services: Services, _: Mapping[str, Any]) -> None:
    """Sweep once. What a killed sweep left undone the next one finds again."""
    done = await Sweep(services.store, services.providers).run()
    if done:
        log.info("swept", **done)


TASKS = [Task(SWEEP, sweep, cron="* * * * *")]
