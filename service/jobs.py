"""Background work of all areas: every task with its schedule, and every reaction to an event.

A job only wakes: what is due is found in our own tables. What a killed job left undone the next one finds again.
"""

from collections.abc import Mapping
from typing import Any

import procrastinate
import psycopg
import structlog
from prometheus_client import Counter

from projections.credentials import EXCHANGED, EXCHANGED_SECRETS
from service.accounts import person
from service.alerts import AlertSchedule
from service.billing.plans import retention
from service.billing.subscription import reconcile, settle
from service.cases.sourcemaps import blobs
from service.cases.suppression import apply_rules
from service.deletion.advancing import Advancer, sweep
from service.deletion.people import Eraser, sweep_erasures
from service.eventstore.connect.connection import WatchedConnection
from service.eventstore.connect.facts import NOW, NOW_SECONDS
from service.eventstore.log.reactor import Job, Reaction
from service.eventstore.read.stored import LogEvent
from service.eventstore.write.lane import forget
from service.ingest import kept as kepts
from service.runs.sweep import Sweep, forget_decisions
from service.services import LOCK, Services, Task
from service.webhooks.sending import tidy
from statemachines.billing import SubscriptionActivated
from statemachines.cases.suppression import SuppressionCreated
from statemachines.credentials.exchanged import KEPT as KEPT_EXCHANGED
from statemachines.deletion.erasure import ErasureFenced
from statemachines.deletion.removal import DeletionFenced
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

log = structlog.get_logger(__name__)

APPLY = "cases.apply_rules"
ADVANCE = "deletion.advance"
SETTLE = "billing.settle"

LOOKED = Counter("service_alert_evaluations", "Scheduled evaluations of alerts, by how they ended.", ["outcome"])
READ = Counter("service_subscriptions_read", "Subscriptions that were read at the payment provider.")
CORRECTED = Counter(
    "service_subscriptions_corrected", ("Subscriptions that differed from those of the payment provider.")
)


# ---- people and the store


async def forget_sign_ins(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the sign-ins, polls and sessions that are over (G-020)."""
    await person.forget_sign_ins(services.settings.database_url)


async def forget_exchanged(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the exchanged credentials that nobody is shown any more, and secrets that have ended (G-171)."""
    over = [(EXCHANGED.name, f"expires_at < {NOW_SECONDS} - {KEPT_EXCHANGED}")]
    over += [(EXCHANGED_SECRETS.name, f"expires_at < {NOW_SECONDS}")]
    await forget(services.settings.database_url, over, "exchanged_credentials_forgotten")


# Made by the server to recognise its own write: nobody can repeat them once their request is over.
OWN = f"not client_key and created_at < {NOW} - interval '1 hour'"
# Kept as long as what they made: credentials, enabling, runs and their cancelling, deletions.
KEPT = (
    "operation ~ '(/credentials|/automation-contract/enable|/automation-runs|/cancel|/self_delete)$' "
    "or operation ~ '^DELETE '"
)
CLIENTS = f"client_key and created_at < {NOW} - interval '24 hours' and not ({KEPT})"


async def forget_records(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the idempotency records that nobody can repeat any more (G-008)."""
    over = [("idempotency", OWN), ("idempotency", CLIENTS)]
    await forget(services.settings.database_url, over, "idempotency_records_forgotten")


# ---- telemetry and cases


async def _connect(services: Services) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    return await WatchedConnection.connect(
        services.settings.database_url, autocommit=True, application_name="service-retention"
    )


async def make_partitions(services: Services, _: Mapping[str, Any]) -> None:
    """Give the coming days their partitions (design §7, G-071)."""
    async with await _connect(services) as connection:
        await kepts.ensure_partitions(connection)


async def purge_telemetry(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the telemetry that each project's plan keeps no longer, and the decisions on it (G-137)."""
    kept = await retention(services.store, services.settings.terms)
    async with await _connect(services) as connection:
        await kepts.purge(connection, kept)
        await forget_decisions(connection, kept.days)


async def settle_feedback(services: Services, _: Mapping[str, Any]) -> None:
    """Find the errors of earlier feedback."""
    async with await _connect(services) as connection:
        await kepts.settle(connection)


async def look_at_exceptions(services: Services, _: Mapping[str, Any]) -> None:
    """Count new exceptions of connected providers (G-182)."""
    counted = await services.exceptions.run()
    if counted:
        log.info("provider_errors_counted", number=counted)


async def apply_to_cases(services: Services, args: Mapping[str, Any]) -> None:
    """Apply the rules of a project (G-053). A project that goes away meanwhile has nothing left to steer."""
    try:
        applied = await apply_rules(services.store, args["project_id"])
    except (ProjectNotFound, ProjectDeletionInProgress):
        return
    if applied:
        log.info("rules_applied", cases=applied)


def on_rule(event: LogEvent) -> Job:
    """A rule was made: one job for each project waits at a time, and sees all rules there are when it runs."""
    return Job(APPLY, {"project_id": event.project_id}, once=f"{APPLY}:{event.project_id}")


async def forget_uploads(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the bytes of source maps that nothing keeps."""
    await blobs.forget_uploads(services.settings.database_url)


# ---- automation, alerts and webhooks


async def sweep_automation(services: Services, _: Mapping[str, Any]) -> None:
    """Sweep once (G-119)."""
    done = await Sweep(services.store, services.providers).run()
    if done:
        log.info("swept", **done)


async def evaluate_alerts(services: Services, _: Mapping[str, Any]) -> None:
    """Run the schedule of alerts once (G-162)."""
    done = await AlertSchedule(services.store, services.queries).run()
    for outcome, number in done.items():
        LOOKED.labels(outcome).inc(number)
    if done:
        log.info("alerts_evaluated", **done)


async def forget_looks(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the looks at deleted alerts. Nobody adds to them."""
    await forget(services.settings.database_url, [("alert_looks", "due_at is null")], "alert_looks_forgotten")


async def tidy_deliveries(services: Services, _: Mapping[str, Any]) -> None:
    """End and forget deliveries that are over (G-159, G-161). The outbox sends them."""
    await tidy(services.settings.database_url)


# ---- billing and deletion


async def settle_subscriptions(services: Services, _: Mapping[str, Any]) -> None:
    """End what is surplus at the payment provider."""
    await settle(services.store, services.payments)


def on_subscription(_: LogEvent) -> Job:
    """A subscription has begun: another one may be surplus."""
    return Job(SETTLE, {}, once=f"{LOCK}:{SETTLE}")


async def reconcile_subscriptions(services: Services, _: Mapping[str, Any]) -> None:
    """Read what the provider told in vain, and count what was found."""
    look = await reconcile(services.store, services.payments, services.settings.plans)
    READ.inc(look.read)
    CORRECTED.inc(look.corrected)


async def advance_deletions(services: Services, _: Mapping[str, Any]) -> None:
    """Move deletions on (G-119). Nobody is to pay for an account that goes: its subscriptions end first."""
    await settle(services.store, services.payments)
    ended = await sweep(services.store, Advancer(services.store, services.settings.erasure_ledger))
    ended += await sweep_erasures(services.store, Eraser.of(services.store, services.settings))
    if ended:
        log.info("deletions_ended", number=ended)


def on_fence(_: LogEvent) -> Job:
    """Go on with a deletion right after its fence."""
    return Job(ADVANCE, {}, once=f"{LOCK}:{ADVANCE}")


_AGAIN = procrastinate.RetryStrategy(max_attempts=3, wait=60)
_UNTIL_APPLIED = procrastinate.RetryStrategy(max_attempts=5, exponential_wait=2)

TASKS = [
    Task("auth.forget_sign_ins", forget_sign_ins, cron="*/10 * * * *"),
    Task("auth.forget_exchanged", forget_exchanged, cron="*/10 * * * *"),
    Task("alerts.evaluate", evaluate_alerts, cron="* * * * *"),
    Task("alerts.forget_looks", forget_looks, cron="*/10 * * * *"),
    Task(SETTLE, settle_subscriptions, cron="*/5 * * * *"),
    Task("billing.reconcile", reconcile_subscriptions, cron="*/10 * * * *"),
    Task(APPLY, apply_to_cases, retry=_UNTIL_APPLIED),
    Task("cases.forget_uploads", forget_uploads, cron="*/10 * * * *"),
    Task(ADVANCE, advance_deletions, cron="* * * * *"),
    Task("eventstore.forget_records", forget_records, cron="*/10 * * * *"),
    Task("ingest.partitions", make_partitions, retry=_AGAIN, cron="7 * * * *"),
    Task("ingest.retention", purge_telemetry, retry=_AGAIN, cron="23 3 * * *"),
    Task("ingest.provider_exceptions", look_at_exceptions, cron="* * * * *"),
    Task("ingest.feedback", settle_feedback, cron="* * * * *"),
    Task("automation.sweep", sweep_automation, cron="* * * * *"),
    Task("webhooks.tidy", tidy_deliveries, cron="* * * * *"),
]
REACTIONS: list[tuple[str, Reaction]] = [
    (SubscriptionActivated.TOPIC, on_subscription),
    (SuppressionCreated.TOPIC, on_rule),
    (DeletionFenced.TOPIC, on_fence),
    (ErasureFenced.TOPIC, on_fence),
]


def declared() -> tuple[list[Task], dict[str, Reaction]]:
    """Return tasks, and reactions by topic. Two tasks of one name are a bug that stops the start."""
    tasks: dict[str, Task] = {}
    reactions: dict[str, Reaction] = {}
    for task in TASKS:
        assert task.name not in tasks, f"two tasks are named {task.name}"
        tasks[task.name] = task
    for topic, reaction in REACTIONS:
        assert topic not in reactions, f"two reactions to {topic}"
        reactions[topic] = reaction
    return list(tasks.values()), reactions
