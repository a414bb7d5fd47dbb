"""Reports: want the source, store what was read of it, record the report (G-112)."""

from __future__ import annotations

from projections.runs.run import RunRow
from schemas.contracts.outputs import FunnelReviewOutput
from service.eventstore.declare.intents import Intent
from service.runs.commands.scope import Ran, RunScope
from statemachines.reports import report as reports
from statemachines.runs.steps import record_report
from statemachines.runs.steps.book import FencingToken
from statemachines.runs.steps.record_report import SourceRead


def want_source(row: RunRow, token: FencingToken) -> Intent[Ran[None]]:
    """Commit to reading the run's source, before anything is read."""
    return _scope(row).intent(lambda book, now: (None, record_report.want_source(book, token, now)))


def store_source(row: RunRow, token: FencingToken, read: SourceRead) -> Intent[Ran[None]]:
    """Store what was read; the first that is stored is the source."""
    return _scope(row).intent(lambda book, now: (None, record_report.store_source(book, token, read, now)))


def record(row: RunRow, token: FencingToken, document: FunnelReviewOutput) -> Intent[Ran[None]]:
    """Record the one report of the run, and end the run with it."""
    return _scope(row).intent(lambda book, now: (None, record_report.record_report(book, token, document, now)))


def _scope(row: RunRow) -> RunScope:
    return RunScope.of(row, new_report=reports.report_id(row.project_id, row.id))
