"""Approvals at the edge: a runner asks, members see, an owner decides (G-108)."""

from __future__ import annotations

from typing import Any

import msgspec
import rfc8785

from projections.runs.approval import PROJECTION as APPROVALS
from projections.runs.approval import ApprovalRow
from projections.runs.run import PROJECTION as RUNS
from schemas.runs.approval import (
    MAX_EVIDENCE_BYTES,
    Approval,
    ApprovalList,
    ApprovalQuery,
    DecideApproval,
    RequestApproval,
)
from service.auth.refusals import InvalidPayload
from service.eventstore.commands import Answer, Outcome, Unit
from service.eventstore.pages import Place
from service.http.edge.call import Call
from service.http.edge.declaring import endpoint
from service.http.edge.operations import KEY, OWNER, Subject
from service.http.runs.calls import (
    FLOWS,
    RUN_LOCATED,
    RUNNER,
    TOKEN_ERRORS,
    on_row,
    on_run,
    project_of,
    read_page,
    run_row,
    text_of,
    token_of,
)
from service.runs import views
from service.runs.reading import RUN_BUNDLE, RunBundle, read_bundles, read_contract
from service.runs.running import Ran, plan_decision, plan_request
from statemachines.contracts.contract import Contract
from statemachines.runs import approving
from statemachines.runs.approval import OwnerDecision, Status

_BUNDLE = f"json_build_object('approval', row_to_json(a), 'around', {RUN_BUNDLE})"
_SOURCE = (
    "approvals a join automation_runs r on r.project_id = a.project_id and r.id = a.run_id "
    "where a.project_id = %s and (a.requested_at, a.id) < (%s, %s)"
)
_ORDER = " order by a.requested_at desc, a.id desc limit %s"


class _Found(msgspec.Struct, frozen=True):
    """A request with the run it belongs to, as of one statement."""

    approval: ApprovalRow
    around: RunBundle


@endpoint(
    method="POST",
    path="/v1/automation-runs/{run_id}/approvals",
    operation_id="request_automation_approval",
    group="automation",
    summary="Ask a person for approval of an action",
    principals=RUNNER,
    scope="approvals:request",
    subject=RUN_LOCATED,
    body=RequestApproval,
    responses={201: Approval, 200: Approval},
    idempotency="optional",
    closed_errors=True,
    flows=FLOWS,
    errors=(*TOKEN_ERRORS, "run_transition_not_allowed", "approval_rejected"),
)
async def request_approval(call: Call[RequestApproval, None]) -> Outcome:
    """Put a question to a person; the run waits. What the runner writes is shown and never acted upon."""
    token, body = token_of(call), call.body
    wish = approving.RequestApproval(body.action, body.summary, _evidence(body))

    def answer(ran: Ran[str], _: Unit) -> Answer:
        shown = views.approval(project_of(call), ran.result, ran.book.approval(ran.result))
        return Answer(201 if ran.changed else 200, shown)

    return await on_run(call, lambda row: plan_request(row, token, wish), answer)


def _evidence(body: RequestApproval) -> str | None:
    """The evidence as canonical text. Raises InvalidPayload when it is over its bound."""
    if isinstance(body.evidence, msgspec.UnsetType):
        return None
    canonical = rfc8785.dumps(body.evidence)
    if len(canonical) > MAX_EVIDENCE_BYTES:
        raise InvalidPayload(
            "The evidence is too large.",
            invalid=[("evidence", f"must be at most {MAX_EVIDENCE_BYTES} bytes in canonical form")],
            schema=msgspec.json.schema(RequestApproval),
        )
    return canonical.decode()


@endpoint(
    method="GET",
    path="/v1/projects/{project_id}/automation-approvals",
    operation_id="list_automation_approvals",
    group="automation",
    summary="List requests for approval",
    principals=KEY,
    query=ApprovalQuery,
    responses={200: ApprovalList},
    mutation=False,
    closed_errors=True,
    flows=FLOWS,
)
async def list_approvals(call: Call[None, ApprovalQuery]) -> Answer:
    """List requests by the time they were made, newest first, by what they are now."""
    project_id, query, store = project_of(call), call.query, call.services.store
    contracts: list[Contract] = []
    recorded = None
    if query.status is not None:
        recorded = [query.status] if query.status in {"approved", "rejected"} else [query.status, "pending"]
    filters: list[tuple[str, Any]] = [(" and a.run_id = %s", query.run_id), (" and a.status = any(%s)", recorded)]
    used = [(condition, value) for condition, value in filters if value is not None]
    source = _SOURCE + "".join(condition for condition, _ in used) + _ORDER

    async def fetch(start: Place, limit: int) -> list[Approval]:
        found = await read_bundles(
            store, _Found, _BUNDLE, source, project_id, start.at, start.id, *(v for _, v in used), limit
        )
        if not contracts:
            contracts.append(await read_contract(store, project_id))
        return [_show(item, contracts[0]) for item in found]

    items, cursor = await read_page(
        query,
        fetch,
        lambda item: Place(item.requested_at, item.approval_id),
        lambda item: query.status in (None, item.status),
    )
    waiting = any(item.status == Status.PENDING.value for item in items)
    body = ApprovalList(
        project_id=project_id,
        approvals=items,
        count=len(items),
        next_cursor=cursor,
        next_action="An owner decides each pending request." if waiting else "Nothing waits for a decision.",
    )
    return Answer(200, body)


def _show(found: _Found, contract: Contract) -> Approval:
    row = found.approval
    return views.approval(row.project_id, row.id, found.around.book(contract).approvals[row.id])


@endpoint(
    method="POST",
    path="/v1/automation-approvals/{approval_id}/decide",
    operation_id="decide_automation_approval",
    group="automation",
    summary="Approve or reject a request",
    principals=OWNER,
    owner=True,
    subject=Subject("approval_id", APPROVALS.table, "approval_not_found"),
    body=DecideApproval,
    responses={200: Approval},
    idempotency="optional",
    closed_errors=True,
    flows=FLOWS,
    errors=("approval_not_found", "approval_already_decided"),
)
async def decide_approval(call: Call[DecideApproval, None]) -> Outcome:
    """Record an owner's word; no runner or CI credential can."""
    row: ApprovalRow = call.subject
    assert call.principal.user_id is not None
    verdict = OwnerDecision(call.body.decision == "approve", call.principal.user_id, text_of(call.body.reason))

    def answer(ran: Ran[None], _: Unit) -> Answer:
        return Answer(200, views.approval(row.project_id, row.id, ran.book.approval(row.id)))

    run = await run_row(call, row.run_id)
    return await on_row(call, RUNS.table, run, lambda latest: plan_decision(latest, row.id, verdict), answer)


ENDPOINTS = [request_approval, list_approvals, decide_approval]
