"""Onboarding from its approval on: proof, verify, and the helper that takes snapshots (R-ONB-51 to R-ONB-64)."""

from __future__ import annotations

from http import HTTPStatus

from schemas.onboarding import MAX_PROOF_BYTES, ProofRequest, ProofStarted, VerifyAnswer
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Body, Docs, Fencing, Who
from service.http.edge.declare.headers import matches_tag
from service.http.edge.declare.operations import OWNER
from service.onboarding import helper as onboarding_helper
from service.onboarding import lifecycle
from service.onboarding.evidence import reshape
from statemachines.onboarding.plan import SourceSnapshot

PATH = "/v1/projects/{project_id}/onboarding"
HELPER = onboarding_helper.load_module()


@groups.ONBOARDING.post(f"{PATH}/proof", "Open a proof session for the final source and receive its markers once")
@Who(OWNER, owner=True)
@Body(max_body=MAX_PROOF_BYTES)
@Fencing(if_match="required", idempotency="optional")
@Docs({201: ProofStarted}, errors=("onboarding_not_started", "source_snapshot_mismatch", "onboarding_state_conflict"))
async def start_onboarding_proof(call: Call[ProofRequest, None]) -> Outcome:
    """Open a session with a fresh marker pair; a former pair is dead from the commit on (R-ONB-52, R-ONB-53)."""
    snapshot = reshape(call.body.implementation_source_snapshot, SourceSnapshot)
    return await call.carry_out(lifecycle.begin_proof(call.project_id, snapshot, call.if_match), _begun)


@groups.ONBOARDING.post(f"{PATH}/verify", "Verify the proof, or list its gaps")
@Who(OWNER, owner=True)
@Body(max_body=0)
@Fencing(if_match="required", idempotency="optional")
@Docs(VerifyAnswer, errors=("onboarding_not_started", "onboarding_state_conflict"))
async def verify_onboarding(call: Call[None, None]) -> Outcome:
    """Judge the open session; only a complete proof is recorded, with the signal map's (R-ONB-54 to R-ONB-59)."""
    services = call.services
    intent = await lifecycle.verify(services.store, services.providers, call.project_id, call.if_match)
    return await call.carry_out(intent, _verified)


@groups.ONBOARDING.get(
    "/v1/onboarding/source-snapshot.mjs", "Download the source snapshot program, for Node 20 and later"
)
@Who(frozenset({PrincipalKind.ANONYMOUS}))
@Fencing(rate="none")
@Docs({200: str, 304: None}, content_type="text/javascript; charset=utf-8")
async def get_source_snapshot_module(call: Call[None, None]) -> Outcome:
    """Serve the helper, or say that the caller's copy is current (R-ONB-64)."""
    headers = {"etag": HELPER.etag, "cache-control": "public, max-age=300"}
    if matches_tag(call.header("if-none-match"), HELPER.etag):
        return Outcome(HTTPStatus.NOT_MODIFIED, b"", headers)
    return Outcome(HTTPStatus.OK, HELPER.body, headers)


def _begun(begun: lifecycle.ProofBegun) -> Answer:
    """Markers are never stored: a repeat with the same Idempotency-Key is decided anew (G-008)."""
    return Answer(HTTPStatus.CREATED, lifecycle.proof_started(begun), {"etag": begun.row.etag}, pending=True)


def _verified(verified: lifecycle.Verified) -> Answer:
    """An incomplete answer is not final, so a repeat with the same Idempotency-Key looks again (G-008)."""
    headers = {"etag": verified.row.etag}
    return Answer(HTTPStatus.OK, lifecycle.verify_answer(verified), headers, pending=not verified.ok)


ENDPOINTS = [start_onboarding_proof, verify_onboarding, get_source_snapshot_module]
