"""Background work: what packages declare, as tasks of the job library in the same PostgreSQL.

A package takes part by a module named `jobs` with `TASKS` (what can be run) and `REACTIONS` (which events defer a
job, by topic; see eventstore/reactor.py). A job only wakes: what is due is found by service_now() in our own tables,
so a job that runs twice, late or not at all does no harm that the next sweep does not mend.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import procrastinate
import psycopg
import structlog
from procrastinate.jobs import Status

import service
from service.eventstore.reactor import Job, Reaction
from service.services import Services

log = structlog.get_logger()

STALLED_SECONDS = 30.0  # without a heartbeat of its worker, a job counts as abandoned
FAILED_KEPT_HOURS = 24 * 7
CONNECTIONS = 4
LOCK = "procrastinate"  # prefix of queueing locks


class Task(NamedTuple):
    """Something that can run in the background.

    `name` is stored in job rows and never changes its meaning. `run` gets the services and the job's arguments, and
    raises to fail; `retry` is the library's strategy for that, None for no second try. With `cron` (five fields,
    UTC, real time) a worker defers it on schedule, at most one waiting at a time, with the argument `timestamp`.
    """

    name: str
    run: Callable[[Services, Mapping[str, Any]], Awaitable[None]]
    queue: str = "default"
    retry: procrastinate.BaseRetryStrategy | None = None
    cron: str | None = None


def declared() -> tuple[list[Task], dict[str, Reaction]]:
    """Collect tasks and reactions from the packages. Two tasks of one name are a bug that stops the start."""
    tasks: dict[str, Task] = {}
    reactions: dict[str, Reaction] = {}
    for module in _modules():
        for task in getattr(module, "TASKS", ()):
            assert task.name not in tasks, f"two tasks are named {task.name}"
            tasks[task.name] = task
        for topic, reaction in getattr(module, "REACTIONS", {}).items():
            assert topic not in reactions, f"two reactions to {topic}"
            reactions[topic] = reaction
    return list(tasks.values()), reactions


def job_app(services: Services, tasks: list[Task]) -> procrastinate.App:
    """Make the library's application, in which each task runs with `services`."""
    connector = procrastinate.PsycopgConnector(
        conninfo=services.settings.database_url,
        min_size=1,
        max_size=CONNECTIONS,
        kwargs={"application_name": "service-jobs"},
    )
    app = procrastinate.App(connector=connector, periodic_defaults={"max_delay": 90})
    for task in tasks:
        _register(app, services, task)

    async def tidy(timestamp: int) -> None:
        """Give jobs of killed workers back, and forget failures after a week."""
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS):
            log.warning("job_given_back", task=job.task_name, job=job.id, at=timestamp)
            await app.job_manager.retry_job(job)
        await app.job_manager.delete_old_jobs(
            nb_hours=FAILED_KEPT_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
        )

    app.periodic(cron="* * * * *", queueing_lock=f"{LOCK}:tidy")(app.task(name="jobs.tidy")(tidy))
    return app


async def defer(connection: psycopg.AsyncConnection[Any], job: Job) -> None:
    """Defer a job outside of the log (the test clock, an operator); one with `once` may be waiting already.

    The connection must be allowed to write. Not for commands: what history causes is a reaction.
    """
    await connection.execute(
        "select procrastinate_defer_jobs_v1(array[row(%s, %s, 0, null, %s, %s, null)::procrastinate_job_to_defer_v1]) "
        "where %s::text is null or not exists (select 1 from procrastinate_jobs where queueing_lock = %s and "
        "status = %s)",
        (
            job.queue,
            job.task,
            job.once,
            psycopg.types.json.Jsonb(dict(job.args)),
            job.once,
            job.once,
            Status.TODO.value,
        ),
    )


def _register(app: procrastinate.App, services: Services, task: Task) -> None:
    """Make a task known to the library."""

    async def run(**args: Any) -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(task=task.name)
        await task.run(services, args)

    known: Any = app.task(name=task.name, queue=task.queue, retry=task.retry or False)(run)
    if task.cron is not None:
        app.periodic(cron=task.cron, periodic_id=task.name, queueing_lock=f"{LOCK}:{task.name}")(known)


def _modules() -> Iterator[ModuleType]:
    """The modules named `jobs` of the packages in this room, at any depth."""
    for found in pkgutil.walk_packages(service.__path__, "service."):
        if found.name.endswith(".jobs"):
            yield importlib.import_module(found.name)
