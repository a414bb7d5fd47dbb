"""Creates the parts of a process from its settings."""

import os
from pathlib import Path

from service.analytics.queries import AnalyticsProviders, BoundedQueries
from service.archives.archive import Archives
from service.audit.tree import SignedTree
from service.auth.authenticator import Authenticator
from service.auth.ci_tokens import CiIssuers
from service.auth.oidc import Issuer
from service.billing.payments import Payments
from service.billing.usage import Notices
from service.cases.sourcemaps.deciding import DecidingFrames
from service.cases.sourcemaps.unmangling import Unmangler
from service.egress.guard import Guard
from service.egress.lookups import Lookups
from service.events import Feeds
from service.eventstore.connect.connection import FULL_DISK
from service.eventstore.log.follower import Follower
from service.eventstore.store import EventStore
from service.ingest.intake import Intake
from service.ingest.kept import FeedbackReports
from service.ingest.provided.counting import ProvidedCounter
from service.ingest.provided.looking import ExceptionLooks
from service.ingest.scrubbing import Scrubber
from service.process.beats import DIRECTORY
from service.provider.operator import OperatorProvider
from service.provider.sources import Exchanges, ProviderSources
from service.publications import PublicAnswers
from service.registry import registry
from service.services import Services
from service.settings import Settings
from service.webhooks.testing import WebhookTester


def make_services(settings: Settings) -> Services:
    """Create the parts of one process, none of them started."""
    if shared := os.environ.get(DIRECTORY):
        FULL_DISK.share(Path(shared))
    make_store, make_guard, make_intake = _parts(settings)
    store = make_store(settings.database_url, registry())
    follower = Follower(settings.database_url)
    unmangler = Unmangler(store)
    lookups = Lookups()
    guard = make_guard(lookups)
    providers = AnalyticsProviders(settings, store, guard)
    queries = BoundedQueries(store, providers)
    operator = OperatorProvider(settings, providers.client)
    scrubber = Scrubber(settings.scrub_names or ())
    counter = ProvidedCounter(settings.database_url, registry(), settings.new_cases_per_hour)
    return Services(
        settings=settings,
        store=store,
        follower=follower,
        feeds=Feeds(store, follower),
        archives=Archives(store, settings.data_dir),
        tree=SignedTree(store),
        intake=make_intake(
            settings.database_url,
            registry(),
            scrubber=scrubber,
            new_cases_per_hour=settings.new_cases_per_hour,
            frames=DecidingFrames(store, unmangler),
        ),
        exceptions=ExceptionLooks(store, providers, scrubber, counter),
        feedback=FeedbackReports(settings.database_url),
        providers=providers,
        queries=queries,
        public_answers=PublicAnswers(store, queries),
        authenticator=Authenticator(settings, store),
        notices=Notices(store, settings.terms),
        payments=Payments(settings, lookups),
        unmangler=unmangler,
        guard=guard,
        webhook_tester=WebhookTester(settings, store, guard),
        operator=operator,
        sources=ProviderSources(store, providers, operator),
        exchanges=Exchanges(),
        ci_issuers=CiIssuers(settings.ci_issuers, guard),
        issuer=Issuer(settings, guard) if settings.oidc_issuer is not None else None,
    )


def _parts(settings: Settings) -> tuple[type[EventStore], type[Guard], type[Intake]]:
    """The classes of the parts that have traces of themselves where the operator wants them."""
    if settings.traces_url is None:
        return EventStore, Guard, Intake
    from service.process import tracing  # noqa: PLC0415 - it loads the library of an extra

    return tracing.TracedStore, tracing.TracedGuard, tracing.TracedIntake
