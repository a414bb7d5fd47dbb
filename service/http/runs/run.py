"""Runs at the edge: start, list, read, progress, usage, cancel (G-106, G-107, G-113)."""

import hashlib
from decimal import Decimal
from functools import partial
from typing import Any, Literal

import msgspec
from litestar.di import NamedDependency
from litestar.params import JSONBody

from projections.runs import RECEIPTS, RunRow
from schemas.kernel.published import body_schema
from schemas.kernel.shape import WaitQuery
from schemas.runs import run as wire
from service.auth.refusals import IdempotencyKeyRequired, InvalidPayload
from service.eventstore.declare.commands import Answer, Intent, Outcome, StoredAnswer, Unit
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import read_page
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY_OR_RUNNER, RUNNER
from service.http.runs.on_run import (
    RUN_LOCATED,
    TOKEN_ERRORS,
    holder_of,
    on_run,
    read_again,
    require_visible,
    seen_automation,
    token_of,
)
from service.runs import acting
from service.runs import control as reads
from service.runs import shown as show_run
from service.runs.bundles import read_contract
from service.runs.scope import Ran, RunScope
from statemachines.kernel.machine import Stream
from statemachines.runs.ledger import Amounts, plain
from statemachines.runs.steps import advance_run, end_run
from statemachines.runs.steps import advance_run as starting
from statemachines.runs.steps.book import Book, FencingToken, require_runner

_DECIMALS = 6
_READ_ERRORS = ("run_not_found", "automation_mismatch")


_OF_STARTS = (
    "trigger_receipt_not_found",
    "automation_mismatch",
    "automation_disabled",
    "automation_paused",
    "receipt_already_consumed",
    "receipt_expired",
    "receipt_not_claimable",
    "receipt_policy_superseded",
    "case_revision_stale",
    "claim_required_for_run",
    "materiality_not_met",
    "budget_exhausted",
)


@groups.AUTOMATION.post("/v1/projects/{project_id}/automation-runs", "Start the one run of a trigger receipt")
@Who(RUNNER, scope="runs:write")
@Fencing(idempotency="required")
@Docs({201: wire.Run, 200: wire.Run}, errors=_OF_STARTS)
async def start_automation_run(call: Call, data: JSONBody[wire.StartRun]) -> Outcome | Answer:
    """Consume the receipt, create the run and charge the budgets as one. A repeat names the same run (R-AUT-28)."""
    store, project_id = call.services.store, call.project_id
    row = await reads.receipt_row(store, project_id, data.trigger_receipt_id)
    command = starting.StartRun(project_id=project_id, receipt_id=row.id, holder=holder_of(call))
    outcome = await call.carry_out_on(
        row,
        read_again(call, RECEIPTS, row),
        lambda latest: acting.begin_run(command, latest).shown_by(_started),
    )
    if not outcome.replayed:
        return outcome
    book = await reads.run(store, project_id, msgspec.json.decode(outcome.body)["run_id"])
    return Answer(200, show_run.run(book, idempotent_replay=True), {"idempotent-replayed": "true"})


def _started(run: Stream, unit: Unit) -> Answer:
    """Show a run that this unit began: nothing hangs on it yet."""
    state = unit.state(run)
    scope = RunScope(run.project_id, run.id, state.automation_id, state.claim_id, state.case_id)
    return Answer(201, show_run.run(end_run.as_of(scope.open(unit), unit.now)))


@groups.AUTOMATION.get("/v1/projects/{project_id}/automation-runs", "List automation runs")
@Who(KEY_OR_RUNNER, scope="runs:read")
@Docs(wire.RunList)
async def list_automation_runs(call: Call, params: NamedDependency[wire.RunQuery]) -> Answer:
    """List runs by the time they began, newest first, by what they are now."""
    project_id, store = call.project_id, call.services.store
    automation_id = seen_automation(call, params.automation_id)
    books, cursor = await read_page(
        params,
        partial(
            reads.runs,
            store,
            project_id,
            automation_id=automation_id,
            case_id=params.case_id,
            status=params.status,
        ),
        lambda book: PageEnd(book.run.started_at, book.run_id),
        lambda book: params.status in (None, book.run.status.outcome),
    )
    return Answer(200, _list(project_id, books, cursor))


def _list(project_id: str, books: list[Book], cursor: str | None) -> wire.RunList:
    return wire.RunList(
        project_id=project_id,
        runs=[show_run.run(book) for book in books],
        count=len(books),
        next_cursor=cursor,
        next_action="Read a run with GET /v1/automation-runs/{run_id}." if books else "No run matches. Nothing to do.",
        origins=wire.RUNS_ORIGINS,
    )


@groups.AUTOMATION.get("/v1/automation-runs/{run_id}", "Read an automation run")
@Who(KEY_OR_RUNNER, scope="runs:read", subject=RUN_LOCATED)
@Docs(wire.Run, errors=_READ_ERRORS)
async def get_automation_run(call: Call, params: NamedDependency[WaitQuery]) -> Answer:
    """Show a run with everything around it, as it stands now."""
    row: RunRow = call.subject
    require_visible(call, row.automation_id)
    await call.listen(row.id, params)
    book = await reads.run(call.services.store, row.project_id, row.id)
    call.saw(book.run.state_revision)
    return Answer(200, show_run.run(book))


@groups.AUTOMATION.get("/v1/automation-runs/{run_id}/policy", "Read the policy that a run works under")
@Who(RUNNER, scope="runs:read", subject=RUN_LOCATED)
@Docs(wire.RunPolicy, errors=(*_READ_ERRORS, "automation_disabled", "automation_paused"), extension=True)
async def get_automation_run_policy(call: Call) -> Answer:
    """Show a runner the policy of its run. Once an owner has withdrawn it, the runner is refused (G-114)."""
    row: RunRow = call.subject
    require_visible(call, row.automation_id)
    contract = await read_contract(call.services.store, row.project_id)
    return Answer(200, show_run.policy(row, contract))


def show_updated(ran: Ran[Any], unit: Unit) -> Answer:
    """Answer a command with the run after it."""
    return Answer(200, show_run.run(end_run.as_of(ran.book, unit.now)))


@groups.AUTOMATION.patch(
    "/v1/automation-runs/{run_id}", "Report progress, the opened pull request, or the end of a run"
)
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs(wire.Run, errors=(*TOKEN_ERRORS, "run_transition_not_allowed", "pr_proof_mismatch", "approval_rejected"))
async def update_automation_run(call: Call, data: JSONBody[wire.UpdateRun]) -> Outcome:
    """Take one of the steps of G-106. Every other combination is a step that no run has."""
    token = token_of(call, data)
    return await on_run(call, lambda row: _step(row, token, data), show_updated)


def _step(row: RunRow, token: FencingToken, body: wire.UpdateRun) -> Intent[Ran[None]]:
    """Choose the command of a PATCH. Raises InvalidPayload when a member that belongs to the status is missing."""
    given = {name for name in ("phase", "status", "reason", "summary_md", "pull_request") if _given(body, name)}
    if given == {"phase"} and body.phase == "running":
        return acting.progress(row, token)
    if body.status == "draft_pr_opened" and given <= {"status", "pull_request"}:
        opened = body.pull_request
        if isinstance(opened, msgspec.UnsetType):
            raise _missing("pull_request")
        reported = advance_run.ReportedPullRequest(opened.number, opened.url, opened.head_sha)
        return acting.report_pr(row, token, reported)
    if body.status in {"failed", "escalated"} and given <= {"status", "reason", "summary_md"}:
        reason = text_of(body.reason)
        if reason is None:
            raise _missing("reason")
        outcome: Literal["failed", "escalated"] = "failed" if body.status == "failed" else "escalated"
        return acting.hand_over(row, token, advance_run.HandOver(outcome, reason, text_of(body.summary_md)))
    return acting.refuse(row, token)


def _given(body: wire.UpdateRun, name: str) -> bool:
    return getattr(body, name) is not msgspec.UNSET


def _missing(name: str) -> InvalidPayload:
    return InvalidPayload(
        "The status needs a member that is missing.", missing=[name], schema=body_schema(wire.UpdateRun)
    )


@groups.AUTOMATION.post("/v1/automation-runs/{run_id}/usage", "Charge turns, cost and run time before they are used")
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="required")
@Docs(wire.UsageRecorded, errors=(*TOKEN_ERRORS, "run_transition_not_allowed", "budget_exhausted"))
async def record_automation_usage(call: Call, data: JSONBody[wire.RecordUsage]) -> Outcome:
    """Charge all of it or nothing (R-AUT-35)."""
    token = token_of(call, data)
    usage = advance_run.Usage(_amounts(data), text_of(data.label))
    return await on_run(call, lambda row: acting.charge(row, token, usage), _charged, on_replay=_charged_before)


def _charged(ran: Ran[None], unit: Unit) -> Answer:
    return Answer(200, show_run.usage(end_run.as_of(ran.book, unit.now)))


def _charged_before(_: Unit, stored: StoredAnswer) -> Answer:
    body = msgspec.json.decode(stored.body) | {"idempotent_replay": True}
    return Answer(stored.status, body, stored.headers)


def _amounts(body: wire.RecordUsage) -> Amounts:
    """The amounts of a body, exactly. Raises InvalidPayload for none at all, and for more than six decimals."""
    # The shortest text of a number of this size is the one that was sent.
    cost = Decimal(repr(body.cost_usd))
    exponent = cost.normalize().as_tuple().exponent
    if isinstance(exponent, int) and -exponent > _DECIMALS:
        raise InvalidPayload(
            "The cost has too many decimals.",
            invalid=[("cost_usd", "must have at most 6 decimals")],
            schema=body_schema(wire.RecordUsage),
        )
    if not (body.turns or cost or body.runtime_seconds):
        raise InvalidPayload(
            "A charge needs at least one amount above 0.",
            invalid=[(name, "must be above 0, or another amount") for name in ("turns", "cost_usd", "runtime_seconds")],
            schema=body_schema(wire.RecordUsage),
        )
    return Amounts(body.turns, plain(cost), body.runtime_seconds)


@groups.AUTOMATION.post("/v1/automation-runs/{run_id}/cancel", "Withdraw service authority over a run")
@Who(KEY_OR_RUNNER, scope="runs:write", owner=True, subject=RUN_LOCATED)
@Fencing(idempotency="required")
@Docs(wire.CancelledRun, errors=("run_not_found", "automation_mismatch", "claim_required", "run_terminal"))
async def cancel_automation_run(call: Call, data: JSONBody[wire.CancelRun]) -> Outcome:
    """Close service authority only: nothing outside is closed, cancelled, undone or rolled back (R-AUT-51)."""
    runner, key = call.runner, call.key
    if key is None:
        raise IdempotencyKeyRequired
    if runner is not None:
        require_runner(call.subject.state, runner)
    command = end_run.CancelRun(hashlib.sha256(key.encode()).hexdigest(), text_of(data.reason))
    return await on_run(call, lambda row: acting.cancel(row, command), _cancelled)


def _cancelled(ran: Ran[None], unit: Unit) -> Answer:
    return Answer(200, show_run.cancelled(end_run.as_of(ran.book, unit.now)))


ENDPOINTS = [
    start_automation_run,
    list_automation_runs,
    get_automation_run,
    get_automation_run_policy,
    update_automation_run,
    record_automation_usage,
    cancel_automation_run,
]
