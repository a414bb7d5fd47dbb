"""The worker: numbers and signs the log, reacts to it, runs jobs, and delivers to webhooks.

Any number may run: the sequencer, the notary and the reactor take turns, jobs are fetched one by one, and scheduled
ones are deferred once. It may be killed at any time; what it had begun is done again by the next one.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, LiteralString

import procrastinate
import psycopg
import structlog
from procrastinate.exceptions import ConnectorException
from prometheus_client import Counter, Histogram
from psycopg_pool import PoolTimeout

from service.billing.plans import Retention, retention
from service.copy.shipping import Shipper
from service.egress.guard import CALLERS, OPERATOR
from service.eventstore.connect.connection import FULL_DISK, OUTAGE, WatchedConnection
from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.declare.faults import is_away
from service.eventstore.log.reactor import Reactor, Repeating
from service.eventstore.log.sequencer import Sequencer
from service.jobs import declared
from service.logs import configure
from service.process.assembly import make_services
from service.process.beats import beating
from service.process.selfreports import reporter_of
from service.services import LOCK, Services, Task
from service.settings import Settings, load_settings
from service.sql import load_query
from service.tlog.notes import BadPolicy, parse_policy
from service.tlog.signing import Notary, Signer
from service.tlog.tree import CheckpointFile
from service.webhooks.delivering import Deliverer
from service.webhooks.queueing import OutboxReader
from service.witness.asking import Asker, witnesses_of

# The job library's application: runs each task with the services, and requeues the jobs of a killed worker.

log = structlog.get_logger()

STALLED_SECONDS = 30.0  # without a heartbeat of its worker, a job counts as abandoned
FAILED_KEPT_HOURS = 24 * 7
CONNECTIONS = 4
AWAY_SECONDS = 900.0
"""Time of the retries of a job after failures for want of the database."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
GIVES_WAY = 5  # how nice it is: callers wait for the API, and nobody for a moment of this
WRITTEN_AGAIN = (0.1, 0.5, 2.0, 5.0)
"""Seconds before each repeated write of the end of a job."""

OUTCOMES = DONE, FAILED = "done", "failed"
RUNS = Counter("service_job_runs", "Jobs that workers ran, by task and outcome.", ["task", "outcome"])
SECONDS = Histogram("service_job_seconds", "Seconds that a job ran.", ["task"], buckets=(0.01, 0.1, 1, 5, 30, 120))

_NOTE_RUN = load_query("process", "note_run")


class JobConnector(procrastinate.PsycopgConnector):
    """The library's connections. The end of a job is written again after the loss of a connection.

    A commit in doubt counts as one. Without that, a job would never run again while its worker lives. A statement with
    rows, such as the next job, is not repeated: its first answer may be lost, and then the worker is given up with it.
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
        connection_class=WatchedConnection,
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


CONCURRENCY = 8
STOP_SECONDS = 1.5  # running jobs get this long; then they are abandoned and run again later
AGAIN_SECONDS = 1.0
ABORT_POLL = 60.0  # seconds between looks of the library for jobs to be aborted: nobody aborts one
PLANS_SECONDS = 4.0


async def run(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    tasks, reactions = declared()
    deliver = Deliverer
    async with AsyncExitStack() as stack:
        if settings.traces_url is not None:
            from service.process import tracing  # noqa: PLC0415 - it loads the library of an extra

            await stack.enter_async_context(tracing.tracing(settings.traces_url, "worker"))
            tasks, deliver = [tracing.traced_task(task) for task in tasks], tracing.TracedDeliverer
        services = await _start(settings, stopping)
        if services is None:
            return
        stack.push_async_callback(_close, services)
        url = settings.database_url
        deliverer = deliver(settings, services.store, services.guard)
        wake_deliverer = partial(asyncio.get_running_loop().call_soon_threadsafe, deliverer.wake)
        tailing = (Notary(url, _signer(settings)), Reactor(url, reactions), OutboxReader(url, wake_deliverer))
        for thread in (*tailing, Sequencer(url, partial(_wake, tailing))):
            thread.start()
            stack.callback(thread.stop)
        if (shipper := _shipper(settings, services)) is not None:
            shipper.start()
            stack.callback(shipper.stop)
        if (asker := _asker(settings, services)) is not None:
            stack.push_async_callback(_end, asyncio.create_task(asker.run()))
        deliveries = asyncio.create_task(deliverer.run())
        stack.push_async_callback(_end, deliveries)
        log.info("working", tasks=len(tasks), reactions=len(reactions))
        await stack.enter_async_context(beating("worker"))
        while not stopping.is_set():
            jobs = asyncio.create_task(run_jobs(job_app(services, tasks)))
            signalled = asyncio.create_task(stopping.wait())
            await asyncio.wait({jobs, signalled}, return_when=asyncio.FIRST_COMPLETED)
            signalled.cancel()
            await _end(jobs)
            if not stopping.is_set():
                await asyncio.sleep(AGAIN_SECONDS)
    log.info("stopped")


def _wake(tailing: Iterable[Repeating]) -> None:
    """Let the readers of the log look at it now."""
    for one in tailing:
        one.wake()


def _signer(settings: Settings) -> Signer:
    """The keys for signing the log."""
    assert settings.signing_key is not None, "a process that serves has every secret"
    return Signer(settings.signing_key, CheckpointFile(settings.erasure_ledger), settings.signing_key_before)


def _shipper(settings: Settings, services: Services) -> Shipper | None:
    """Return the thread that copies telemetry. None without a copy (G-200)."""
    if settings.clickhouse_url is None:
        return None
    loop = asyncio.get_running_loop()

    def kept() -> Retention:
        reading = asyncio.run_coroutine_threadsafe(retention(services.store, settings.terms), loop)
        return reading.result(PLANS_SECONDS)

    return Shipper(settings.database_url, settings.clickhouse_url, kept)


def _asker(settings: Settings, services: Services) -> Asker | None:
    """Return the client of our witnesses. None without a policy. An unreadable one is an error in the log."""
    if settings.witness_policy is None:
        return None
    try:
        policy = parse_policy(settings.witness_policy.read_bytes())
    except (OSError, BadPolicy) as error:
        log.error("witness_policy_unreadable", path=str(settings.witness_policy), reason=str(error))  # noqa: TRY400
        return None
    reach = OPERATOR if settings.witness_allow_private else CALLERS
    return Asker(services.store, services.guard, reach, witnesses_of(policy))


async def _end(jobs: asyncio.Task[None]) -> None:
    """Cancel jobs or deliveries until they stop: a task that opens its connections can swallow a cancellation."""
    while not jobs.done():
        jobs.cancel()
        await asyncio.wait({jobs}, timeout=STOP_SECONDS + 0.5)
    with suppress(asyncio.CancelledError):
        jobs.result()


async def _start(settings: Settings, stopping: asyncio.Event) -> Services | None:
    """Start the parts as soon as the database accepts connections; None when the process has to end before that."""
    while not stopping.is_set():
        services = make_services(settings)
        try:
            await services.store.start()
        except (psycopg.OperationalError, PoolTimeout) as error:
            OUTAGE.began(error)
            await _close(services)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), AGAIN_SECONDS)
        else:
            return services
    return None


async def _close(services: Services) -> None:
    """Close the parts, started or not."""
    await services.store.stop()


async def run_jobs(app: procrastinate.App) -> None:
    """Run jobs until cancelled, or until the database is gone."""
    try:
        async with app.open_async():
            await app.run_worker_async(
                concurrency=CONCURRENCY,
                abort_job_polling_interval=ABORT_POLL,
                install_signal_handlers=False,
                delete_jobs="successful",
                shutdown_graceful_timeout=STOP_SECONDS,
            )
    except (ConnectorException, psycopg.OperationalError, PoolTimeout) as error:
        if not FULL_DISK.met(error):
            OUTAGE.began(error)


def main() -> None:
    """Work until SIGTERM or SIGINT."""
    settings = load_settings()
    configure(settings.log_level, "worker", reporter_of(settings))
    os.nice(GIVES_WAY)
    asyncio.run(run(settings))
