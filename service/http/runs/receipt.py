"""Trigger receipts at the edge: issue, list, detail (G-104, R-AUT-20 to R-AUT-24)."""

from functools import partial

from litestar.di import NamedDependency
from litestar.params import JSONBody

from projections.runs import RECEIPTS, TRIGGER_EVIDENCE, TriggerReceiptRow
from schemas.credentials import CredentialMetadata
from schemas.runs import receipt as wire
from schemas.runs.control import AutomationControl
from schemas.runs.decision import DecisionList, DecisionQuery
from service.credentials.credential import metadata_of
from service.eventstore.declare.commands import Answer, Intent, Outcome, Unit
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, KEY_OR_RUNNER, Subject
from service.http.runs.on_run import read_receipts, require_visible
from service.runs import control as reads
from service.runs import control as show_control
from service.runs import decision as show_decision
from service.runs import issuing
from service.runs import shown as show
from service.runs.looking import SHOWN, Judged, Look, Looker, Taken, look_for_work, record
from statemachines.contracts.policy import AutomationNotFound, AutomationOff
from statemachines.runs import receipt as receipts

_FOUND = "Claim the case of a receipt, or start the run of a scheduled one, before it expires."
_DROPPED = "Stop. An owner can add the automation to the contract again and enable it."
_NOTHING = "There is no work now. Ask again when the scheduler wakes the runner."


@groups.AUTOMATION.post(
    "/v1/projects/{project_id}/automation-triggers/issue", "Issue trigger receipts for the work found"
)
@Who(KEY_OR_RUNNER, scope="triggers:issue", owner=True)
@Fencing(idempotency="optional")
@Docs(
    wire.IssuedTriggers,
    errors=("automation_not_found", "automation_mismatch", "automation_disabled", "automation_paused"),
)
async def issue_automation_triggers(call: Call, data: JSONBody[wire.IssueTriggers]) -> Outcome:
    """Issue receipts from the server's clock and the saved policy. The caller only names the automation."""
    project_id, automation_id = call.project_id, data.automation_id
    require_visible(call, automation_id)
    store, taken = call.services.store, list[Taken]()
    look_again = partial(look_for_work, store, project_id, automation_id)
    asked = Looker("issue", call.principal.kind.value)
    try:
        issue = partial(_issue, project_id, automation_id, asked, taken)
        outcome = await call.carry_out_on(await look_again(), look_again, issue)
    except AutomationNotFound as error:
        if call.runner is None:
            raise
        # A runner names its own automation: the contract had it once (G-114).
        raise AutomationOff("The contract no longer has this automation.", next_action=_DROPPED) from error
    if not outcome.replayed:
        await record(store.facts, taken[-1:])
    return outcome


def _issue(project_id: str, automation_id: str, asked: Looker, taken: list[Taken], look: Look) -> Intent[Answer]:
    """Issue for what a look came to; `taken` gets what is kept of the look."""
    judged = look.judged(automation_id)
    taken.append(look.taken(project_id, automation_id, asked, judged))
    known = {bundle.receipt.id for bundle in look.open}
    intent = issuing.issue(project_id, automation_id, judged, asked, known)
    return intent.shown_by(partial(_issued, project_id, automation_id, look, judged))


def _issued(
    project_id: str, automation_id: str, look: Look, judged: Judged, issued: issuing.Issued, unit: Unit
) -> Answer:
    """Show the new receipts, those that were open before, and what was passed over."""
    passed = [wire.Skipped(code=code, case_id=case_id) for case_id, code in issued.skipped_cases]
    passed += [wire.Skipped(code=code, scheduled_for=at) for at, code in issued.skipped_slots]
    passed += [wire.Skipped(code=code, case_id=case_id) for case_id, code in judged.skipped[:SHOWN]]
    shown = [*(_new(unit, project_id, receipt_id) for receipt_id in issued.receipt_ids), *_still_open(look)]
    body = wire.IssuedTriggers(
        project_id=project_id,
        automation_id=automation_id,
        server_time=unit.now,
        trigger_receipts=shown,
        count=len(shown),
        skipped=passed,
        next_action=_FOUND if shown else _NOTHING,
        origins=wire.ISSUED_ORIGINS,
    )
    return Answer(200, body)


def _new(unit: Unit, project_id: str, receipt_id: str) -> wire.TriggerReceipt:
    """A receipt that this unit issued."""
    state: receipts.ReceiptState = unit.state(receipts.stream(project_id, receipt_id))
    evidence = None if state.case is None else unit.row(TRIGGER_EVIDENCE, project_id, receipt_id)
    return show.receipt(project_id, receipt_id, state, None if evidence is None else evidence.title)


def _still_open(look: Look) -> list[wire.TriggerReceipt]:
    """The receipts that were open before. They are shown with the new ones."""
    states = [(bundle.receipt, bundle.state(look.contract), bundle.title) for bundle in look.open]
    return [show.receipt(row.project_id, row.id, state, title) for row, state, title in states if not state.over]


@groups.AUTOMATION.get("/v1/projects/{project_id}/automation-trigger-receipts", "List trigger receipts")
@Who(KEY_OR_RUNNER, scope="triggers:read")
@Docs(wire.TriggerReceiptList)
async def list_automation_trigger_receipts(call: Call, params: NamedDependency[wire.TriggerQuery]) -> Answer:
    """List receipts by the time they were issued, newest first, by what they are now."""
    found, cursor = await read_receipts(call, params, params.automation_id, params.status)
    items = [show.receipt(call.project_id, item.row.id, item.state, item.title) for item in found]
    body = wire.TriggerReceiptList(
        project_id=call.project_id,
        trigger_receipts=items,
        count=len(items),
        next_cursor=cursor,
        next_action=_FOUND if any(item.status == "issued" for item in items) else _NOTHING,
        origins=wire.RECEIPTS_ORIGINS,
    )
    return Answer(200, body)


@groups.AUTOMATION.get("/v1/automation-trigger-receipts/{receipt_id}", "Read a trigger receipt")
@Who(KEY_OR_RUNNER, scope="triggers:read", subject=Subject("receipt_id", RECEIPTS, "trigger_receipt_not_found"))
@Docs(wire.TriggerReceipt, errors=("trigger_receipt_not_found", "automation_mismatch"))
async def get_automation_trigger_receipt(call: Call) -> Answer:
    """Show a receipt: before a claim the only source on its case, after a start the name of its run (R-AUT-24)."""
    row: TriggerReceiptRow = call.subject
    require_visible(call, row.automation_id)
    found = await reads.receipt(call.services.store, row.project_id, row.id)
    return Answer(200, show.receipt(row.project_id, row.id, found.state, found.title))


# Decisions at the edge: why cases were offered, started on or passed over, to decide again (R-AUT-22, G-137).


@groups.AUTOMATION.get(
    "/v1/projects/{project_id}/automation-decisions", "List the decisions to offer, start or pass over cases"
)
@Who(KEY)
@Docs(DecisionList, extension=True)
async def list_automation_decisions(call: Call, params: NamedDependency[DecisionQuery]) -> Answer:
    """List decisions, newest first: one for each time that the answer for a case changed, while the plan keeps it."""
    passed = None if params.verdict is None else params.verdict == "passed"
    wanted = show_decision.DecisionFilter(params.case_id, params.automation_id, passed)
    found = await show_decision.decisions(
        call.services.store, call.project_id, start_of(params), params.limit + 1, wanted
    )
    shown, cursor = page(found, params, lambda item: item.place)
    body = DecisionList(
        project_id=call.project_id,
        decisions=[show_decision.decision(item.row) for item in shown],
        count=len(shown),
        next_cursor=cursor,
        next_action="You can recompute each decision from its inputs and thresholds.",
    )
    return Answer(200, body)


# Control at the edge: one consistent read of a project's automation at one server time (G-102, R-AUT-11).


@groups.AUTOMATION.get(
    "/v1/projects/{project_id}/automation-control",
    "Read contract, budgets, credentials, exceptions and controls together",
)
@Who(KEY)
@Docs(AutomationControl)
async def get_automation_control(call: Call) -> Answer:
    """Show everything at one server time. There is no queue and nothing to acknowledge."""
    await call.services.authenticator.uses.flush()
    snapshot = await show_control.read_snapshot(call.services.store, call.project_id)
    credentials = [
        CredentialMetadata(**metadata_of(item.row, item.last_used_at, snapshot.now)) for item in snapshot.credentials
    ]
    return Answer(200, show_control.control(call.project_id, snapshot, credentials))


ENDPOINTS = [
    issue_automation_triggers,
    list_automation_trigger_receipts,
    get_automation_trigger_receipt,
    list_automation_decisions,
    get_automation_control,
]
