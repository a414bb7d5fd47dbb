"""The one read behind a report: an ordered funnel over two periods, as the project's analytics provider counts it.

It comes before the unit that stores it, and only after everything received in the periods can be seen: a record is
received before its flush commits. What fails is a gap, whatever failed (G-112).
"""

from __future__ import annotations

import asyncio
import time

from projections.runs.run import RunRow
from service.analytics.port import AnalyticsProviders
from service.analytics.probes import AnalyticsProvider, FunnelProbe
from service.eventstore.store import EventStore
from service.runs.reads.counting import settled
from statemachines.kernel.readings import Cause, ReadFailed
from statemachines.reports.source import FunnelGap, FunnelPlan, FunnelReading, FunnelStep, GapCode
from statemachines.runs.steps.record_report import SourceRead

SETTLING_SECONDS = 4
"""How long a read waits for the end of its period to settle; a slot's first second needs that."""
LOOK_SECONDS = 0.25

_GAPS: dict[Cause, GapCode] = {
    "unconfigured": "provider_unconfigured",
    "unauthorized": "provider_unauthorized",
    "unreachable": "provider_unreachable",
    "timeout": "provider_timeout",
    "refused": "provider_refused",
    "malformed": "provider_malformed",
    "too_much": "provider_too_much",
    "not_kept": "period_not_kept",
}


async def read_source(store: EventStore, providers: AnalyticsProviders, row: RunRow) -> SourceRead:
    """Read both periods of what a run's report is about, which never changes once the run has begun."""
    plan = row.state.terms.review
    assert isinstance(plan, FunnelPlan), "a source is wanted only of a run that makes a report"
    provider = await providers.for_project(row.project_id)
    if not await _is_settled(store, row.project_id, plan.period_end):
        return SourceRead(provider.source, FunnelGap("period_not_settled"))
    return SourceRead(provider.source, await _compare(provider, plan))


async def _compare(provider: AnalyticsProvider, plan: FunnelPlan) -> FunnelReading:
    events = tuple(plan.events)
    prior = await provider.count_funnel(FunnelProbe(events, plan.prior_period_start, plan.prior_period_end))
    if isinstance(prior, ReadFailed):
        return FunnelGap(_GAPS[prior.cause])
    current = await provider.count_funnel(FunnelProbe(events, plan.period_start, plan.period_end))
    if isinstance(current, ReadFailed):
        return FunnelGap(_GAPS[current.cause])
    return [FunnelStep(*step) for step in zip(events, prior, current, strict=True)]


async def _is_settled(store: EventStore, project_id: str, end: int) -> bool:
    """Wait a little until nothing can still come in for the seconds before `end`; returns whether that is so."""
    until = time.monotonic() + SETTLING_SECONDS
    while await settled(store, project_id) < end - 1:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True
