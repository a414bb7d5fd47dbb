"""Onboardings: planned, reviewed, proven, verified, and what comes next (R-ONB-43 to R-ONB-59).

`if_match` is the quoted tag that the caller has read, None when it sent none. Every decision raises what the machine
raises: OnboardingNotStarted, IfMatchRequired, PreconditionFailed and OnboardingConflict.
"""

import secrets
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from projections.onboarding import ONBOARDING, SIGNAL_MAPS, OnboardingRow, SignalMapRow
from schemas import onboarding as wire
from schemas.kernel.shape import shape_from
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.store import EventStore
from service.history.as_of import RowSource
from service.ids import new_id
from service.onboarding.evidence import Providers, look, reshape
from statemachines.kernel.machine import Event, Stream, source_told
from statemachines.onboarding import lifecycle as onboarding
from statemachines.onboarding import lifecycle as onboardings
from statemachines.onboarding import plan as plans
from statemachines.onboarding import signal_map
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.lifecycle import OnboardingNotStarted, ProofStart, Status
from statemachines.onboarding.proof import hash_marker

# Where a project's onboarding stands, and its signal map (R-ONB-41, R-MAP-01, G-060).


async def find_onboarding(rows: RowSource, project_id: str) -> OnboardingRow | None:
    """Find the onboarding of a project; None before its start."""
    return await rows.get(ONBOARDING, project_id, onboardings.stream(project_id).id)


async def read_onboarding(rows: RowSource, project_id: str) -> OnboardingRow:
    """Read the onboarding of a project. Raises OnboardingNotStarted."""
    row = await find_onboarding(rows, project_id)
    if row is None:
        raise OnboardingNotStarted("No onboarding has been started for this project.", next_action="Start one.")
    return row


async def read_signal_map(rows: RowSource, project_id: str) -> SignalMapRow:
    """Read the signal map of a project. Raises SignalMapNotFound while no plan is approved."""
    row = await rows.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    if row is None:
        raise signal_maps.SignalMapNotFound(
            "No plan has been approved for this project.",
            next_action="Start an onboarding, and have its plan approved by a human.",
        )
    return row


# What may be done with an onboarding: plan, review, prove, verify; the signal map goes along (R-ONB-43 to R-ONB-59).

MARKER_BYTES = 32


class Started(NamedTuple):
    """An onboarding after a start, and whether this was its first."""

    row: OnboardingRow
    first: bool


class ProofBegun(NamedTuple):
    """An onboarding whose proof has begun, with its two markers, of which only the hashes are kept (G-084)."""

    row: OnboardingRow
    runtime_marker: str
    ci_marker: str


class Verified(NamedTuple):
    """An onboarding after a verify: proven when `ok`, else what remains to be seen."""

    row: OnboardingRow
    ok: bool
    remaining: wire.Remaining


class PutMap(NamedTuple):
    """A signal map after a PUT, and whether it is the project's first."""

    row: SignalMapRow
    first: bool


def start(project_id: str, wish: plans.ProposedPlan, if_match: str | None) -> Intent[Started]:
    """Make a plan the current one, which withdraws the map of an approved one (R-ONB-43 to R-ONB-46).

    An exact replay is shown what is there.
    """
    stream, map_stream = onboarding.stream(project_id), signal_map.stream(project_id)

    def decide(unit: Unit) -> Started:
        state: onboarding.Onboarding = unit.state(stream)
        events = onboarding.decide_start(state, wish, id=stream.id, if_match=if_match, now=unit.now)
        unit.append(stream, events)
        if events and state.status in {Status.APPROVED, Status.PROVING}:
            unit.append(map_stream, signal_map.decide_withdraw(unit.state(map_stream), unit.now))
        return Started(_row(unit, stream), first=state.status is Status.ABSENT)

    return Intent([stream, map_stream], decide)


def approve(project_id: str, plan_sha256: str, if_match: str | None) -> Intent[OnboardingRow]:
    """Approve the plan with this hash, which makes it the signal map (R-ONB-47, R-ONB-48).

    Raises PlanHashMismatch when another plan is the current one.
    """
    stream, map_stream = onboarding.stream(project_id), signal_map.stream(project_id)

    def decide(unit: Unit) -> OnboardingRow:
        state: onboarding.Onboarding = unit.state(stream)
        unit.append(stream, onboarding.decide_approve(state, plan_sha256, if_match=if_match, now=unit.now))
        assert state.plan is not None, "what was approved is a plan"
        of_map = signal_map.decide_record(unit.state(map_stream), state.plan, state.plan_sha256, unit.now)
        unit.append(map_stream, of_map)
        return _row(unit, stream)

    return Intent([stream, map_stream], decide)


def replace(
    project_id: str, plan_sha256: str, replacement: plans.ProposedPlan, if_match: str | None
) -> Intent[OnboardingRow]:
    """Put another plan in the place of the one with this hash (R-ONB-47, R-ONB-50). Raises PlanHashMismatch."""
    stream = onboarding.stream(project_id)

    def decide(unit: Unit) -> OnboardingRow:
        state = unit.state(stream)
        events = onboarding.decide_replace(state, plan_sha256, replacement, if_match=if_match, now=unit.now)
        unit.append(stream, events)
        return _row(unit, stream)

    return Intent([stream], decide)


def begin_proof(project_id: str, snapshot: plans.SourceSnapshot, if_match: str | None) -> Intent[ProofBegun]:
    """Open a session with a fresh marker pair; a former pair is dead from the commit on (R-ONB-52, R-ONB-53).

    Raises SourceSnapshotMismatch when the proof that runs is for another tree.
    """
    stream = onboarding.stream(project_id)
    runtime, ci = (f"{prefix}{secrets.token_urlsafe(MARKER_BYTES)}" for prefix in ("sop_rt_", "sop_ci_"))
    wish = ProofStart(
        proof_session_id=new_id("ps"),
        implementation_source_snapshot=snapshot,
        runtime_marker_sha256=hash_marker(runtime),
        ci_marker_sha256=hash_marker(ci),
    )

    def decide(unit: Unit) -> ProofBegun:
        unit.append(stream, onboarding.decide_proof(unit.state(stream), wish, if_match=if_match, now=unit.now))
        return ProofBegun(_row(unit, stream), runtime, ci)

    return Intent([stream], decide)


async def verify(store: EventStore, providers: Providers, project_id: str, if_match: str | None) -> Intent[Verified]:
    """Judge the open session; only a complete proof is recorded, with the signal map's (R-ONB-54 to R-ONB-59).

    The evidence is gathered here, for the session that `if_match` means, and for none when it means another state.
    """
    row = await find_onboarding(store, project_id)
    findings = await look(store, providers, row) if row is not None and if_match == row.etag else None
    stream, map_stream = onboarding.stream(project_id), signal_map.stream(project_id)

    def decide(unit: Unit) -> Verified:
        verdict = onboarding.decide_verify(unit.state(stream), findings, if_match=if_match, now=unit.now)
        unit.append(stream, verdict.events)
        unit.append(map_stream, _of_map(verdict.events, unit.state(map_stream)))
        return Verified(_row(unit, stream), verdict.ok, verdict.remaining)

    return Intent([stream, map_stream], decide)


def put_map(project_id: str, wish: plans.ProposedPlan) -> Intent[PutMap]:
    """Make a reviewed plan the signal map of a project without onboarding (R-MAP-04). Raises SignalMapConflict.

    The onboarding's stream is locked too: a start and a PUT at once come one after the other.
    """
    stream, other = signal_map.stream(project_id), onboarding.stream(project_id)

    def decide(unit: Unit) -> PutMap:
        state: signal_map.SignalMap = unit.state(stream)
        begun = unit.state(other).status is not Status.ABSENT
        unit.append(stream, signal_map.decide_put(state, wish, unit.now, onboarding=begun))
        row = unit.row(SIGNAL_MAPS, project_id, stream.id)
        assert row is not None, "a map that was put has a row"
        return PutMap(row, first=state.status is signal_map.Status.ABSENT)

    return Intent([stream], decide, reads=[other])


def _of_map(events: Sequence[Event], state: signal_map.SignalMap) -> list[Event]:
    of_map: list[Event] = []
    for event in events:
        if isinstance(event, onboarding.OnboardingVerified):
            of_map += signal_map.decide_verify(state, event.receipt, source_told(event.evidence_source))
    return of_map


def _row(unit: Unit, stream: Stream) -> OnboardingRow:
    row = unit.row(ONBOARDING, stream.project_id, stream.id)
    assert row is not None, "an accepted step leaves a row"
    return row


# What to do next in each status of an onboarding, for the coding agent or person who asks (R-ONB-24 to R-ONB-27). The
# texts are fixed: nothing that a client or its telemetry says gets into them. Only the path names the project.


class Guidance(NamedTuple):
    """The next step of one status, without its project."""

    id: Literal["review_exact_plan", "instrument_and_start_proof", "exercise_and_verify"]
    operation: Literal["review", "proof", "verify"]
    requires_human: bool
    instruction: str
    checklist: tuple[str, ...]
    completion_condition: str
    guide_anchor: str


GUIDANCE: dict[Status, Guidance] = {
    Status.PLANNED: Guidance(
        id="review_exact_plan",
        operation="review",
        requires_human=True,
        instruction="Show this exact plan to the responsible human, and send their decision.",
        checklist=(
            (
                "Present the audited history window and its query receipt by themselves, and the source targets by "
                "themselves."
            ),
            "Say plainly that rows from history do not prove that anything is captured at those targets today.",
            "Wait until the human explicitly approves or replaces this plan. Silence is no decision.",
            "POST that decision with plan_sha256 to the review operation, with If-Match set to this state's etag.",
        ),
        completion_condition="The review answered 200 and the status is approved, or planned with another plan.",
        guide_anchor="/install.md#review-plan",
    ),
    Status.APPROVED: Guidance(
        id="instrument_and_start_proof",
        operation="proof",
        requires_human=False,
        instruction="Implement the approved plan, commit it, and open a proof session for that commit.",
        checklist=(
            "Keep the provider SDKs the product already uses. You need no other telemetry credential.",
            "Capture every approved event after its durable success, and an exception at every approved failure exit.",
            (
                "Attach the service_onboarding_proof property only while its session-storage or server-environment "
                "value is set, and never put a marker into a bundle or the repository."
            ),
            (
                "Get the tests green, commit everything so that the tree is clean, and take the final snapshot with "
                "source-snapshot.mjs --final."
            ),
            "POST that snapshot to the proof operation, with If-Match set to this state's etag.",
        ),
        completion_condition="The proof answered 201 with a marker pair and the status is proving.",
        guide_anchor="/install.md#instrument-and-prove",
    ),
    Status.PROVING: Guidance(
        id="exercise_and_verify",
        operation="verify",
        requires_human=False,
        instruction="Run the deployed product with the session's markers, then verify to see the remaining steps.",
        checklist=(
            (
                "When a marker was lost or the session is over, POST the same snapshot to the proof operation again "
                "and use the new pair."
            ),
            (
                "Set the runtime marker: in the browser as the session storage item service_onboarding_proof, on the "
                "server as the environment variable SERVICE_ONBOARDING_PROOF."
            ),
            ("Make sure that each captured event carries the marker as its property service_onboarding_proof."),
            (
                "Deploy the final commit from CI, and record the deploy with the CI marker in the header "
                "X-Service-Onboarding-Proof."
            ),
            "Exercise every milestone, so that one row of each holds all its properties at once.",
            "Provoke the one failure that is marked safe, with all its context.",
            (
                "POST to the verify operation without a body, with If-Match set to this state's etag, and repeat only "
                "what it lists as remaining."
            ),
        ),
        completion_condition="The verify answered ok true and the status is verified.",
        guide_anchor="/install.md#exercise-and-verify",
    ),
}


def next_action(status: Status, project_id: str) -> wire.NextAction:
    """Say what comes next for a project in a status; there is nothing after verified (R-ONB-22)."""
    guidance = GUIDANCE[status]
    return shape_from(
        wire.NextAction,
        guidance,
        operation=wire.NextOperation(method="POST", path=f"/v1/projects/{project_id}/onboarding/{guidance.operation}"),
    )


# How onboarding is shown: the state of its status, its answers, its map (R-ONB-16 to R-ONB-23, R-MAP-01).


def state(row: OnboardingRow) -> wire.OnboardingState:
    """Show an onboarding; what belongs to another status is absent."""
    match Status(row.status):
        case Status.PLANNED:
            return wire.PlannedState(**_common(row), next_action=next_action(Status.PLANNED, row.project_id))
        case Status.APPROVED:
            assert row.approved_at is not None
            action = next_action(Status.APPROVED, row.project_id)
            return wire.ApprovedState(**_common(row), next_action=action, approved_at=row.approved_at)
        case Status.PROVING:
            return _proving(row)
        case Status.VERIFIED:
            return _verified(row)
        case Status.ABSENT:
            raise AssertionError("an onboarding that is not there has no row")


def proof_started(begun: ProofBegun) -> wire.ProofStarted:
    """Show an open proof session with its markers: the only time that they are shown (R-ONB-28 to R-ONB-30)."""
    markers = wire.OneTimeMarkers(
        runtime=wire.RuntimeMarker(wire.PROOF_PROPERTY, begun.runtime_marker, wire.PROOF_VARIABLE, wire.PROOF_PROPERTY),
        ci=wire.CiMarker(wire.PROOF_HEADER, begun.ci_marker, wire.PROOF_VARIABLE),
    )
    return wire.ProofStarted(state=_proving(begun.row), one_time_markers=markers)


def verify_answer(verified: Verified) -> wire.VerifyAnswer:
    """Show what a verify has found (R-ONB-54)."""
    shown = state(verified.row)
    assert isinstance(shown, wire.ProvingState | wire.VerifiedState), "other states are refused"
    return wire.VerifyAnswer(ok=verified.ok, state=shown, remaining=verified.remaining)


def shown_signal_map(row: SignalMapRow) -> wire.SignalMap:
    """Show an approved plan as the map of a project's events and failures (R-MAP-01)."""
    plan = reshape(row.plan, wire.Plan)
    return shape_from(
        wire.SignalMap,
        plan,
        project_id=row.project_id,
        plan_sha256=row.plan_sha256,
        evidence_status=evidence_status(row.plan, row.receipt),
        receipt=None if row.receipt is None else reshape(row.receipt, wire.Receipt),
    )


def evidence_status(plan: plans.Plan, receipt: plans.Receipt | None) -> wire.EvidenceStatus:
    """What history and the source have established: history alone never verifies a source (R-ONB-15, R-MAP-03)."""
    return wire.EvidenceStatus(
        historical="not_established" if plan.historical_evidence is None else "historically_observed",
        source="pending" if receipt is None else receipt.evidence_status,
    )


def _proving(row: OnboardingRow) -> wire.ProvingState:
    session = row.session
    assert session is not None
    return wire.ProvingState(
        **_common(row),
        next_action=next_action(Status.PROVING, row.project_id),
        implementation_source_snapshot=reshape(session.implementation_source_snapshot, wire.SourceSnapshot),
        proof_session=wire.OpenProofSession(session.proof_session_id, "open", session.started_at, session.expires_at),
    )


def _verified(row: OnboardingRow) -> wire.VerifiedState:
    session = row.session
    assert session is not None
    assert row.receipt is not None
    return wire.VerifiedState(
        **_common(row),
        next_action=None,
        implementation_source_snapshot=reshape(session.implementation_source_snapshot, wire.SourceSnapshot),
        proof_session=wire.SatisfiedProofSession(
            session.proof_session_id, "satisfied", session.started_at, session.expires_at
        ),
        receipt=reshape(row.receipt, wire.Receipt),
    )


def _common(row: OnboardingRow) -> dict[str, Any]:
    return {
        "installation_complete": row.receipt is not None,
        "evidence_status": evidence_status(row.plan, row.receipt),
        "etag": row.etag,
        "contract_version": 3,
        "project_id": row.project_id,
        "onboarding_id": row.id,
        "revision": row.state_revision,
        "plan_sha256": row.plan_sha256,
        "updated_at": row.updated_at,
        "plan": reshape(row.plan, wire.Plan),
    }
