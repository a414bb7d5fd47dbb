"""Background work of alerts: the schedule, and forgetting deleted ones (G-162)."""

from collections.abc import Mapping
from typing import Any

import structlog
from prometheus_client import Counter

from service.alerts import AlertSchedule
from service.eventstore.write.lane import forget
from service.services import Services, Task

log = structlog.get_logger(__name__)

EVALUATE = "alerts.evaluate"
LOOKED = Counter("service_alert_evaluations", "Scheduled evaluations of alerts, by how they ended.", ["outcome"])


async def evaluate(services: Services, _: Mapping[str, Any]) -> None:
    """Run the schedule once."""
    done = await AlertSchedule(services.store, services.queries).run()
    for outcome, number in done.items():
        LOOKED.labels(outcome).inc(number)
    if done:
        log.info("alerts_evaluated", **done)


async def forget_looks(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the looks at deleted alerts. Nobody adds to them."""
    await forget(services.settings.database_url, [("alert_looks", "due_at is null")], "alert_looks_forgotten")


TASKS = [
    Task(EVALUATE, evaluate, cron="* * * * *"),
    Task("alerts.forget_looks", forget_looks, cron="*/10 * * * *"),
]
