"""The evidence of a project: whose it is, what a proof saw, and how the history of its plan compares (G-183)."""

import asyncio
from typing import NamedTuple, Protocol, TypeVar

import msgspec
import psycopg

from projections.deploys import DEPLOYS
from projections.install import INSTALLS, InstallRow, install_state, is_verified
from projections.onboarding import SIGNAL_MAPS, OnboardingRow, SignalMapRow
from schemas.kernel.shape import EvidenceSource, HistoryCheck
from service.analytics.local import unread
from service.analytics.metadata import AnalyticsProvider, ErrorProbe, EventProbe, SignalProbe
from service.analytics.queries import BoundedQueries, unanswered
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.sql import load_query
from statemachines import install as installs
from statemachines.credentials.credential import CI
from statemachines.kernel.machine import ReadFailed
from statemachines.onboarding import proof
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.lifecycle import SESSION_SECONDS, Status
from statemachines.onboarding.plan import HistoricalEvidence, Plan, Window
from statemachines.projects.project import ProjectNotFound

# The source of a project's evidence: our own records, or the connected provider (G-183).

_WHOSE = load_query("onboarding", "whose_evidence")


class KeptReceipt(msgspec.Struct, frozen=True):
    """The receipt of an answer of a provider: the project asked there, and the window. It begins at 0 for a text query.

    Times are in epoch seconds.
    """

    provider_project_id: int
    since: int
    until: int

    def covers(self, window: Window) -> bool:
        """Whether a window is the one asked for. A text query has its own inside."""
        if self.since == 0:
            return window.to <= self.until
        return (window.from_, window.to) == (self.since, self.until)


class ComparedHistory(msgspec.Struct, frozen=True):
    """The history of a plan, and the receipt of ours that it names. None: it has none, or names another."""

    history: HistoricalEvidence | None
    receipt: KeptReceipt | None


class WhoseEvidence(msgspec.Struct, frozen=True):
    """The source of evidence of a project: of its proof, else of a proof made now (G-183).

    `connected_to` is the number of the connected project at the provider.
    """

    evidence_source: EvidenceSource
    connected_to: int | None
    compared: ComparedHistory

    @property
    def historical_evidence_check(self) -> HistoryCheck | None:
        """How the history of the plan compares with the connection. None without a history."""
        history, receipt = self.compared.history, self.compared.receipt
        if history is None:
            return None
        if self.connected_to is None:
            return "unconfirmed"
        if history.provider_project_id != self.connected_to:
            return "contradicted"
        if receipt is None:
            return "unconfirmed"
        agrees = receipt.provider_project_id == history.provider_project_id and receipt.covers(history.window)
        return "confirmed" if agrees else "contradicted"


async def whose_evidence(store: EventStore, project_id: str) -> WhoseEvidence:
    """Read the source of evidence of a project. Raises ProjectNotFound."""
    rows = await store.fetch(_WHOSE, project_id=project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    return msgspec.json.decode(rows[0][0], type=WhoseEvidence)


# Gathers the evidence for one verify: provider reads, recorded deploys, CI credentials, owners of markers. All of it
# is read before the unit of work and handed to it as an argument; If-Match on the proving revision proves that it is
# still current. Telemetry is used for the matching only.

MARGIN_SECONDS = SESSION_SECONDS  # the margin around the session in which early and late records are looked for
MAX_DEPLOYS = 500
MAX_STRANGE_MARKERS = 500
_FOREIGN = load_query("onboarding", "foreign_markers")
_CI_CAN_RECORD = load_query("onboarding", "ci_can_record")


class Providers(Protocol):
    """Who knows where a project's telemetry can be read."""

    async def for_project(self, project_id: str) -> AnalyticsProvider:
        """Return the adapter that answers for a project now."""


async def look(store: EventStore, providers: Providers, row: OnboardingRow) -> proof.Findings | None:
    """Gather the evidence for the session of an onboarding; None when it has none that is open and in its time."""
    if row.session is None or row.status != Status.PROVING.value:
        return None
    now = await store.now()
    if not row.session.covers(now):
        return None
    provider = await providers.for_project(row.project_id)
    return await find_proof(store, provider, row.project_id, row.plan, row.session, now)


async def find_proof(
    store: EventStore, provider: AnalyticsProvider, project_id: str, plan: Plan, session: proof.ProofSession, now: int
) -> proof.Findings:
    """Read everything that bears on a live session and match it against its plan. Reads that fail become blockers."""
    since, until = session.started_at - MARGIN_SECONDS, session.expires_at + MARGIN_SECONDS
    failure = proof.safe_failure(plan)
    marker = session.runtime_marker_sha256
    events, errors, (deploys, ci_live) = await asyncio.gather(
        provider.proof_events(
            EventProbe(
                events=tuple(milestone.event for milestone in plan.milestones),
                properties=tuple({name for milestone in plan.milestones for name in milestone.properties}),
                marker_sha256=marker,
                since=since,
                until=until,
            )
        ),
        provider.proof_errors(ErrorProbe(failure.marker, failure.context, marker, since, until)),
        _deploys(store, project_id, plan.deploy.environment, since, until, now),
    )
    evidence = proof.ProofEvidence(events, errors, deploys, ci_credential_live=ci_live, source=provider.source)
    strange = sorted(proof.unknown_markers(session, evidence))[:MAX_STRANGE_MARKERS]
    if strange:
        foreign = await store.fetch(_FOREIGN, markers=strange, project_id=project_id)
        evidence = evidence._replace(foreign_markers=frozenset(marker for (marker,) in foreign))
    return await asyncio.to_thread(proof.assess, plan, session, evidence)


async def _deploys(
    store: EventStore, project_id: str, environment: str, since: int, until: int, now: int
) -> tuple[list[proof.DeploySighting] | ReadFailed, bool]:
    """Read the trusted deploys to an environment, and whether CI could record one."""
    try:
        rows = await store.find(
            DEPLOYS,
            "t.project_id = %s and t.recorded_at >= %s and t.recorded_at < %s and t.trusted and t.environment = %s",
            project_id,
            since,
            until,
            environment,
            order_by="t.recorded_at desc, t.id desc",
            limit=MAX_DEPLOYS,
        )
        live = await store.fetch(_CI_CAN_RECORD, project_id=project_id, kind=CI, now=now)
    except (psycopg.Error, CommandNotDone) as error:
        return unread(error), False
    deploys = [
        proof.DeploySighting(
            environment=row.environment,
            sha=row.sha,
            trusted=row.trusted,
            marker_sha256=row.proof_marker_hash,
            recorded_at=row.recorded_at,
        )
        for row in rows
    ]
    return deploys, bool(live)


# What a project's questions rest on: its signal map, its install, and the newest telemetry (G-062, G-157). The one
# read behind next steps, answer contracts, verification and verify-report.


class AskedProject(NamedTuple):
    """A project by its signal map and its install, with its telemetry. None: not read, as a receipt settles it all."""

    signal_map: SignalMapRow | None
    install: InstallRow | None
    seen: proof.SeenSignals | None

    @property
    def all_seen(self) -> proof.SeenSignals:
        """The telemetry, which was read."""
        assert self.seen is not None, "all signals were read"
        return self.seen

    @property
    def map_revision(self) -> int:
        """The revision of the signal map, 0 without one."""
        return installs.NO_MAP if self.signal_map is None else self.signal_map.revision

    @property
    def source_verified(self) -> bool:
        """Whether an onboarding has proven the source."""
        return self.signal_map is not None and self.signal_map.receipt is not None

    @property
    def install_verified(self) -> bool:
        """Whether the source or the install is verified."""
        return self.source_verified or is_verified(self.install, self.map_revision)

    @property
    def state(self) -> str:
        """The state of the install flow."""
        return install_state(self.install, self.map_revision)

    @property
    def questions(self) -> proof.Questions:
        """The questions of the signal map; none without one."""
        if self.signal_map is None:
            return proof.NO_QUESTIONS
        return proof.assess_questions(self.signal_map.plan, None if self.source_verified else self.seen)

    @property
    def answer_ready(self) -> bool:
        """Whether the source or the install is verified, and every question is ready."""
        return self.install_verified and self.questions.ready


async def ask_about(
    store: EventStore, queries: BoundedQueries, project_id: str, tenant: str, *, all_signals: bool = False
) -> AskedProject:
    """Read what the questions of a project rest on, in the name of a tenant.

    Telemetry is read if an answer depends on it, or with `all_signals`. Raises QueriesBusy, and the refusal of
    upstream_error or upstream_timeout after a failed read.
    """
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    install = await store.get(INSTALLS, project_id, installs.stream(project_id).id)
    asked = AskedProject(signal_map, install, None)
    if not all_signals and (signal_map is None or asked.source_verified):
        return asked
    probe = SignalProbe() if signal_map is None else _probe(signal_map)
    seen = await queries.describe(project_id, tenant, lambda provider: provider.newest_rows(probe))
    if isinstance(seen, ReadFailed):
        raise unanswered(seen)
    return asked._replace(seen=seen)


def _probe(row: SignalMapRow) -> SignalProbe:
    return SignalProbe(tuple(milestone.event for milestone in row.plan.milestones), proof.safe_failure(row.plan).marker)


# From the shapes of the wire to those of the storage and back: a change of one leaves the other as it is.

S = TypeVar("S", bound=msgspec.Struct)


def reshape(value: msgspec.Struct, shape: type[S]) -> S:
    """Make a struct of another shape that takes the same members. Raises msgspec.ValidationError where it does not."""
    return msgspec.json.decode(msgspec.json.encode(value), type=shape)
