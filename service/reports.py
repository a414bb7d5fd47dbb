"""Reports: asked for, their source stored, recorded, read and shown (G-112)."""

import asyncio
import time
from typing import Literal, cast

import msgspec

from projections.runs import RunRow
from schemas import reports as wire
from schemas.contracts.playbook import FunnelReviewOutput
from service.analytics.metadata import AnalyticsProvider, FunnelProbe
from service.analytics.queries import AnalyticsProviders
from service.eventstore.declare.commands import Intent
from service.eventstore.store import EventStore
from service.runs import shown as show_run
from service.runs.decision import next_step
from service.runs.scope import Ran, RunScope
from service.runs.verifying import settled
from statemachines import reports
from statemachines import reports as machine
from statemachines.kernel.machine import Cause, ReadFailed
from statemachines.runs.steps import results
from statemachines.runs.steps.book import Book, FencingToken

# Reports: want the source, store what was read of it, record the report (G-112).


def want_source(row: RunRow, token: FencingToken) -> Intent[Ran[None]]:
    """Commit to reading the run's source, before anything is read."""
    return _scope(row).intent(lambda book, now: (None, results.want_source(book, token, now)))


def store_source(row: RunRow, token: FencingToken, read: results.SourceRead) -> Intent[Ran[None]]:
    """Store what was read; the first that is stored is the source."""
    return _scope(row).intent(lambda book, now: (None, results.store_source(book, token, read, now)))


def record(row: RunRow, token: FencingToken, document: FunnelReviewOutput) -> Intent[Ran[None]]:
    """Record the one report of the run, and end the run with it."""
    return _scope(row).intent(lambda book, now: (None, results.record_report(book, token, document, now)))


def _scope(row: RunRow) -> RunScope:
    return RunScope.of(row, new_report=reports.report_id(row.project_id, row.id))


# The one read behind a report: an ordered funnel over two periods, as the project's analytics provider counts it. It
# comes before the unit that stores it, and only after everything received in the periods can be seen: a record is
# received before its flush commits. What fails is a gap, whatever failed (G-112).

SETTLING_SECONDS = 4
"""How long a read waits for the end of its period to settle; a slot's first second needs that."""
LOOK_SECONDS = 0.25

_GAPS: dict[Cause, machine.GapCode] = {
    "unconfigured": "provider_unconfigured",
    "unauthorized": "provider_unauthorized",
    "unreachable": "provider_unreachable",
    "timeout": "provider_timeout",
    "refused": "provider_refused",
    "malformed": "provider_malformed",
    "too_much": "provider_too_much",
    "not_kept": "period_not_kept",
}


async def read_source(store: EventStore, providers: AnalyticsProviders, row: RunRow) -> results.SourceRead:
    """Read both periods of what a run's report is about, which never changes once the run has begun."""
    plan = row.state.terms.review
    assert isinstance(plan, machine.FunnelPlan), "a source is wanted only of a run that makes a report"
    provider = await providers.for_project(row.project_id)
    if not await _is_settled(store, row.project_id, plan.period_end):
        return results.SourceRead(provider.source, machine.FunnelGap("period_not_settled"))
    return results.SourceRead(provider.source, await _compare(provider, plan))


async def _compare(provider: AnalyticsProvider, plan: machine.FunnelPlan) -> machine.FunnelReading:
    events = tuple(plan.events)
    prior = await provider.count_funnel(FunnelProbe(events, plan.prior_period_start, plan.prior_period_end))
    if isinstance(prior, ReadFailed):
        return machine.FunnelGap(_GAPS[prior.cause])
    current = await provider.count_funnel(FunnelProbe(events, plan.period_start, plan.period_end))
    if isinstance(current, ReadFailed):
        return machine.FunnelGap(_GAPS[current.cause])
    return [machine.FunnelStep(*step) for step in zip(events, prior, current, strict=True)]


async def _is_settled(store: EventStore, project_id: str, end: int) -> bool:
    """Wait a little until nothing can still come in for the seconds before `end`; returns whether that is so."""
    until = time.monotonic() + SETTLING_SECONDS
    while await settled(store, project_id) < end - 1:
        if time.monotonic() > until:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


# What clients see of a report and of its source (G-112). Every `next_action` is a fixed sentence.


def source(book: Book) -> wire.ReportSource:
    """Show the source of a run that has one. The book is that of `as_of`."""
    plan, found = book.report.plan, book.report.source
    assert plan is not None, "a source was wanted"
    assert found is not None, "a source that is shown was read"
    gap = None if found.gap is None else machine.FunnelGap(found.gap)
    return wire.ReportSource(
        run_id=book.run_id,
        source_hash=found.source_hash,
        blueprint_id=machine.BLUEPRINT,
        events=plan.events,
        **machine.periods_of(plan),
        rows=[wire.SourceRow(**msgspec.structs.asdict(row)) for row in machine.rows_of(found.steps)],
        columns=[wire.SourceColumn(*column) for column in machine.COLUMNS],
        provider=cast("Literal['local', 'provider_cloud']", found.provider),
        sample_size=machine.sample_of(found.steps),
        minimum_sample_size=plan.minimum_sample_size,
        minimum_sample_met=machine.sample_met(plan, found),
        readiness_gap=None if gap is None else wire.SourceGap("readiness_gap", gap.code, gap.message),
        materialized_at=found.materialized_at,
        state_revision=book.run.state_revision,
        next_action=next_step(book).words,
        origins=wire.SOURCE_ORIGINS,
    )


def recorded(book: Book) -> wire.RecordedReport:
    """Show the report of a run that has recorded one. The book is that of `as_of`."""
    assert book.report_json is not None, "a report that is shown was recorded"
    assert book.report.recorded_at is not None, "and has its time"
    return wire.RecordedReport(
        report_id=book.report_id,
        run_id=book.run_id,
        project_id=book.project_id,
        automation_id=book.run.automation_id,
        report=msgspec.json.decode(book.report_json, type=FunnelReviewOutput),
        visibility="private",
        trust="untrusted",
        recorded_at=book.report.recorded_at,
        run=show_run.run(book),
        next_action=next_step(book).words,
        origins=wire.RECORDED_ORIGINS,
    )
