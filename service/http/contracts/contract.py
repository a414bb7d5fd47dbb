"""The automation contract: validate, save, read, enable, pause, disable (G-101, G-103)."""

import asyncio
from dataclasses import replace
from functools import partial

import msgspec
import psycopg
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from psycopg_pool import PoolTimeout

from projections.contracts import AutomationContractRow
from schemas.contracts import contract as wire
from schemas.kernel.published import body_schema
from schemas.kernel.shape import AsOfQuery
from service.auth.refusals import InvalidPayload
from service.contracts import contract as contracts
from service.contracts.sample_sizes import propose
from service.eventstore.declare.commands import Answer, Outcome, StoredAnswer, Unit
from service.fairness.turns import ReadNotDone
from service.http.body.validation import text_of
from service.http.contracts.faults import read_document
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import KEY, OWNER
from service.ids import new_id
from service.runs import sweep
from statemachines.contracts.contract import EnableWish, command_of
from statemachines.contracts.documents import check_contract

EFFECT_SECONDS = 0.25  # of the two within which a stop is answered
_PATH = "/v1/projects/{project_id}/automation-contract"


def _contract(row: AutomationContractRow, status: int = 200) -> Answer:
    contract = contracts.shown_contract(row)
    return Answer(status, contract, {"etag": contract.etag})


def _saved(saved: contracts.Saved) -> Answer:
    return _contract(saved.row, 201 if saved.first else 200)


def _paused(row: AutomationContractRow) -> Answer:
    return Answer(200, contracts.paused(row), {"etag": row.etag})


def _disabled(row: AutomationContractRow) -> Answer:
    return Answer(200, contracts.disabled(row), {"etag": row.etag})


async def _with_effects(call: Call, outcome: Outcome, automation_id: str | None = None) -> Outcome:
    """Add to the answer of a stop which effects had begun, read after its commit: nothing begins after that.

    The stop stands whether they can be read or not, and nobody waits for it: without them the answer says null.
    """
    try:
        async with asyncio.timeout(EFFECT_SECONDS):
            found = await sweep.started(call.services.store, call.project_id, automation_id, limit=wire.MAX_EFFECTS + 1)
    except (TimeoutError, ReadNotDone, PoolTimeout, psycopg.Error):
        return outcome
    shown = {
        "effects_started": contracts.effects(found[: wire.MAX_EFFECTS]),
        "effects_truncated": len(found) > wire.MAX_EFFECTS,
    }
    return replace(outcome, body=msgspec.json.encode(msgspec.json.decode(outcome.body) | shown))


def _enabled(enabled: contracts.Enabled) -> Answer:
    return Answer(200, contracts.enabled(enabled), {"etag": enabled.row.etag})


def _enabled_before(project_id: str, wish: EnableWish, unit: Unit, stored: StoredAnswer) -> Answer:
    answered = msgspec.json.decode(stored.body, type=wire.EnableAnswer).enable_receipt
    return _enabled(contracts.enabled_before(unit, project_id, wish, answered))


@groups.AUTOMATION.post(
    f"{_PATH}/validate", "Check a contract input and the project's readiness, without saving anything"
)
@Who(KEY)
@Body(max_body=wire.MAX_CONTRACT_BYTES)
@Fencing(mutation=False, idempotency="optional")
@Docs(wire.ContractValidation)
async def validate_automation_contract(call: Call, data: JSONBody[wire.ContractInput]) -> Answer:
    """Say everything that a save would refuse and everything that an enable would miss (R-AUT-01)."""
    checked = await call.work_on_body(partial(check_contract, data.automations))
    examined = await contracts.examine(call.services.store, call.project_id, data.automations, checked)
    services = call.services
    proposals = await propose(services.store, services.providers, call.project_id, checked.automations, examined.basis)
    return Answer(200, await call.work_on_body(partial(contracts.validation, call.project_id, examined, proposals)))


@groups.AUTOMATION.put(_PATH, "Save a disabled contract, new or in place of the current one")
@Who(OWNER, owner=True)
@Body(max_body=wire.MAX_CONTRACT_BYTES)
@Fencing(if_match="optional", idempotency="optional")
@Docs({201: wire.AutomationContract, 200: wire.AutomationContract})
async def put_automation_contract(call: Call, data: JSONBody[wire.ContractInput]) -> Outcome:
    """Save a contract with everything off (R-AUT-02 to R-AUT-04)."""
    document = await call.work_on_body(partial(read_document, data.automations, wire.ContractInput))
    intent = contracts.save(call.project_id, document, if_match=call.if_match, saved_by=call.user_id)
    return await call.carry_out(intent, _saved)


@groups.AUTOMATION.get(_PATH, "Read the contract and its etag")
@Who(KEY, as_of=True)
@Docs(wire.AutomationContract, errors=("automation_contract_not_found",))
async def get_automation_contract(call: Call, params: NamedDependency[AsOfQuery]) -> Answer:
    """Read the contract (R-AUT-04)."""
    return _contract(await contracts.find_contract(call.rows(params), call.project_id))


@groups.AUTOMATION.post(f"{_PATH}/enable", "Enable one automation or all of them, exactly as reviewed")
@Who(OWNER, owner=True, fresh=True)
@Fencing(if_match="required", idempotency="required")
@Docs(wire.EnableAnswer, errors=("automation_contract_not_found", "automation_not_found", "readiness_incomplete"))
async def enable_automation_contract(call: Call, data: JSONBody[wire.EnableRequest]) -> Outcome:
    """Turn automations on; a repeat with the same key recovers the receipt and turns nothing on (R-AUT-05)."""
    assert call.key is not None
    wish = EnableWish(
        receipt_id=new_id("enr"),
        automation_id=text_of(data.automation_id),
        if_match=call.if_match,
        command=command_of(f"{call.principal.kind.value}:{call.principal.id}", call.key),
        request=call.request_hash,
    )
    intent = await contracts.enable(call.services.store, call.project_id, wish, enabled_by=call.user_id)
    return await call.carry_out(intent, _enabled, on_replay=partial(_enabled_before, call.project_id, wish))


@groups.AUTOMATION.post(f"{_PATH}/pause", "Pause all automation of a project at once")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.PauseAnswer, errors=("automation_contract_not_found",))
async def pause_automation_contract(call: Call, data: JSONBody[wire.PauseRequest]) -> Outcome:
    """Stop everything, whatever revision the contract is at (R-AUT-06)."""
    intent = contracts.pause(call.project_id, reason=text_of(data.reason), paused_by=call.user_id)
    return await _with_effects(call, await call.carry_out(intent, _paused))


@groups.AUTOMATION.patch(f"{_PATH}/automations/{{automation_id}}", "Disable one automation")
@Who(KEY)
@Fencing(if_match="required", idempotency="optional")
@Docs(wire.DisabledContract, errors=("automation_contract_not_found", "automation_not_found"))
async def disable_automation(call: Call, data: JSONBody[wire.DisableRequest], automation_id: FromPath[str]) -> Outcome:
    """Disable one automation at the revision that was read (R-AUT-07)."""
    if data.enabled:
        raise _only_off()
    intent = contracts.disable(
        call.project_id,
        automation_id,
        reason=text_of(data.reason),
        if_match=call.if_match,
        disabled_by=call.user_id,
    )
    return await _with_effects(call, await call.carry_out(intent, _disabled), automation_id)


def _only_off() -> InvalidPayload:
    refusal = InvalidPayload(
        "This operation only turns an automation off.",
        invalid=[("enabled", "must be false")],
        schema=body_schema(wire.DisableRequest),
    )
    refusal.next_action = f"To turn it on, an owner posts to {_PATH}/enable with If-Match and Idempotency-Key."
    return refusal


ENDPOINTS = [
    validate_automation_contract,
    put_automation_contract,
    get_automation_contract,
    enable_automation_contract,
    pause_automation_contract,
    disable_automation,
]
