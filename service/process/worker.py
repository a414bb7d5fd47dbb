"""The worker: numbers and signs the log, reacts to it, runs jobs, and delivers to webhooks.

Any number may run: the sequencer, the notary and the reactor take turns, jobs are fetched one by one, and scheduled
ones are deferred once. It may be killed at any time; what it had begun is done again by the next one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from functools import partial

import procrastinate
import psycopg
import structlog
from procrastinate.exceptions import ConnectorException
from psycopg_pool import PoolTimeout

from service.egress.guard import CALLERS, OPERATOR
from service.eventstore.connect.connection import FULL_DISK, OUTAGE
from service.eventstore.log.reactor import Reactor, Repeating
from service.eventstore.log.sequencer import Sequencer
from service.eventstore.tree.growing import CheckpointFile
from service.eventstore.tree.signing import Notary, Signer
from service.jobs.declared import declared
from service.logs import configure
from service.process.assembly import make_services
from service.process.beats import beating
from service.process.jobs import job_app
from service.services import Services
from service.settings import Settings, load_settings
from service.tlog.policy import BadPolicy, parse_policy
from service.webhooks.delivering import Deliverer
from service.webhooks.queueing import OutboxReader
from service.witness.asking import Asker, witnesses_of

log = structlog.get_logger()

CONCURRENCY = 8
STOP_SECONDS = 1.5  # running jobs get this long; then they are abandoned and run again later
AGAIN_SECONDS = 1.0


async def run(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    tasks, reactions = declared()
    async with AsyncExitStack() as stack:
        services = await _start(settings, stopping)
        if services is None:
            return
        stack.push_async_callback(_close, services)
        url = settings.database_url
        deliverer = Deliverer(settings, services.store, services.guard)
        wake_deliverer = partial(asyncio.get_running_loop().call_soon_threadsafe, deliverer.wake)
        tailing = (Notary(url, _signer(settings)), Reactor(url, reactions), OutboxReader(url, wake_deliverer))
        for thread in (*tailing, Sequencer(url, partial(_wake, tailing))):
            thread.start()
            stack.callback(thread.stop)
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
    configure(settings.log_level, "worker")
    asyncio.run(run(settings))
