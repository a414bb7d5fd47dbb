"""The job library's application: runs each task with the services, and requeues the jobs of a killed worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, LiteralString

import procrastinate
import structlog
from procrastinate.exceptions import ConnectorException
from prometheus_client import Counter, Histogram

from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.declare.faults import is_away
from service.services import Services
from service.sql import load_query
from service.tasks import LOCK, Task

log = structlog.get_logger()

STALLED_SECONDS = 30.0  # without a heartbeat of its worker, a job counts as abandoned
FAILED_KEPT_HOURS = 24 * 7
CONNECTIONS = 4
AWAY_SECONDS = 900.0
"""Time of the retries of a job after failures for want of the database."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
WRITTEN_AGAIN = (0.1, 0.5, 2.0, 5.0)
"""Seconds before each repeated write of the end of a job."""

OUTCOMES = DONE, FAILED = "done", "failed"
RUNS = Counter("service_job_runs", "Jobs that workers ran, by task and outcome.", ["task", "outcome"])
SECONDS = Histogram("service_job_seconds", "Seconds that a job ran.", ["task"], buckets=(0.01, 0.1, 1, 5, 30, 120))

_NOTE_RUN = load_query("process", "note_run")


class JobConnector(procrastinate.PsycopgConnector):
    """The library's connections. The end of a job is written again after the loss of a connection.

    Without that, a job would never run again while its worker lives. A statement with rows, such as the next job, is
    not repeated: its first answer may be lost, and then the worker is given up with it.
    """

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        """Run a statement without rows. Raises ConnectorException."""
        for pause in (*WRITTEN_AGAIN, None):
            try:
                await super().execute_query_async(query, **arguments)
            except ConnectorException as error:
                cause = error.__cause__
                if pause is None or not isinstance(cause, Exception) or not is_away(cause):
                    raise
                await asyncio.sleep(pause)
            else:
                return


def job_app(services: Services, tasks: list[Task]) -> procrastinate.App:
    """Make the library's application, in which each task runs with `services`."""
    connector = JobConnector(
        conninfo=services.settings.database_url,
        min_size=1,
        max_size=CONNECTIONS,
        kwargs={"application_name": "service-jobs"},
    )
    app = procrastinate.App(connector=connector, periodic_defaults={"max_delay": 90})
    for task in tasks:
        _register(app, services, task)

    async def tidy(timestamp: int) -> None:
        """Requeue the jobs of killed workers, and delete failures after a week."""
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=STALLED_SECONDS):
            await _give_back(app, job, timestamp)
        await app.job_manager.delete_old_jobs(
            nb_hours=FAILED_KEPT_HOURS, include_failed=True, include_cancelled=True, include_aborted=True
        )

    app.periodic(cron="* * * * *", queueing_lock=f"{LOCK}:tidy")(app.task(name="jobs.tidy")(tidy))
    return app


async def _give_back(app: procrastinate.App, job: procrastinate.jobs.Job, timestamp: int) -> None:
    """Let the job of a killed worker wait again, or end it when another one of its lock waits already."""
    try:
        await app.job_manager.retry_job(job)
    except procrastinate.exceptions.UniqueViolation:
        log.info("job_superseded", task=job.task_name, job=job.id)
        await app.job_manager.finish_job(job, status=procrastinate.jobs.Status.FAILED, delete_job=True)
    else:
        log.warning("job_given_back", task=job.task_name, job=job.id, at=timestamp)


async def _note(services: Services, task: Task, seconds: float) -> None:
    """Note that a scheduled task ran to its end, for whoever watches the service."""
    try:
        async with services.store.facts.connection() as connection:
            await connection.execute(_NOTE_RUN, {"task": task.name, "seconds": seconds})
    except NOT_WRITTEN as error:
        log.warning("run_not_noted", error=type(error).__name__)


async def _run(services: Services, task: Task, args: Mapping[str, Any]) -> None:
    """Run a task, again and again while the database is away, for AWAY_SECONDS at most. Raises as the task.

    It keeps its job meanwhile. Given back, a job with a queueing lock would meet the next of its kind.
    """
    give_up, pause = time.monotonic() + AWAY_SECONDS, FIRST_PAUSE
    while True:
        try:
            return await task.run(services, args)
        except Exception as error:
            if not is_away(error) or time.monotonic() >= give_up:
                raise
            log.info("job_waits_for_the_database", error=type(error).__name__)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _register(app: procrastinate.App, services: Services, task: Task) -> None:
    """Register a task with the library."""
    for outcome in OUTCOMES:
        RUNS.labels(task.name, outcome)  # from 0 on: an increase is seen only in a counter that was there before

    async def run(**args: Any) -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(task=task.name)
        began = time.monotonic()
        outcome = FAILED
        try:
            await _run(services, task, args)
            outcome = DONE
        finally:
            seconds = time.monotonic() - began
            RUNS.labels(task.name, outcome).inc()
            SECONDS.labels(task.name).observe(seconds)
        if task.cron is not None:
            await _note(services, task, seconds)

    known: Any = app.task(name=task.name, queue=task.queue, retry=task.retry or False)(run)
    if task.cron is not None:
        app.periodic(cron=task.cron, periodic_id=task.name, queueing_lock=f"{LOCK}:{task.name}")(known)
