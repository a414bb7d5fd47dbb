"""The parts a process is assembled from, handed to handlers and jobs as one object."""

from __future__ import annotations

from dataclasses import dataclass

from service.analytics.queries import AnalyticsProviders, BoundedQueries
from service.archives.archive import Archives
from service.audit.tree import SignedTree
from service.auth.authenticator import Authenticator
from service.auth.oidc import Issuer
from service.billing.payments import Payments
from service.billing.usage import Notices
from service.cases.sourcemaps.unmangling import Unmangler
from service.egress.guard import Guard
from service.events.event import Feeds
from service.eventstore.follow.follower import Follower
from service.eventstore.store import EventStore
from service.ingest.intake import Intake
from service.ingest.kept import FeedbackReports
from service.ingest.provided.looking import ExceptionLooks
from service.provider.operator import OperatorProvider
from service.provider.sources import Exchanges, ProviderSources
from service.publications import PublicAnswers
from service.settings import Settings
from service.webhooks.testing import WebhookTester


@dataclass(slots=True)
class Services:
    """Settings, the event store (commands and reads) with the follower of its log, the intake, the providers, and more.

    The rest is looks at errors of providers, archives of projects, the signed tree, questions to providers, who asks,
    who owes, public answers, source maps, the one client for outside addresses, tests of webhooks, the operator's
    account at the provider, where projects are read there, turns of such requests, and where people sign in.
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
    issuer: Issuer | None = None
