"""Background work of cases: a new rule is applied to those that are there already (G-053); uploads are forgotten."""

from collections.abc import Mapping
from typing import Any

import procrastinate
import structlog

from service.cases.sourcemaps import blobs
from service.cases.suppression import apply_rules
from service.eventstore.log.reactor import Job
from service.eventstore.read.stored import LogEvent
from service.services import Services, Task
from statemachines.cases.suppression import SuppressionCreated
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

log = structlog.get_logger(__name__)

APPLY = "cases.apply_rules"


async def apply(services: Services, args: Mapping[str, Any]) -> None:
    """Apply the rules of a project. A project that goes away meanwhile has nothing left to steer."""
    try:
        applied = await apply_rules(services.store, args["project_id"])
    except (ProjectNotFound, ProjectDeletionInProgress):
        return
    if applied:
        log.info("rules_applied", cases=applied)


async def forget_uploads(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the bytes of source maps that nothing keeps."""
    await blobs.forget_uploads(services.settings.database_url)


def on_rule(event: LogEvent) -> Job:
    """A rule was made: one job for each project waits at a time, and sees all rules there are when it runs."""
    return Job(APPLY, {"project_id": event.project_id}, once=f"{APPLY}:{event.project_id}")


TASKS = [
    Task(APPLY, apply, retry=procrastinate.RetryStrategy(max_attempts=5, exponential_wait=2)),
    Task("cases.forget_uploads", forget_uploads, cron="*/10 * * * *"),
]
REACTIONS = {SuppressionCreated.TOPIC: on_rule}
