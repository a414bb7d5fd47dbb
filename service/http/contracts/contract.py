"""The automation contract: validate, save, read, enable, pause, disable (G-101, G-103).

Save, pause and disable are fences of the project: when one is acknowledged, nothing that began under the former
contract can commit any more. Enable grants authority and takes none away, so it is an ordinary command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from projections.contracts.contract import AUTOMATION_CONTRACTS, AutomationContractRow, AutomationRow
from schemas.contracts.contract import (
    MAX_CONTRACT_BYTES,
    MAX_ERRORS,
    AutomationContract,
    AutomationGap,
    ContractAutomation,
    ContractInput,
    ContractProblem,
    ContractValidation,
    DisableRequest,
    EnableAnswer,
    EnableReceipt,
    EnableRequest,
    PauseAnswer,
    PauseRequest,
    Readiness,
)
from schemas.contracts.playbook import PlaybookRef
from service.auth.refusals import InvalidPayload
from service.contracts.readiness import gather
from service.eventstore.commands import Answer, Outcome, StoredAnswer, Unit
from service.http.contracts.faults import refuse_document
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY, OWNER
from service.http.edge.validation import text_of
from service.ids import new_id
from statemachines.contracts import contract as contracts
from statemachines.contracts.contract import (
    ContractNotFound,
    EnableWish,
    Status,
    command_of,
    decide_disable,
    decide_enable,
    decide_pause,
    decide_save,
    find_receipt,
)
from statemachines.contracts.documents import WORKFLOW, check_contract, make_document
from statemachines.contracts.readiness import find_gaps
from statemachines.kernel.machine import Stream

_PATH = "/v1/projects/{project_id}/automation-contract"
_NEXT = {
    Status.DISABLED.value: "Create the runner credentials, review the contract, and have an owner enable it.",
    Status.ENABLED.value: "Let the scheduler wake each runner; pause stops everything at once.",
    Status.PAUSED.value: "Everything is off until an owner reviews this contract and enables it again.",
}


def show_contract(row: AutomationContractRow) -> AutomationContract:
    """The artifact as clients see it."""
    return AutomationContract(
        contract_id=row.id,
        project_id=row.project_id,
        revision=row.state_revision,
        etag=row.etag,
        contract_sha256=row.contract_sha256,
        enabled=any(automation.enabled for automation in row.automations),
        paused=row.paused_at is not None,
        paused_at=row.paused_at,
        automations=[_show_automation(automation) for automation in row.automations],
        enable_receipt=row.enable_receipt,
        created_at=row.created_at,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
        next_action=_NEXT[row.status],
    )


def _show_automation(row: AutomationRow) -> ContractAutomation:
    saved = row.saved
    return ContractAutomation(
        # Ids of published playbooks only: nothing else is ever saved.
        playbook=msgspec.convert(
            {"id": saved.playbook_id, "version": saved.playbook_version, "template_hash": saved.template_hash},
            PlaybookRef,
        ),
        bindings=msgspec.json.decode(saved.bindings),
        readiness_assertions=msgspec.json.decode(saved.readiness_assertions),
        policy=msgspec.json.decode(saved.policy),
        automation_id=saved.automation_id,
        enabled=row.enabled,
        enabled_at=row.enabled_at,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
        policy_sha256=saved.policy_sha256,
    )


def _contract_in(unit: Unit, stream: Stream) -> AutomationContract:
    row = unit.row(AUTOMATION_CONTRACTS, stream.project_id, stream.id)
    assert row is not None, "a saved contract has a row"
    return show_contract(row)


def _tagged(contract: AutomationContract) -> Mapping[str, str]:
    return {"etag": contract.etag}


def _person(call: Call[Any, Any]) -> str:
    assert call.principal.user_id is not None
    return call.principal.user_id


@groups.AUTOMATION.operation(
    method="POST",
    path=f"{_PATH}/validate",
    operation_id="validate_automation_contract",
    summary="Check a contract input and the project's readiness, without saving anything",
    principals=KEY,
    max_body=MAX_CONTRACT_BYTES,
    responses={200: ContractValidation},
    mutation=False,
    idempotency="optional",
)
async def validate_contract(call: Call[ContractInput, None]) -> Answer:
    """Say everything that a save would refuse and everything that an enable would miss (R-AUT-01)."""
    project_id, store = call.project_id, call.services.store
    entries = call.body.automations
    checked = check_contract(entries)
    evidence = await gather(store, project_id, checked.automations)
    facts = evidence.facts(await store.now())
    gaps = [
        AutomationGap(automation.automation_id, gap.code, gap.message)
        for automation in checked.automations
        for gap in find_gaps(automation, facts)
    ]
    gaps += [
        AutomationGap(automation_id, WORKFLOW, "The workflow is not the one that this playbook enables.")
        for automation_id in checked.other_workflows
    ]
    valid = not checked.errors
    if valid:
        next_action = "Have an owner save this input with PUT; it stays disabled until an owner enables it."
    else:
        next_action = "Correct the errors by their paths, or render the playbook again and use its entry unchanged."
    result = ContractValidation(
        valid=valid,
        project_id=project_id,
        errors=[ContractProblem(*problem) for problem in checked.errors[:MAX_ERRORS]],
        readiness=Readiness(ready=valid and not gaps, gaps=gaps),
        contract_sha256=make_document(entries, checked).contract_sha256 if valid else None,
        next_action=next_action,
    )
    return Answer(200, result)


@groups.AUTOMATION.operation(
    method="PUT",
    path=_PATH,
    operation_id="put_automation_contract",
    summary="Save a disabled contract, the first or in place of the current one",
    principals=OWNER,
    owner=True,
    max_body=MAX_CONTRACT_BYTES,
    responses={201: AutomationContract, 200: AutomationContract},
    if_match="optional",
    idempotency="optional",
)
async def put_contract(call: Call[ContractInput, None]) -> Outcome:
    """Save a contract with everything off (R-AUT-02 to R-AUT-04)."""
    checked = check_contract(call.body.automations)
    if checked.errors:
        raise refuse_document(
            "The contract is not one that the server renders.",
            checked.errors,
            msgspec.json.schema(ContractInput),
            checked.locked_paths,
        )
    document = make_document(call.body.automations, checked)
    stream, saved_by = contracts.stream(call.project_id), _person(call)

    def decide(unit: Unit) -> Answer:
        state = unit.state(stream)
        events = decide_save(
            state, document, contract_id=stream.id, if_match=call.if_match, saved_by=saved_by, now=unit.now
        )
        unit.append(stream, events)
        contract = _contract_in(unit, stream)
        return Answer(201 if state.status is Status.ABSENT else 200, contract, _tagged(contract))

    return await call.execute(decide, streams=[stream], fence=True)


@groups.AUTOMATION.operation(
    method="GET",
    path=_PATH,
    operation_id="get_automation_contract",
    summary="Read the contract and its etag",
    principals=KEY,
    responses={200: AutomationContract},
    errors=("automation_contract_not_found",),
)
async def get_contract(call: Call[None, None]) -> Answer:
    """Read the contract (R-AUT-04)."""
    project_id = call.project_id
    row = await call.services.store.get(AUTOMATION_CONTRACTS, project_id, contracts.stream(project_id).id)
    if row is None:
        raise ContractNotFound(
            "The project has no automation contract.", next_action="Render a playbook and save the contract."
        )
    contract = show_contract(row)
    return Answer(200, contract, _tagged(contract))


@groups.AUTOMATION.operation(
    method="POST",
    path=f"{_PATH}/enable",
    operation_id="enable_automation_contract",
    summary="Turn on one automation or all of them, exactly as reviewed",
    principals=OWNER,
    owner=True,
    responses={200: EnableAnswer},
    if_match="required",
    idempotency="required",
    errors=("automation_contract_not_found", "automation_not_found", "readiness_incomplete"),
)
async def enable_contract(call: Call[EnableRequest, None]) -> Outcome:
    """Turn automations on; a repeat with the same key recovers the receipt and turns nothing on (R-AUT-05)."""
    project_id, enabled_by = call.project_id, _person(call)
    assert call.key is not None
    stream = contracts.stream(project_id)
    wish = EnableWish(
        receipt_id=new_id("enr"),
        automation_id=text_of(call.body.automation_id),
        if_match=call.if_match,
        command=command_of(f"{call.principal.kind.value}:{call.principal.id}", call.key),
        request=call.fingerprint,
    )
    row = await call.services.store.get(AUTOMATION_CONTRACTS, project_id, stream.id)
    # Of a contract that is replaced after this read, the etag sent is stale: nothing is decided by these facts then.
    automations = [] if row is None else [automation.saved for automation in row.automations]
    evidence = await gather(call.services.store, project_id, automations)

    def decide(unit: Unit) -> Answer:
        facts = evidence.facts_under_locks(unit)
        events = decide_enable(unit.state(stream), wish, facts, enabled_by=enabled_by, now=unit.now)
        kept = find_receipt(unit.append(stream, events), wish.command)
        assert kept is not None, "an enable that was carried out has its receipt"
        return _enabled(unit, stream, kept.receipt, replay=not events)

    def replay(unit: Unit, stored: StoredAnswer) -> Answer:
        kept = find_receipt(unit.state(stream), wish.command)
        receipt = msgspec.json.decode(stored.body, type=EnableAnswer).enable_receipt if kept is None else kept.receipt
        return _enabled(unit, stream, receipt, replay=True)

    return await call.execute(decide, streams=[stream], lookups=evidence.lookups, on_replay=replay)


def _enabled(unit: Unit, stream: Stream, receipt: EnableReceipt, *, replay: bool) -> Answer:
    contract = _contract_in(unit, stream)
    still = contract.etag == receipt.etag
    answer = EnableAnswer(
        enable_receipt=receipt,
        contract=contract,
        idempotent_replay=replay,
        next_action=(
            "Let the scheduler wake the runner of each enabled automation."
            if still
            else "The contract has moved on since this receipt: read its state here before anything else."
        ),
    )
    return Answer(200, answer, _tagged(contract))


@groups.AUTOMATION.operation(
    method="POST",
    path=f"{_PATH}/pause",
    operation_id="pause_automation_contract",
    summary="Stop all automation of the project at once",
    principals=KEY,
    responses={200: PauseAnswer},
    idempotency="optional",
    errors=("automation_contract_not_found",),
)
async def pause_contract(call: Call[PauseRequest, None]) -> Outcome:
    """Stop everything, whatever revision the contract is at (R-AUT-06)."""
    stream, paused_by, reason = contracts.stream(call.project_id), _person(call), text_of(call.body.reason)

    def decide(unit: Unit) -> Answer:
        unit.append(stream, decide_pause(unit.state(stream), reason=reason, paused_by=paused_by, now=unit.now))
        contract = _contract_in(unit, stream)
        assert contract.paused_at is not None, "a paused contract says since when"
        answer = PauseAnswer(contract=contract, paused_at=contract.paused_at, next_action=contract.next_action)
        return Answer(200, answer, _tagged(contract))

    return await call.execute(decide, streams=[stream], fence=True)


@groups.AUTOMATION.operation(
    method="PATCH",
    path=f"{_PATH}/automations/{{automation_id}}",
    operation_id="disable_automation",
    summary="Turn one automation off",
    principals=KEY,
    responses={200: AutomationContract},
    if_match="required",
    idempotency="optional",
    errors=("automation_contract_not_found", "automation_not_found"),
)
async def disable_automation(call: Call[DisableRequest, None]) -> Outcome:
    """Turn one automation off at the revision that was read (R-AUT-07)."""
    if call.body.enabled:
        refusal = InvalidPayload(
            "This operation only turns an automation off.",
            invalid=[("enabled", "must be false")],
            schema=msgspec.json.schema(DisableRequest),
        )
        refusal.next_action = f"To turn it on, an owner posts to {_PATH}/enable with If-Match and Idempotency-Key."
        raise refusal
    stream, disabled_by, reason = contracts.stream(call.project_id), _person(call), text_of(call.body.reason)

    def decide(unit: Unit) -> Answer:
        events = decide_disable(
            unit.state(stream),
            call.path["automation_id"],
            reason=reason,
            if_match=call.if_match,
            disabled_by=disabled_by,
            now=unit.now,
        )
        unit.append(stream, events)
        contract = _contract_in(unit, stream)
        return Answer(200, contract, _tagged(contract))

    return await call.execute(decide, streams=[stream], fence=True)


ENDPOINTS = [
    validate_contract,
    put_contract,
    get_contract,
    enable_contract,
    pause_contract,
    disable_automation,
]
