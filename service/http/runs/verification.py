"""Verification at the edge: the server counts, decides, and answers 202 until it has (G-111, R-AUT-44, R-AUT-45)."""

from functools import partial
from http import HTTPStatus
from typing import cast

from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET

from projections.runs import RunRow
from schemas.kernel.shape import WaitQuery
from schemas.runs.run import VERIFIED_ORIGINS, RunStatus, VerificationAnswer, VerifyRun
from service.analytics.queries import unanswered
from service.auth.refusals import refusal
from service.eventstore.declare.commands import Answer, Outcome, Unit
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY_OR_RUNNER
from service.http.runs.on_run import RUN_SUBJECT, on_run
from service.runs import shown as show_run
from service.runs import verifying
from service.runs.scope import Ran
from statemachines.kernel.machine import ReadFailed
from statemachines.runs.steps.book import Book, require_automation
from statemachines.runs.steps.end_run import as_of
from statemachines.runs.steps.results import Counts, require_verifiable
from statemachines.runs.verdict import Verdict

POLL_SECONDS = 60


_OF_VERIFYING = (
    "run_not_found",
    "automation_mismatch",
    "claim_required",
    "deploy_not_bound",
    "run_terminal",
    "upstream_error",
    "upstream_timeout",
)


@groups.AUTOMATION.post("/v1/automation-runs/{run_id}/verify", "Verify the deploy of a run by traffic and recurrence")
@Who(KEY_OR_RUNNER, scope="runs:write", owner=True, subject=RUN_SUBJECT)
@Fencing(idempotency="optional")
@Docs({200: VerificationAnswer, 202: VerificationAnswer}, errors=_OF_VERIFYING)
async def verify_automation_run(
    call: Call,
    data: JSONBody[VerifyRun],  # noqa: ARG001 - only its form counts
    params: NamedDependency[WaitQuery],
) -> Outcome:
    """Count since the deploy and decide. The provider is read first. The run's deploy never changes once bound."""
    runner, row = call.runner, cast("RunRow", call.subject)
    if runner is not None:
        require_automation(row.state, runner)
    await call.listen(row.id, params)
    counts = None if require_verifiable(row.state) is None else await _count(call, row)
    revisions: list[int] = []
    judged = partial(_judged, revisions, counts)
    outcome = await on_run(call, lambda latest: verifying.verify(latest, counts), judged)
    if outcome.status == HTTPStatus.ACCEPTED:
        call.saw(revisions[-1])
    return outcome


async def _count(call: Call, row: RunRow) -> Counts:
    """Count since the deploy. Raises a refusal when the provider cannot be read."""
    services = call.services
    counts = await verifying.count(services.store, services.providers, row.project_id, row.state)
    if isinstance(counts, ReadFailed):
        raise refusal("upstream_error") if counts.cause == "too_much" else unanswered(counts)
    return counts


def _judged(revisions: list[int], counts: Counts | None, ran: Ran[Verdict], unit: Unit) -> Answer:
    """Show a verdict. While it is pending, `revisions` takes the revision of the run."""
    book = as_of(ran.book, unit.now)
    if ran.result.outcome != "pending":
        return _decided(book, ran.result)
    revisions.append(ran.book.run.state_revision)
    return _pending(book, ran.result, unread=counts is not None and counts.waiting_at is not None)


def _pending(book: Book, verdict: Verdict, *, unread: bool) -> Answer:
    shown = show_run.verification(book.run, verdict)
    assert shown is not None, "a verdict is shown"
    body = VerificationAnswer(
        run_id=book.run_id,
        status="verifying",
        verification=shown,
        verification_statistics=show_run.statistics(verdict),
        poll_after_seconds=POLL_SECONDS,
        deadline_at=book.run.verify_until,
        reason="provider_exceptions_unread" if unread else UNSET,
        next_action="Poll verify again after poll_after_seconds.",
        origins=VERIFIED_ORIGINS,
    )
    return Answer(202, body, {"retry-after": str(POLL_SECONDS)}, pending=True)


def _decided(book: Book, verdict: Verdict) -> Answer:
    shown = show_run.verification(book.run, verdict)
    assert shown is not None, "a verdict is shown"
    body = VerificationAnswer(
        run_id=book.run_id,
        status=cast("RunStatus", book.run.status.outcome),
        verification=shown,
        verification_statistics=show_run.statistics(verdict),
        deadline_at=book.run.verify_until,
        run=show_run.run(book),
        next_action="Nothing is left to verify. Read the run.",
        origins=VERIFIED_ORIGINS,
    )
    return Answer(200, body)


ENDPOINTS = [verify_automation_run]
