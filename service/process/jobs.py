"""The job library's application: runs each task with the services, and requeues the jobs of a killed worker."""

from __future__ import annotations

import time
from typing import Any

import procrastinate
import structlog
from prometheus_client import Counter, Histogram

from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.declare.sqlfiles import load_sql
from service.services import Services
from service.tasks import LOCK, Task

log = structlog.get_logger()

STALLED_SECONDS = 30.0  # without a heartbeat of its worker, a job counts as abandoned
FAILED_KEPT_HOURS = 24 * 7
CONNECTIONS = 4

OUTCOMES = DONE, FAILED = "done", "failed"
RUNS = Counter("service_job_runs", "Jobs that workers ran, by task and outcome.", ["task", "outcome"])
SECONDS = Histogram("service_job_seconds", "Seconds that a job ran.", ["task"], buckets=(0.01, 0.1, 1, 5, 30, 120))

_NOTE_RUN = load_sql("process", "note_run")


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
            await connection.execute(_NOTE_RUN.encode(), {"task": task.name, "seconds": seconds})
    except NOT_WRITTEN as error:
        log.warning("run_not_noted", error=type(error).__name__)


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
            await task.run(services, args)
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
