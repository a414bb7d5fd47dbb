"""What clients see of a report and of its source (G-112). Every `next_action` is a fixed sentence."""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from schemas.contracts.outputs import FunnelReviewOutput
from schemas.reports import report as wire
from service.runs.show import run as show_run
from service.runs.show.next_step import next_step
from statemachines.reports.check_report import sample_met
from statemachines.reports.source import BLUEPRINT, COLUMNS, FunnelGap, periods_of, rows_of, sample_of
from statemachines.runs.steps.book import Book


def source(book: Book) -> wire.ReportSource:
    """Show the source of a run that has one. The book is that of `as_of`."""
    plan, found = book.report.plan, book.report.source
    assert plan is not None, "a source was wanted"
    assert found is not None, "a source that is shown was read"
    gap = None if found.gap is None else FunnelGap(found.gap)
    return wire.ReportSource(
        run_id=book.run_id,
        source_hash=found.source_hash,
        blueprint_id=BLUEPRINT,
        events=plan.events,
        **periods_of(plan),
        rows=[wire.SourceRow(**msgspec.structs.asdict(row)) for row in rows_of(found.steps)],
        columns=[wire.SourceColumn(*column) for column in COLUMNS],
        provider=cast("Literal['local', 'provider_cloud']", found.provider),
        sample_size=sample_of(found.steps),
        minimum_sample_size=plan.minimum_sample_size,
        minimum_sample_met=sample_met(plan, found),
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
