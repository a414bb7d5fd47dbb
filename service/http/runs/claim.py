"""Claims at the edge: the active one of a case, creating, renewing, releasing (G-105, R-AUT-25, R-AUT-26)."""

from functools import partial

from litestar.params import FromPath, JSONBody

from projections.runs import CLAIMS, LEASES, RUNS, ClaimRow, RunRow
from schemas.kernel.published import body_schema
from schemas.runs.receipt import Claim, CreateClaim, ReleaseClaim, RenewClaim
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, Intent, Outcome, Unit
from service.http.body.validation import text_of
from service.http.cases.case import CASE_LOCATED
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY_OR_RUNNER, RUNNER
from service.http.runs.on_run import holder_of, require_visible
from service.runs import acting
from service.runs import control as reads
from service.runs import shown as show
from statemachines.runs import claim as claims
from statemachines.runs import lease as leases
from statemachines.runs.steps.offer import ClaimCase, Release

_ERRORS = ("case_not_found", "claim_not_found", "claim_required", "automation_mismatch")


@groups.AUTOMATION.get("/v1/cases/{case_id}/claims/active", "Read the active claim of a case")
@Who(KEY_OR_RUNNER, scope="claims:write", subject=CASE_LOCATED)
@Docs(Claim, errors=("case_not_found", "claim_not_found", "automation_mismatch"))
async def get_active_claim(call: Call) -> Answer:
    """Show the active claim of a case."""
    row = await reads.active_claim(call.services.store, call.project_id, call.subject.id)
    if row is None:
        raise claims.ClaimNotFound(
            "No claim holds this case.", next_action="Wait for a receipt for the case, and claim it."
        )
    require_visible(call, row.automation_id)
    return Answer(200, show.claim(call.project_id, row.id, row.state))


_OF_CLAIMING = (
    "case_not_found",
    "trigger_receipt_not_found",
    "automation_mismatch",
    "automation_disabled",
    "automation_paused",
    "receipt_not_claimable",
    "receipt_expired",
    "receipt_policy_superseded",
    "case_revision_stale",
    "case_already_claimed",
    "materiality_not_met",
)


@groups.AUTOMATION.post("/v1/cases/{case_id}/claims", "Claim an exact revision of a case under a receipt")
@Who(RUNNER, scope="claims:write", subject=CASE_LOCATED)
@Fencing(idempotency="optional")
@Docs({201: Claim, 200: Claim}, errors=_OF_CLAIMING)
async def create_claim(call: Call, data: JSONBody[CreateClaim]) -> Outcome:
    """Hold the case for 900 seconds. The same runner's repeat names the same claim."""
    store, command = call.services.store, _wish(call, data)
    named = (LEASES, command.project_id, leases.lease_id(command.project_id, command.case_id))
    return await call.carry_out_on(
        await store.locate(*named),
        partial(store.get, *named),
        lambda lease: acting.take_claim(command, lease).shown_by(_claimed),
    )


def _wish(call: Call, data: CreateClaim) -> ClaimCase:
    return ClaimCase(
        project_id=call.project_id,
        case_id=call.subject.id,
        receipt_id=data.trigger_receipt_id,
        case_revision=data.case_revision,
        holder=holder_of(call),
    )


def _claimed(claimed: acting.Claimed, unit: Unit) -> Answer:
    stream = claimed.claim
    return Answer(201 if claimed.new else 200, show.claim(stream.project_id, stream.id, unit.state(stream)))


async def _claim_row(call: Call, claim_id: str) -> ClaimRow:
    """The claim that the path names, of the case that it names. Raises ClaimNotFound."""
    row = await call.services.store.get(CLAIMS, call.project_id, claim_id)
    if row is None or row.case_id != call.subject.id:
        raise claims.ClaimNotFound("There is no such claim.", next_action="Read the active claim of the case.")
    return row


async def _resting(call: Call, claim_id: str) -> tuple[ClaimRow, RunRow | None]:
    """The claim of the path, and its run while the clocks of both rest. Raises ClaimNotFound."""
    row = await _claim_row(call, claim_id)
    if not row.state.resting or row.run_id is None:
        return row, None
    return row, await call.services.store.get(RUNS, call.project_id, row.run_id)


async def _on_claim(call: Call, row: ClaimRow, intent: Intent[None]) -> Outcome:
    return await call.carry_out(intent.shown_by(partial(_shown, row)), lambda answer: answer)


def _shown(row: ClaimRow, _: None, unit: Unit) -> Answer:
    state = unit.state(claims.stream(row.project_id, row.id))
    return Answer(200, show.claim(row.project_id, row.id, state))


_OF_RENEWAL = (
    *_ERRORS,
    "claim_not_active",
    "lease_expired",
    "stale_lease_epoch",
    "deadline_exceeded",
    "automation_disabled",
    "automation_paused",
)


@groups.AUTOMATION.post("/v1/cases/{case_id}/claims/{claim_id}/renew", "Extend the lease of a claim")
@Who(RUNNER, scope="claims:write", subject=CASE_LOCATED)
@Fencing(idempotency="optional")
@Docs(Claim, errors=_OF_RENEWAL)
async def renew_claim(call: Call, data: JSONBody[RenewClaim], claim_id: FromPath[str]) -> Outcome:
    """Extend the lease to 900 seconds from now, no further than the deadline of the run."""
    holder, epoch = holder_of(call), data.lease_epoch
    return await call.carry_out_on(
        await _resting(call, claim_id),
        partial(_resting, call, claim_id),
        lambda found: acting.renew(found[0], holder, epoch, found[1]).shown_by(partial(_shown, found[0])),
    )


@groups.AUTOMATION.post("/v1/cases/{case_id}/claims/{claim_id}/release", "Release a claim")
@Who(KEY_OR_RUNNER, scope="claims:write", owner=True, subject=CASE_LOCATED)
@Fencing(idempotency="optional")
@Docs(Claim, errors=(*_ERRORS, "claim_not_active", "lease_expired", "stale_lease_epoch"))
async def release_claim(call: Call, data: JSONBody[ReleaseClaim], claim_id: FromPath[str]) -> Outcome:
    """End a claim. A runner names its epoch, an owner need not (R-AUT-52)."""
    holder, epoch = call.runner, data.lease_epoch
    if holder is not None and not isinstance(epoch, int):
        schema = body_schema(ReleaseClaim)
        raise InvalidPayload("A runner must send the epoch of its lease.", missing=["lease_epoch"], schema=schema)
    row = await _claim_row(call, claim_id)
    wish = Release(holder, epoch if isinstance(epoch, int) else None, text_of(data.reason))
    return await _on_claim(call, row, acting.release(row, wish))


ENDPOINTS = [get_active_claim, create_claim, renew_claim, release_claim]
