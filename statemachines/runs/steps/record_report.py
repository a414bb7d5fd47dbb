"""The report of a scheduled run: its source, read once, and the record that ends the run (G-112, R-AUT-37).

The intent is committed before anybody asks a provider, and moves the run on; what was read is stored by a unit of its
own, which the state revision does not concern: the numbers are the same whatever the runner has charged meanwhile. A
repeat of what is done already is answered before the fence, and so is the wish that made the intent.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UnsetType

from schemas.contracts.playbook import FunnelReviewOutput
from statemachines.kernel.machine import Event
from statemachines.reports import report as reports
from statemachines.reports.source import FunnelPlan, FunnelReading
from statemachines.runs import events as e
from statemachines.runs import run as runs
from statemachines.runs.steps.advance_run import enter, not_allowed
from statemachines.runs.steps.book import Book, Effects, FencingToken, merge
from statemachines.runs.steps.end_run import end_run
from statemachines.runs.steps.use_grant import require_runner_of


class SourceRead(NamedTuple):
    """What a provider said of a plan, or why it said nothing."""

    provider: str
    reading: FunnelReading


def want_source(book: Book, token: FencingToken, now: int) -> Effects:
    """Commit to reading the source; no events when that was done, or when there is one.

    Raises what enter raises, RunTransitionNotAllowed.
    """
    require_runner_of(book, token)
    report = book.report
    if report.source is not None:
        return {}
    if report.status is reports.Status.INTENDED and token.state_revision == report.state_revision:
        token = _of_now(book, token)
    book, effects = enter(book, token, now)
    plan = _plan_of(book)
    run = book.run
    wish = reports.SourceWish(
        run_id=book.run_id,
        automation_id=run.automation_id,
        plan=plan,
        state_revision=run.state_revision,
        patient_until=now + min(reports.PATIENCE_SECONDS, (run.deadline_at - now) // 2),
    )
    events = reports.decide_intend(report, wish, now)
    noted: list[Event] = [e.RunReportSourceIntended(book.report_id, now)] if events else []
    return merge(effects, {book.report_id: events, book.run_id: noted})


def store_source(book: Book, token: FencingToken, read: SourceRead, now: int) -> Effects:
    """Store what was read as the run's one source; no events when there is one.

    Raises what enter raises, RunTransitionNotAllowed, ReportSourceUnread.
    """
    require_runner_of(book, token)
    if book.report.source is not None:
        return {}
    book, effects = enter(book, _of_now(book, token), now)
    _plan_of(book)
    stored = reports.decide_materialize(book.report, read.provider, read.reading, now)
    return merge(effects, {book.report_id: stored})


def record_report(book: Book, token: FencingToken, document: FunnelReviewOutput, now: int) -> Effects:
    """Record the one report, and end the run with it; no events for the same report again.

    Raises what enter raises, RunTransitionNotAllowed, and what decide_record raises.
    """
    require_runner_of(book, token)
    by = token.holder.runner_id
    if book.report.status is reports.Status.RECORDED:
        reports.decide_record(book.report, document, by, now)
        return {}
    book, effects = enter(book, token, now)
    _plan_of(book)
    recorded = reports.decide_record(book.report, document, by, now)
    sha256 = reports.evolve(book.report, recorded[0]).report_sha256
    assert sha256 is not None, "what was recorded has a hash"
    ended = end_run(book, e.RunReported(book.report_id, sha256, now), now, revoke_claim=False)
    return merge(effects, {book.report_id: recorded}, ended)


def _of_now(book: Book, token: FencingToken) -> FencingToken:
    """The same wish, at the revision that the run has now."""
    return token._replace(state_revision=book.run.state_revision)


def _plan_of(book: Book) -> FunnelPlan:
    """What the run's report is about. Raises RunTransitionNotAllowed for a run that makes none, or not now."""
    run = book.run
    plan = run.terms.review
    if isinstance(plan, UnsetType) or run.status not in {runs.Status.STARTED, runs.Status.RUNNING}:
        raise not_allowed(book)
    return plan
