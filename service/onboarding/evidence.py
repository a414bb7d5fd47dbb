"""Gathers the evidence for one verify: provider reads, recorded deploys, CI credentials, owners of markers.

All of it is read before the unit of work and handed to it as an argument; If-Match on the proving revision proves
that it is still current. Telemetry is used for the matching only.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import psycopg

from projections.deploys.deploy import PROJECTION as DEPLOYS
from projections.onboarding.lifecycle import OnboardingRow
from service.analytics.local import unread
from service.analytics.probes import AnalyticsProvider, ErrorProbe, EventProbe
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from statemachines.credentials.credential import CI
from statemachines.kernel.readings import ReadFailed
from statemachines.onboarding.lifecycle import SESSION_SECONDS, Status
from statemachines.onboarding.proof import (
    DeploySighting,
    Findings,
    ProofEvidence,
    ProofSession,
    assess,
    safe_failure,
    unknown_markers,
)
from statemachines.onboarding.stored import Plan

MARGIN_SECONDS = SESSION_SECONDS  # the margin around the session in which early and late records are looked for
MAX_DEPLOYS = 500
MAX_STRANGE_MARKERS = 500
_FOREIGN = load_sql("onboarding", "foreign_markers")
_LIVE_CREDENTIAL = load_sql("onboarding", "live_credential")


class Providers(Protocol):
    """Who knows where a project's telemetry can be read."""

    async def for_project(self, project_id: str) -> AnalyticsProvider:
        """Return the adapter that answers for a project now."""


async def look(store: EventStore, providers: Providers, row: OnboardingRow) -> Findings | None:
    """Gather the evidence for the session of an onboarding; None when it has none that is open and in its time."""
    if row.session is None or row.status != Status.PROVING.value:
        return None
    now = await store.now()
    if not row.session.covers(now):
        return None
    provider = await providers.for_project(row.project_id)
    return await find_proof(store, provider, row.project_id, row.plan, row.session, now)


async def find_proof(
    store: EventStore, provider: AnalyticsProvider, project_id: str, plan: Plan, session: ProofSession, now: int
) -> Findings:
    """Read everything that bears on a live session and match it against its plan. Reads that fail become blockers."""
    since, until = session.started_at - MARGIN_SECONDS, session.expires_at + MARGIN_SECONDS
    failure = safe_failure(plan)
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
    evidence = ProofEvidence(events, errors, deploys, ci_credential_live=ci_live, source=provider.source)
    strange = sorted(unknown_markers(session, evidence))[:MAX_STRANGE_MARKERS]
    if strange:
        foreign = await store.fetch(_FOREIGN, markers=strange, project_id=project_id)
        evidence = evidence._replace(foreign_markers=frozenset(marker for (marker,) in foreign))
    return await asyncio.to_thread(assess, plan, session, evidence)


async def _deploys(
    store: EventStore, project_id: str, environment: str, since: int, until: int, now: int
) -> tuple[list[DeploySighting] | ReadFailed, bool]:
    """Read the trusted deploys to an environment, and whether a CI credential is live that could record one."""
    try:
        rows = await store.find(
            DEPLOYS.table,
            "t.project_id = %s and t.recorded_at >= %s and t.recorded_at < %s and t.trusted and t.environment = %s",
            project_id,
            since,
            until,
            environment,
            order_by="t.recorded_at desc, t.id desc",
            limit=MAX_DEPLOYS,
        )
        live = await store.fetch(_LIVE_CREDENTIAL, project_id=project_id, kind=CI, now=now)
    except (psycopg.Error, CommandNotDone) as error:
        return unread(error), False
    deploys = [
        DeploySighting(
            environment=row.environment,
            sha=row.sha,
            trusted=row.trusted,
            marker_sha256=row.proof_marker_hash,
            recorded_at=row.recorded_at,
        )
        for row in rows
    ]
    return deploys, bool(live)
