"""The parts a process is assembled from, and background work as it is declared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from service.analytics.queries import AnalyticsProviders, BoundedQueries
from service.archives.archive import Archives
from service.audit.tree import SignedTree
from service.auth.authenticator import Authenticator
from service.auth.ci_tokens import CiIssuers
from service.auth.oidc import Issuer
from service.billing.payments import Payments
from service.billing.usage import Notices
from service.cases.sourcemaps.unmangling import Unmangler
from service.egress.guard import Guard
from service.events import Feeds
from service.eventstore.log.follower import Follower
from service.eventstore.log.reactor import Job
from service.eventstore.store import EventStore
from service.ingest.intake import Intake
from service.ingest.kept import FeedbackReports
from service.ingest.provided.looking import ExceptionLooks
from service.provider.operator import OperatorProvider
from service.provider.sources import Exchanges, ProviderSources
from service.publications import PublicAnswers
from service.settings import Settings
from service.webhooks.testing import WebhookTester

if TYPE_CHECKING:
    import procrastinate


# The parts a process is assembled from, handed to handlers and jobs as one object.


@dataclass(slots=True)
class Services:
    """Settings, the event store (commands and reads) with the follower of its log, the intake, the providers, and more.

    The rest is looks at errors of providers, archives of projects, the signed tree, questions to providers, who asks,
    who owes, public answers, source maps, the one client for outside addresses, tests of webhooks, the operator's
    account at the provider, where projects are read there, turns of such requests, the issuers of CI, and where people
    sign in.
    """

    settings: Settings
    store: EventStore
    follower: Follower
    feeds: Feeds
    archives: Archives
    tree: SignedTree
    intake: Intake
    exceptions: ExceptionLooks
    feedback: FeedbackReports
    providers: AnalyticsProviders
    queries: BoundedQueries
    public_answers: PublicAnswers
    authenticator: Authenticator
    notices: Notices
    payments: Payments
    unmangler: Unmangler
    guard: Guard
    webhook_tester: WebhookTester
    operator: OperatorProvider
    sources: ProviderSources
    exchanges: Exchanges
    ci_issuers: CiIssuers
    issuer: Issuer | None = None


# Background work as it is declared: tasks of the job library in the same PostgreSQL. service/jobs.py has them
# all: `TASKS` (what can be run) and `REACTIONS` (which events defer a job, by topic; see
# eventstore/log/reactor.py). A job only wakes: what is due is found by service_now() in our own tables, so a job
# that runs twice, late or not at all does no harm that the next sweep does not mend.

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


def scheduled_jobs(tasks: Iterable[Task], at: int) -> list[Job]:
    """The jobs that wake every task with a schedule at a time in epoch seconds."""
    return [
        Job(task.name, {"timestamp": at}, task.queue, f"{LOCK}:{task.name}") for task in tasks if task.cron is not None
    ]
