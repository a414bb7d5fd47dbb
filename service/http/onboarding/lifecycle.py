"""Onboarding: start, review, proof, verify, and the source snapshot helper (R-ONB-40 to R-ONB-64)."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import TypeVar

import msgspec

from projections.onboarding.lifecycle import ONBOARDING, OnboardingRow
from schemas.onboarding.lifecycle import (
    MAX_PLAN_BYTES,
    MAX_PROOF_BYTES,
    PROOF_HEADER,
    PROOF_PROPERTY,
    PROOF_VARIABLE,
    ApproveRequest,
    OnboardingState,
    Plan,
    PlannedState,
    ProofRequest,
    ProvingState,
    ReviewRequest,
    StartRequest,
    VerifiedState,
)
from schemas.onboarding.proof import CiMarker, OneTimeMarkers, ProofStarted, RuntimeMarker, VerifyAnswer
from service.analytics.evidence import find_proof
from service.auth.principals import PrincipalKind
from service.eventstore.commands import Answer, Outcome, Unit
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import OWNER
from service.ids import new_id
from service.onboarding import helper as onboarding_helper
from service.onboarding.show import show, show_proving
from statemachines.kernel.machine import Event, Stream
from statemachines.kernel.validation import InvalidPayload
from statemachines.onboarding import lifecycle as onboarding
from statemachines.onboarding import signal_map
from statemachines.onboarding.lifecycle import OnboardingNotStarted, ProofStart, Status
from statemachines.onboarding.plan import ProposedPlan, propose
from statemachines.onboarding.proof import Findings, hash_marker

PATH = "/v1/projects/{project_id}/onboarding"
MARKER_BYTES = 32
HELPER = onboarding_helper.load_module()

T = TypeVar("T")


@groups.ONBOARDING.operation(
    method="GET",
    path=PATH,
    operation_id="get_onboarding",
    summary="Read the onboarding of a project",
    principals=OWNER,
    owner=True,
    responses={200: OnboardingState},
    errors=("onboarding_not_started",),
)
async def get_onboarding(call: Call[None, None]) -> Answer:
    """Show where the onboarding stands; 404 before its start (R-ONB-41)."""
    row = await _read(call)
    if row is None:
        raise OnboardingNotStarted("No onboarding has been started for this project.", next_action="Start one.")
    return _answer(row)


@groups.ONBOARDING.operation(
    method="POST",
    path=PATH,
    operation_id="start_onboarding",
    summary="Start an onboarding with a plan, or replace its plan",
    principals=OWNER,
    owner=True,
    max_body=MAX_PLAN_BYTES,
    responses={201: PlannedState, 200: OnboardingState},
    if_match="optional",
    idempotency="optional",
    errors=("onboarding_state_conflict", "precondition_failed", "if_match_required"),
)
async def start_onboarding(call: Call[StartRequest, None]) -> Outcome:
    """Make a plan the current one; an exact replay is shown what is there (R-ONB-43 to R-ONB-46)."""
    wish = _propose(call, call.body.plan, "plan")
    stream, map_stream = _streams(call)

    def decide(unit: Unit) -> Answer:
        state: onboarding.Onboarding = unit.state(stream)
        events = onboarding.decide_start(state, wish, id=stream.id, if_match=call.if_match, now=unit.now)
        unit.append(stream, events)
        if events and state.status in {Status.APPROVED, Status.PROVING}:
            unit.append(map_stream, signal_map.decide_withdraw(unit.state(map_stream), unit.now))
        first = state.status is Status.ABSENT
        return _answer(_row(unit, stream), HTTPStatus.CREATED if first else HTTPStatus.OK)

    return await call.execute(decide, streams=[stream, map_stream])


@groups.ONBOARDING.operation(
    method="POST",
    path=f"{PATH}/review",
    operation_id="review_onboarding",
    summary="Carry the human's decision about the exact plan",
    principals=OWNER,
    owner=True,
    max_body=MAX_PLAN_BYTES,
    responses={200: OnboardingState},
    if_match="required",
    idempotency="optional",
    errors=("onboarding_not_started", "plan_hash_mismatch", "onboarding_state_conflict"),
)
async def review_onboarding(call: Call[ReviewRequest, None]) -> Outcome:
    """Approve the plan, which makes it the signal map, or put another in its place (R-ONB-47 to R-ONB-50)."""
    body = call.body
    stream, map_stream = _streams(call)
    if isinstance(body, ApproveRequest):

        def decide(unit: Unit) -> Answer:
            state: onboarding.Onboarding = unit.state(stream)
            events = onboarding.decide_approve(state, body.plan_sha256, if_match=call.if_match, now=unit.now)
            unit.append(stream, events)
            assert state.plan is not None, "what was approved is a plan"
            of_map = signal_map.decide_record(unit.state(map_stream), state.plan, state.plan_sha256, unit.now)
            unit.append(map_stream, of_map)
            return _answer(_row(unit, stream))

    else:
        replacement = _propose(call, body.replacement_plan, "replacement_plan")

        def decide(unit: Unit) -> Answer:
            state: onboarding.Onboarding = unit.state(stream)
            events = onboarding.decide_replace(
                state, body.plan_sha256, replacement, if_match=call.if_match, now=unit.now
            )
            unit.append(stream, events)
            return _answer(_row(unit, stream))

    return await call.execute(decide, streams=[stream, map_stream])


@groups.ONBOARDING.operation(
    method="POST",
    path=f"{PATH}/proof",
    operation_id="start_onboarding_proof",
    summary="Open a proof session for the final source; its markers are shown once",
    principals=OWNER,
    owner=True,
    max_body=MAX_PROOF_BYTES,
    responses={201: ProofStarted},
    if_match="required",
    idempotency="optional",
    errors=("onboarding_not_started", "source_snapshot_mismatch", "onboarding_state_conflict"),
)
async def start_proof(call: Call[ProofRequest, None]) -> Outcome:
    """Open a session with a fresh marker pair; a former pair is dead from the commit on (R-ONB-52, R-ONB-53).

    The answer is never stored: a repeat with the same Idempotency-Key is decided anew (G-008).
    """
    stream, _ = _streams(call)
    runtime, ci = (f"{prefix}{secrets.token_urlsafe(MARKER_BYTES)}" for prefix in ("sop_rt_", "sop_ci_"))
    wish = ProofStart(
        proof_session_id=new_id("ps"),
        implementation_source_snapshot=call.body.implementation_source_snapshot,
        runtime_marker_sha256=hash_marker(runtime),
        ci_marker_sha256=hash_marker(ci),
    )
    markers = OneTimeMarkers(
        runtime=RuntimeMarker(PROOF_PROPERTY, runtime, PROOF_VARIABLE, PROOF_PROPERTY),
        ci=CiMarker(PROOF_HEADER, ci, PROOF_VARIABLE),
    )

    def decide(unit: Unit) -> Answer:
        unit.append(stream, onboarding.decide_proof(unit.state(stream), wish, if_match=call.if_match, now=unit.now))
        row = _row(unit, stream)
        body = ProofStarted(state=show_proving(row), one_time_markers=markers)
        return Answer(HTTPStatus.CREATED, body, {"etag": row.etag}, pending=True)

    return await call.execute(decide, streams=[stream])


@groups.ONBOARDING.operation(
    method="POST",
    path=f"{PATH}/verify",
    operation_id="verify_onboarding",
    summary="Look for the proof; what is missing is listed",
    principals=OWNER,
    owner=True,
    max_body=0,
    responses={200: VerifyAnswer},
    if_match="required",
    idempotency="optional",
    errors=("onboarding_not_started", "onboarding_state_conflict"),
)
async def verify_onboarding(call: Call[None, None]) -> Outcome:
    """Judge the open session; only a complete proof is recorded, with the signal map's (R-ONB-54 to R-ONB-59).

    An incomplete answer is not final, so a repeat with the same Idempotency-Key looks again (G-008).
    """
    stream, map_stream = _streams(call)
    findings = await _find(call)

    def decide(unit: Unit) -> Answer:
        state = unit.state(stream)
        verdict = onboarding.decide_verify(state, findings, if_match=call.if_match, now=unit.now)
        unit.append(stream, verdict.events)
        unit.append(map_stream, _of_map(verdict.events, unit.state(map_stream)))
        row = _row(unit, stream)
        shown = show(row)
        assert isinstance(shown, ProvingState | VerifiedState), "other states are refused"
        body = VerifyAnswer(ok=verdict.ok, state=shown, remaining=verdict.remaining)
        return Answer(HTTPStatus.OK, body, {"etag": row.etag}, pending=not verdict.ok)

    return await call.execute(decide, streams=[stream, map_stream])


@groups.ONBOARDING.operation(
    method="GET",
    path="/v1/onboarding/source-snapshot.mjs",
    operation_id="get_source_snapshot_module",
    summary="The program that takes a source snapshot, for Node 20 and later",
    principals=frozenset({PrincipalKind.ANONYMOUS}),
    responses={200: str, 304: None},
    rate="none",
    content_type="text/javascript; charset=utf-8",
)
async def get_source_snapshot_module(call: Call[None, None]) -> Outcome:
    """Serve the helper, or say that the caller's copy is current (R-ONB-64)."""
    headers = {"etag": HELPER.etag, "cache-control": "public, max-age=300"}
    if _names_tag(call.request.headers.get("if-none-match"), HELPER.etag):
        return Outcome(HTTPStatus.NOT_MODIFIED, b"", headers)
    return Outcome(HTTPStatus.OK, HELPER.body, headers)


def _streams(call: Call[T, None]) -> tuple[Stream, Stream]:
    return onboarding.stream(call.project_id), signal_map.stream(call.project_id)


async def _read(call: Call[T, None]) -> OnboardingRow | None:
    stream, _ = _streams(call)
    return await call.services.store.get(ONBOARDING, stream.project_id, stream.id)


async def _find(call: Call[None, None]) -> Findings | None:
    """Gather the evidence for the session that the caller means; None when there is nothing to judge."""
    row = await _read(call)
    if row is None or row.session is None or row.status != Status.PROVING.value or call.if_match != row.etag:
        return None
    services = call.services
    now = await services.store.now()
    if not row.session.covers(now):
        return None
    provider = await services.providers.for_project(row.project_id)
    return await find_proof(services.store, provider, row.project_id, row.plan, row.session, now)


def _of_map(events: list[Event], state: signal_map.SignalMap) -> list[Event]:
    verified = [event for event in events if isinstance(event, onboarding.OnboardingVerified)]
    return [made for event in verified for made in signal_map.decide_verify(state, event.receipt)]


def _row(unit: Unit, stream: Stream) -> OnboardingRow:
    row = unit.row(ONBOARDING, stream.project_id, stream.id)
    assert row is not None, "an accepted step leaves a row"
    return row


def _answer(row: OnboardingRow, status: int = HTTPStatus.OK) -> Answer:
    return Answer(status, show(row), {"etag": row.etag})


def _propose(call: Call[T, None], plan: Plan, path: str) -> ProposedPlan:
    """Check a plan's content; a refusal shows the operation's schema like one of form (G-006)."""
    try:
        return propose(plan, path)
    except InvalidPayload as refused:
        refused.details["request_body_schema"] = msgspec.json.schema(call.operation.body)
        raise


def _names_tag(header: str | None, tag: str) -> bool:
    """Whether If-None-Match names a tag; compared weakly, as RFC 9110 has it for this header."""
    if header is None:
        return False
    named = [part.strip().removeprefix("W/") for part in header.split(",")]
    return tag in named or named == ["*"]


ENDPOINTS = [
    get_onboarding,
    start_onboarding,
    review_onboarding,
    start_proof,
    verify_onboarding,
    get_source_snapshot_module,
]
