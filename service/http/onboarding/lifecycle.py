"""Onboarding up to its approval: read, start, review (R-ONB-40 to R-ONB-50)."""

from functools import partial
from http import HTTPStatus

from litestar.di import NamedDependency
from litestar.params import JSONBody

from projections.onboarding import OnboardingRow
from schemas import onboarding as wire
from schemas.kernel.shape import AsOfQuery
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.headers import matches_tag
from service.http.declare.operations import KEY, OWNER
from service.onboarding import helper as onboarding_helper
from service.onboarding import lifecycle
from service.onboarding.evidence import reshape
from statemachines.onboarding import plan as plans

PATH = "/v1/projects/{project_id}/onboarding"


@groups.ONBOARDING.get(PATH, "Read the onboarding of a project")
@Who(OWNER, owner=True, as_of=True)
@Docs(wire.OnboardingState, errors=("onboarding_not_started",))
async def get_onboarding(call: Call, params: NamedDependency[AsOfQuery]) -> Answer:
    """Show where the onboarding stands; 404 before its start (R-ONB-41)."""
    return _state(await lifecycle.read_onboarding(call.rows(params), call.project_id))


@groups.ONBOARDING.post(PATH, "Start an onboarding with a plan, or replace its plan")
@Who(OWNER, owner=True)
@Body(max_body=wire.MAX_PLAN_BYTES)
@Fencing(if_match="optional", idempotency="optional")
@Docs(
    {201: wire.PlannedState, 200: wire.OnboardingState},
    errors=("onboarding_state_conflict", "precondition_failed", "if_match_required"),
)
async def start_onboarding(call: Call, data: JSONBody[wire.StartRequest]) -> Outcome:
    """Make a plan the current one. An exact replay is shown what is there (R-ONB-43 to R-ONB-46)."""
    wish = await call.work_on_body(partial(_checked, data.plan, "plan"))
    return await call.carry_out(lifecycle.start(call.project_id, wish, call.if_match), _started)


@groups.ONBOARDING.post(f"{PATH}/review", "Approve or reject the exact plan")
@Who(OWNER, owner=True, fresh_when="it approves")
@Body(max_body=wire.MAX_PLAN_BYTES)
@Fencing(if_match="required", idempotency="optional")
@Docs(wire.OnboardingState, errors=("onboarding_not_started", "plan_hash_mismatch", "onboarding_state_conflict"))
async def review_onboarding(call: Call, data: JSONBody[wire.ReviewRequest]) -> Outcome:
    """Approve the plan, which makes it the signal map, or put another in its place (R-ONB-47 to R-ONB-50)."""
    if isinstance(data, wire.ApproveRequest):
        call.ask_fresh()
        return await call.carry_out(lifecycle.approve(call.project_id, data.plan_sha256, call.if_match), _state)
    wish = await call.work_on_body(partial(_checked, data.replacement_plan, "replacement_plan"))
    return await call.carry_out(lifecycle.replace(call.project_id, data.plan_sha256, wish, call.if_match), _state)


def _checked(plan: wire.Plan, path: str) -> plans.ProposedPlan:
    return plans.propose(reshape(plan, plans.Plan), path)


def _state(row: OnboardingRow, status: int = HTTPStatus.OK) -> Answer:
    return Answer(status, lifecycle.state(row), {"etag": row.etag})


def _started(started: lifecycle.Started) -> Answer:
    return _state(started.row, HTTPStatus.CREATED if started.first else HTTPStatus.OK)


# Onboarding from its approval on: proof, verify, and the helper that takes snapshots (R-ONB-51 to R-ONB-64).

HELPER = onboarding_helper.load_module()


@groups.ONBOARDING.post(f"{PATH}/proof", "Open a proof session for the final source and receive its markers once")
@Who(OWNER, owner=True)
@Body(max_body=wire.MAX_PROOF_BYTES)
@Fencing(if_match="required", idempotency="optional")
@Docs(
    {201: wire.ProofStarted}, errors=("onboarding_not_started", "source_snapshot_mismatch", "onboarding_state_conflict")
)
async def start_onboarding_proof(call: Call, data: JSONBody[wire.ProofRequest]) -> Outcome:
    """Open a session with a fresh marker pair. A former pair is dead from the commit on (R-ONB-52, R-ONB-53)."""
    snapshot = reshape(data.implementation_source_snapshot, plans.SourceSnapshot)
    return await call.carry_out(lifecycle.begin_proof(call.project_id, snapshot, call.if_match), _begun)


@groups.ONBOARDING.post(f"{PATH}/verify", "Verify the proof, or list its gaps")
@Who(OWNER, owner=True)
@Body(max_body=0)
@Fencing(if_match="required", idempotency="optional")
@Docs(wire.VerifyAnswer, errors=("onboarding_not_started", "onboarding_state_conflict"))
async def verify_onboarding(call: Call) -> Outcome:
    """Judge the open session. Only a complete proof is recorded, with the signal map's (R-ONB-54 to R-ONB-59)."""
    services = call.services
    intent = await lifecycle.verify(services.store, services.providers, call.project_id, call.if_match)
    return await call.carry_out(intent, _verified)


@groups.ONBOARDING.get(
    "/v1/onboarding/source-snapshot.mjs", "Download the source snapshot program, for Node 20 and later"
)
@Who(frozenset({PrincipalKind.ANONYMOUS}))
@Fencing(rate="none")
@Docs({200: str, 304: None}, content_type="text/javascript; charset=utf-8")
async def get_source_snapshot_module(call: Call) -> Outcome:
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


# The signal map: read, and put before any onboarding (R-MAP-01 to R-MAP-04, G-060).

_PATH = "/v1/projects/{project_id}/signal-map"


@groups.SIGNAL_MAP.get(_PATH, "Read the signal map of a project")
@Who(KEY, as_of=True)
@Docs(wire.SignalMap, errors=("signal_map_not_found",), flows=frozenset({"install", "onboarding", "automation"}))
async def get_signal_map(call: Call, params: NamedDependency[AsOfQuery]) -> Answer:
    """Show the approved plan as a map; 404 while none is approved."""
    return Answer(200, lifecycle.shown_signal_map(await lifecycle.read_signal_map(call.rows(params), call.project_id)))


@groups.SIGNAL_MAP.put(_PATH, "Save a reviewed plan as the signal map of a project without onboarding")
@Who(OWNER, owner=True)
@Body(max_body=wire.MAX_PLAN_BYTES)
@Fencing(idempotency="optional")
@Docs(
    {201: wire.SignalMap, 200: wire.SignalMap},
    errors=("signal_map_managed_by_onboarding",),
    flows=frozenset({"install"}),
)
async def put_signal_map(call: Call, data: JSONBody[wire.Plan]) -> Outcome:
    """Make a plan the map. The same plan again changes nothing."""
    wish = await call.work_on_body(partial(_signal_map_checked, data))
    return await call.carry_out(lifecycle.put_map(call.project_id, wish), _put)


def _signal_map_checked(plan: wire.Plan) -> plans.ProposedPlan:
    return plans.propose(reshape(plan, plans.Plan), "")


def _put(put: lifecycle.PutMap) -> Answer:
    return Answer(HTTPStatus.CREATED if put.first else HTTPStatus.OK, lifecycle.shown_signal_map(put.row))


ENDPOINTS = [
    get_onboarding,
    start_onboarding,
    review_onboarding,
    start_onboarding_proof,
    verify_onboarding,
    get_source_snapshot_module,
    get_signal_map,
    put_signal_map,
]
