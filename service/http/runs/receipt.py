"""Trigger receipts at the edge: issue, list, detail; and the decisions behind them (G-104, R-AUT-20 to R-AUT-24)."""

from __future__ import annotations

from typing import Any

from projections.runs.receipt import PROJECTION as RECEIPTS
from projections.runs.receipt import TRIGGER_EVIDENCE, TriggerReceiptRow
from schemas.runs.decision import Decision, DecisionList, DecisionQuery
from schemas.runs.receipt import (
    IssuedTriggers,
    IssueTriggers,
    Skipped,
    TriggerQuery,
    TriggerReceipt,
    TriggerReceiptList,
)
from service.eventstore.commands import Answer, Outcome, Unit
from service.eventstore.pages import Place
from service.http.edge.call import Call
from service.http.edge.declaring import endpoint
from service.http.edge.operations import KEY, Subject
from service.http.runs.calls import (
    FLOWS,
    KEY_OR_RUNNER,
    carry_out,
    project_of,
    read_page,
    require_visible,
    seen_automation,
)
from service.runs import views
from service.runs.books import receipt_stream, retried
from service.runs.candidates import SHOWN, look_for_work
from service.runs.chains import Issued, Plan, latest_slot, plan_case_issue, plan_slot_issue
from service.runs.reading import RECEIPT_BUNDLE, ReceiptBundle, read_bundles, read_contract
from statemachines.contracts.authority import authority_of
from statemachines.contracts.contract import Contract
from statemachines.contracts.policy import require_enabled
from statemachines.runs.receipt import Receipt, Status

_SOURCE = "trigger_receipts t where t.project_id = %s and (t.issued_at, t.id) < (%s, %s)"
_ORDER = " order by t.issued_at desc, t.id desc limit %s"

# What a receipt may be recorded as while this is what it is now.
_RECORDED = {
    "issued": ["issued"],
    "claimed": ["claimed"],
    "consumed": ["consumed"],
    "expired": ["issued", "expired"],
    "closed": ["claimed", "closed"],
    "invalidated": ["issued", "claimed", "invalidated"],
}


@endpoint(
    method="POST",
    path="/v1/projects/{project_id}/automation-triggers/issue",
    operation_id="issue_automation_triggers",
    group="automation",
    summary="Look for work and issue trigger receipts for it",
    principals=KEY_OR_RUNNER,
    scope="triggers:issue",
    owner=True,
    body=IssueTriggers,
    responses={200: IssuedTriggers},
    idempotency="optional",
    closed_errors=True,
    flows=FLOWS,
    errors=("automation_not_found", "automation_mismatch", "automation_disabled", "automation_paused"),
)
async def issue_triggers(call: Call[IssueTriggers, None]) -> Outcome:
    """Issue receipts from the server's clock and the saved policy; the caller only names the automation."""
    project_id, automation_id = project_of(call), call.body.automation_id
    require_visible(call, automation_id)

    async def attempt() -> Outcome:
        store = call.services.store
        look = await look_for_work(store, project_id, automation_id)
        authority = authority_of(look.contract, automation_id)
        skipped: list[Skipped] = []
        if require_enabled(authority).case_trigger is not None:
            judged = look.judged(automation_id)
            skipped = [Skipped(code=code, case_id=case_id) for case_id, code in judged.skipped[:SHOWN]]
            plan: Plan[Issued] = plan_case_issue(project_id, automation_id, judged.candidates)
        else:
            known = {bundle.receipt.id for bundle in look.open}
            plan = plan_slot_issue(project_id, automation_id, latest_slot(authority, look.now), known)
        still_open = _still_open(look.open, look.contract)

        def answer(issued: Issued, unit: Unit) -> Answer:
            new = [_shown(unit, project_id, receipt_id) for receipt_id in issued.receipt_ids]
            passed = [Skipped(code=code, case_id=case_id) for case_id, code in issued.skipped_cases]
            passed += [Skipped(code=code, scheduled_for=at) for at, code in issued.skipped_slots]
            receipts = [*new, *still_open]
            body = IssuedTriggers(
                project_id=project_id,
                automation_id=automation_id,
                server_time=unit.now,
                trigger_receipts=receipts,
                count=len(receipts),
                skipped=[*passed, *skipped],
                next_action=_FOUND if receipts else _NOTHING,
            )
            return Answer(200, body)

        return await carry_out(call, plan, answer)

    return await retried(attempt)


_FOUND = "Claim the case of a receipt, or start the run of a scheduled one, before it expires."
_NOTHING = "There is no work now; look again when the scheduler wakes the runner next."


def _shown(unit: Unit, project_id: str, receipt_id: str) -> TriggerReceipt:
    """A receipt that this unit issued."""
    state: Receipt = unit.state(receipt_stream(project_id, receipt_id))
    evidence = None if state.case is None else unit.row(TRIGGER_EVIDENCE, project_id, receipt_id)
    return views.receipt(project_id, receipt_id, state, None if evidence is None else evidence.title)


def _still_open(bundles: list[ReceiptBundle], contract: Contract) -> list[TriggerReceipt]:
    """The receipts that were open before; they are shown with the new ones."""
    states = [(bundle.receipt, bundle.state(contract), bundle.title) for bundle in bundles]
    return [views.receipt(row.project_id, row.id, state, title) for row, state, title in states if not state.over]


@endpoint(
    method="GET",
    path="/v1/projects/{project_id}/automation-trigger-receipts",
    operation_id="list_automation_trigger_receipts",
    group="automation",
    summary="List trigger receipts",
    principals=KEY_OR_RUNNER,
    scope="triggers:read",
    query=TriggerQuery,
    responses={200: TriggerReceiptList},
    mutation=False,
    closed_errors=True,
    flows=FLOWS,
)
async def list_receipts(call: Call[None, TriggerQuery]) -> Answer:
    """List receipts by the time they were issued, newest first, by what they are now."""
    project_id, query = project_of(call), call.query
    shown, cursor = await _page(call, query, query.automation_id, query.status)
    items = [views.receipt(project_id, bundle.receipt.id, state, bundle.title) for bundle, state in shown]
    body = TriggerReceiptList(
        project_id=project_id,
        trigger_receipts=items,
        count=len(items),
        next_cursor=cursor,
        next_action=_FOUND if any(item.status == "issued" for item in items) else _NOTHING,
    )
    return Answer(200, body)


Shown = tuple[ReceiptBundle, Receipt]


async def _page(
    call: Call[Any, Any], query: Any, automation_id: str | None, status: str | None
) -> tuple[list[Shown], str | None]:
    project_id, store = project_of(call), call.services.store
    contracts: list[Contract] = []
    filters: list[tuple[str, Any]] = [
        (" and t.automation_id = %s", seen_automation(call, automation_id)),
        (" and t.status = any(%s)", None if status is None else _RECORDED[status]),
    ]
    used = [(condition, value) for condition, value in filters if value is not None]
    source = _SOURCE + "".join(condition for condition, _ in used) + _ORDER

    async def fetch(start: Place, limit: int) -> list[Shown]:
        bundles = await read_bundles(
            store, ReceiptBundle, RECEIPT_BUNDLE, source, project_id, start.at, start.id, *(v for _, v in used), limit
        )
        if not contracts:
            contracts.append(await read_contract(store, project_id))
        return [(bundle, bundle.state(contracts[0])) for bundle in bundles]

    return await read_page(
        query,
        fetch,
        lambda item: Place(item[0].receipt.issued_at, item[0].receipt.id),
        lambda item: status is None or item[1].status is Status(status),
    )


@endpoint(
    method="GET",
    path="/v1/automation-trigger-receipts/{receipt_id}",
    operation_id="get_automation_trigger_receipt",
    group="automation",
    summary="Read a trigger receipt",
    principals=KEY_OR_RUNNER,
    scope="triggers:read",
    subject=Subject("receipt_id", RECEIPTS.table, "trigger_receipt_not_found"),
    responses={200: TriggerReceipt},
    mutation=False,
    closed_errors=True,
    flows=FLOWS,
    errors=("trigger_receipt_not_found", "automation_mismatch"),
)
async def read_receipt(call: Call[None, None]) -> Answer:
    """Show a receipt: before a claim the only source on its case, after a start the name of its run (R-AUT-24)."""
    row: TriggerReceiptRow = call.subject
    require_visible(call, row.automation_id)
    source = "trigger_receipts t where t.project_id = %s and t.id = %s"
    store = call.services.store
    [bundle] = await read_bundles(store, ReceiptBundle, RECEIPT_BUNDLE, source, row.project_id, row.id)
    state = bundle.state(await read_contract(store, row.project_id))
    return Answer(200, views.receipt(row.project_id, row.id, state, bundle.title))


@endpoint(
    method="GET",
    path="/v1/projects/{project_id}/automation-decisions",
    operation_id="list_automation_decisions",
    group="automation",
    summary="List the materiality decisions behind receipts and starts",
    principals=KEY,
    query=DecisionQuery,
    responses={200: DecisionList},
    mutation=False,
    closed_errors=True,
    flows=FLOWS,
    extension=True,
)
async def list_decisions(call: Call[None, DecisionQuery]) -> Answer:
    """List decisions by receipt, newest first; `limit` counts receipts, each of which has one or two decisions."""
    shown, cursor = await _page(call, call.query, call.query.automation_id, None)
    items: list[Decision] = []
    for bundle, _ in shown:
        items += views.decisions(bundle.receipt.id, bundle.receipt.state)
    body = DecisionList(
        project_id=project_of(call),
        decisions=items,
        count=len(items),
        next_cursor=cursor,
        next_action="Decide any of them again from its inputs and thresholds; the answer is the same.",
    )
    return Answer(200, body)


ENDPOINTS = [issue_triggers, list_receipts, read_receipt, list_decisions]
