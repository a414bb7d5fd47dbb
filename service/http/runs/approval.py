"""Approvals at the edge: a runner asks, members see, an owner decides (G-108)."""

from functools import partial

import msgspec
import rfc8785
from litestar.di import NamedDependency
from litestar.params import JSONBody

from projections.runs import APPROVALS, ApprovalRow
from schemas.kernel.published import body_schema
from schemas.runs import approval as wire
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, Outcome, Unit
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import read_page
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, OWNER, RUNNER, Subject
from service.http.runs.on_run import RUN_LOCATED, TOKEN_ERRORS, on_run, token_of
from service.runs import acting
from service.runs import control as reads
from service.runs import shown as show
from service.runs.scope import Ran
from statemachines.runs.approval import OwnerDecision, Status
from statemachines.runs.steps import use_grant


@groups.AUTOMATION.post("/v1/automation-runs/{run_id}/approvals", "Request a person's approval of an action")
@Who(RUNNER, scope="approvals:request", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs(
    {201: wire.RequestedApproval, 200: wire.RequestedApproval},
    errors=(*TOKEN_ERRORS, "run_transition_not_allowed", "approval_rejected"),
)
async def request_automation_approval(call: Call, data: JSONBody[wire.RequestApproval]) -> Outcome:
    """Put a question to a person. The run waits. What the runner writes is shown and never acted upon."""
    token = token_of(call, data)
    wish = use_grant.RequestApproval(data.action, data.summary, _evidence(data))
    return await on_run(call, lambda row: acting.request_approval(row, token, wish), _requested)


def _requested(ran: Ran[str], _: Unit) -> Answer:
    shown = show.requested_approval(ran.book, ran.result)
    return Answer(201 if ran.changed else 200, shown)


def _evidence(body: wire.RequestApproval) -> str | None:
    """The evidence as canonical text. Raises InvalidPayload when it is over its bound."""
    if isinstance(body.evidence, msgspec.UnsetType):
        return None
    canonical = rfc8785.dumps(body.evidence)
    if len(canonical) > wire.MAX_EVIDENCE_BYTES:
        raise InvalidPayload(
            "The evidence is too large.",
            invalid=[("evidence", f"must be at most {wire.MAX_EVIDENCE_BYTES} bytes in canonical form")],
            schema=body_schema(wire.RequestApproval),
        )
    return canonical.decode()


@groups.AUTOMATION.get("/v1/projects/{project_id}/automation-approvals", "List requests for approval")
@Who(KEY)
@Docs(wire.ApprovalList)
async def list_automation_approvals(call: Call, params: NamedDependency[wire.ApprovalQuery]) -> Answer:
    """List requests by the time they were made, newest first, by what they are now."""
    project_id = call.project_id
    items, cursor = await read_page(
        params,
        partial(reads.approvals, call.services.store, project_id, run_id=params.run_id, status=params.status),
        lambda item: PageEnd(item.row.requested_at, item.row.id),
        lambda item: params.status in (None, item.state.status.value),
    )
    waiting = any(item.state.status is Status.PENDING for item in items)
    approvals = [show.approval(project_id, item.row.id, item.state) for item in items]
    return Answer(200, _list(project_id, approvals, cursor, waiting=waiting))


def _list(project_id: str, approvals: list[wire.Approval], cursor: str | None, *, waiting: bool) -> wire.ApprovalList:
    return wire.ApprovalList(
        project_id=project_id,
        approvals=approvals,
        count=len(approvals),
        next_cursor=cursor,
        next_action="An owner decides each pending request." if waiting else "Nothing waits for a decision.",
    )


@groups.AUTOMATION.post("/v1/automation-approvals/{approval_id}/decide", "Approve or reject a request")
@Who(OWNER, owner=True, subject=Subject("approval_id", APPROVALS, "approval_not_found"), fresh_when="it approves")
@Fencing(idempotency="optional")
@Docs(wire.Approval, errors=("approval_not_found", "approval_already_decided", "approval_cancelled"))
async def decide_automation_approval(call: Call, data: JSONBody[wire.DecideApproval]) -> Outcome:
    """Record an owner's word. No runner or CI credential can."""
    row: ApprovalRow = call.subject
    if data.decision == "approve":
        call.ask_fresh()
    decision = OwnerDecision(data.decision == "approve", call.user_id, text_of(data.reason))
    run = await reads.run_row(call.services.store, call.project_id, row.run_id)
    command = partial(acting.decide_approval, approval_id=row.id, decision=decision)
    return await on_run(call, command, partial(_decided, row), row=run)


def _decided(row: ApprovalRow, ran: Ran[None], _: Unit) -> Answer:
    return Answer(200, show.approval(row.project_id, row.id, ran.book.approval(row.id)))


ENDPOINTS = [request_automation_approval, list_automation_approvals, decide_automation_approval]
