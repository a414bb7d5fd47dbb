"""Claims at the edge: the active one of a case, creating, renewing, releasing (G-105, R-AUT-25, R-AUT-26)."""

from __future__ import annotations

from typing import Any

import msgspec

from projections.cases.case import PROJECTION as CASES
from projections.runs.claim import PROJECTION as CLAIMS
from projections.runs.claim import ClaimRow
from projections.runs.lease import PROJECTION as LEASES
from projections.runs.lease import LeaseRow
from schemas.runs.claim import Claim, CreateClaim, ReleaseClaim, RenewClaim
from service.auth.refusals import InvalidPayload
from service.eventstore.commands import Answer, Outcome, Unit
from service.eventstore.store import EventStore
from service.http.edge.call import Call
from service.http.edge.declaring import endpoint
from service.http.edge.operations import Subject
from service.http.runs.calls import (
    FLOWS,
    KEY_OR_RUNNER,
    RUNNER,
    carry_out,
    holder_of,
    project_of,
    require_visible,
    runner_of,
)
from service.runs import views
from service.runs.books import claim_stream, lease_stream, retried
from service.runs.chains import Plan, plan_claim, plan_release, plan_renew
from service.runs.reading import NOW
from statemachines.kernel.machine import Stream
from statemachines.kernel.moved import Moved
from statemachines.runs.claim import ClaimNotFound, lease_live
from statemachines.runs.claiming import ClaimCase, Release

_CASE = Subject("case_id", CASES.table, "case_not_found", located=True)  # only its name is taken from it
_ERRORS = ("case_not_found", "claim_not_found", "claim_required", "automation_mismatch")
_HOLDER = (
    f"select row_to_json(t)::text, row_to_json(l)::text, {NOW} from leases l "  # noqa: S608 - a constant
    "join claims t on t.project_id = l.project_id and t.id = l.claim_id "
    "join projects p on p.project_id = l.project_id and p.status = 'active' where l.project_id = %s and l.case_id = %s"
)


async def active_claim(store: EventStore, project_id: str, case_id: str) -> ClaimRow | None:
    """Read the claim that holds a case now: current, unexpired and unreleased (R-CASE-14)."""
    for claim, lease, now in await store.fetch(_HOLDER, project_id, case_id):
        row = msgspec.json.decode(claim, type=ClaimRow)
        if lease_live(row.state, msgspec.json.decode(lease, type=LeaseRow).state, now):
            return row
    return None


@endpoint(
    method="GET",
    path="/v1/cases/{case_id}/claims/active",
    operation_id="get_active_claim",
    group="automation",
    summary="Read the claim that holds a case",
    principals=KEY_OR_RUNNER,
    scope="claims:write",
    subject=_CASE,
    responses={200: Claim},
    mutation=False,
    closed_errors=True,
    flows=FLOWS,
    errors=("case_not_found", "claim_not_found", "automation_mismatch"),
)
async def read_active_claim(call: Call[None, None]) -> Answer:
    """Show the active claim of a case."""
    project_id = project_of(call)
    row = await active_claim(call.services.store, project_id, call.subject.id)
    if row is None:
        raise ClaimNotFound("No claim holds this case.", next_action="Wait for a receipt for the case, and claim it.")
    require_visible(call, row.automation_id)
    return Answer(200, views.claim(project_id, row.id, row.state))


@endpoint(
    method="POST",
    path="/v1/cases/{case_id}/claims",
    operation_id="create_claim",
    group="automation",
    summary="Claim the exact revision of a case under a receipt",
    principals=RUNNER,
    scope="claims:write",
    subject=_CASE,
    body=CreateClaim,
    responses={201: Claim, 200: Claim},
    idempotency="optional",
    closed_errors=True,
    flows=FLOWS,
    errors=(
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
    ),
)
async def create_claim(call: Call[CreateClaim, None]) -> Outcome:
    """Hold the case for 900 seconds; the same runner's repeat names the same claim."""
    project_id = project_of(call)
    command = ClaimCase(
        project_id=project_id,
        case_id=call.subject.id,
        receipt_id=call.body.trigger_receipt_id,
        case_revision=call.body.case_revision,
        holder=holder_of(call.principal),
    )
    store, lease_id = call.services.store, lease_stream(project_id, command.case_id).id
    lease = await store.locate(LEASES.table, project_id, lease_id)

    async def attempt() -> Outcome:
        nonlocal lease
        before = None if lease is None else lease.claim_id

        def answer(stream: Stream, unit: Unit) -> Answer:
            status = 200 if stream.id == before else 201
            return Answer(status, views.claim(project_id, stream.id, unit.state(stream)))

        try:
            return await carry_out(call, plan_claim(command, lease), answer)
        except Moved:
            lease = await store.get(LEASES.table, project_id, lease_id)
            raise

    return await retried(attempt)


async def _claim_row(call: Call[Any, Any]) -> ClaimRow:
    """The claim that the path names, of the case that it names. Raises ClaimNotFound."""
    row = await call.services.store.get(CLAIMS.table, project_of(call), call.path["claim_id"])
    if row is None or row.case_id != call.subject.id:
        raise ClaimNotFound("There is no such claim.", next_action="Read the active claim of the case.")
    return row


async def _on_claim(call: Call[Any, Any], row: ClaimRow, plan: Plan[None]) -> Outcome:
    stream = claim_stream(row.project_id, row.id)
    return await carry_out(
        call, plan, lambda _, unit: Answer(200, views.claim(row.project_id, row.id, unit.state(stream)))
    )


@endpoint(
    method="POST",
    path="/v1/cases/{case_id}/claims/{claim_id}/renew",
    operation_id="renew_claim",
    group="automation",
    summary="Extend the lease of a claim",
    principals=RUNNER,
    scope="claims:write",
    subject=_CASE,
    body=RenewClaim,
    responses={200: Claim},
    idempotency="optional",
    closed_errors=True,
    flows=FLOWS,
    errors=(
        *_ERRORS,
        "claim_not_active",
        "lease_expired",
        "stale_lease_epoch",
        "deadline_exceeded",
        "automation_disabled",
        "automation_paused",
    ),
)
async def renew_claim(call: Call[RenewClaim, None]) -> Outcome:
    """Extend the lease to 900 seconds from now, no further than the deadline of the run."""
    row = await _claim_row(call)
    return await _on_claim(call, row, plan_renew(row, holder_of(call.principal), call.body.lease_epoch))


@endpoint(
    method="POST",
    path="/v1/cases/{case_id}/claims/{claim_id}/release",
    operation_id="release_claim",
    group="automation",
    summary="Give a claim back",
    principals=KEY_OR_RUNNER,
    scope="claims:write",
    owner=True,
    subject=_CASE,
    body=ReleaseClaim,
    responses={200: Claim},
    idempotency="optional",
    closed_errors=True,
    flows=FLOWS,
    errors=(*_ERRORS, "claim_not_active", "lease_expired", "stale_lease_epoch"),
)
async def release_claim(call: Call[ReleaseClaim, None]) -> Outcome:
    """End a claim; a runner names its epoch, an owner need not (R-AUT-52)."""
    holder, epoch = runner_of(call), call.body.lease_epoch
    if holder is not None and not isinstance(epoch, int):
        schema = msgspec.json.schema(ReleaseClaim)
        raise InvalidPayload("A runner names the epoch of its lease.", missing=["lease_epoch"], schema=schema)
    row = await _claim_row(call)
    reason = call.body.reason if isinstance(call.body.reason, str) else None
    release = Release(holder, epoch if isinstance(epoch, int) else None, reason)
    return await _on_claim(call, row, plan_release(row, release))


ENDPOINTS = [read_active_claim, create_claim, renew_claim, release_claim]
