"""Onboarding: from a plan that a human approves to a source that execution has proven (G-080).

One stream a project, its id made from the project id: rivals for the first plan name the same stream. `evolve`
counts the revision that clients see (G-121). Where If-Match is compared, existence has been settled before and the
rules of the state come after (G-007).
"""

from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from schemas.kernel.shape import EvidenceSource
from schemas.onboarding import Remaining
from statemachines.kernel.machine import (
    Event,
    PreconditionFailed,
    Rejection,
    StateMachine,
    Stream,
    allowed_next,
    derived_id,
    destination,
    require_given,
    require_none,
    require_same,
    transition_table,
)
from statemachines.onboarding.plan import DeployReceipt, Plan, ProposedPlan, Receipt, SourceSnapshot
from statemachines.onboarding.proof import Findings, ProofSession, expired_work

SESSION_SECONDS = 7200


def stream(project_id: str) -> Stream:
    """History of a project's onboarding."""
    return Stream(MACHINE, project_id, derived_id("onb", project_id))


class Status(Enum):
    """Where an onboarding stands."""

    ABSENT = "absent"
    PLANNED = "planned"
    APPROVED = "approved"
    PROVING = "proving"
    VERIFIED = "verified"


class OnboardingPlanned(Event, frozen=True):
    """A plan became the current one; whatever approval or proof the former had is gone."""

    TOPIC = "onboarding.planned.v1"
    DOCUMENT = True
    onboarding_id: str
    plan: Plan
    plan_sha256: str
    planned_at: int


class OnboardingApproved(Event, frozen=True):
    """A human approved the current plan."""

    TOPIC = "onboarding.approved.v1"
    plan_sha256: str
    approved_at: int


class OnboardingProofStarted(Event, frozen=True):
    """A proof session opened; its marker pair is the only one that counts from here on (G-084)."""

    TOPIC = "onboarding.proof_started.v1"
    proof_session_id: str
    implementation_source_snapshot: SourceSnapshot
    runtime_marker_sha256: str
    ci_marker_sha256: str
    started_at: int
    expires_at: int


class OnboardingVerified(Event, frozen=True):
    """Execution proved the plan; the receipt is final. `evidence_source` as in source_told (G-183)."""

    TOPIC = "onboarding.verified.v1"
    receipt: Receipt
    evidence_source: EvidenceSource | UnsetType = UNSET


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        # event                        from              to
        [OnboardingPlanned.TOPIC, Status.ABSENT, Status.PLANNED],
        [OnboardingPlanned.TOPIC, Status.PLANNED, Status.PLANNED],
        [OnboardingPlanned.TOPIC, Status.APPROVED, Status.PLANNED],
        [OnboardingPlanned.TOPIC, Status.PROVING, Status.PLANNED],
        [OnboardingApproved.TOPIC, Status.PLANNED, Status.APPROVED],
        [OnboardingProofStarted.TOPIC, Status.APPROVED, Status.PROVING],
        [OnboardingProofStarted.TOPIC, Status.PROVING, Status.PROVING],
        [OnboardingVerified.TOPIC, Status.PROVING, Status.VERIFIED],
    ],
)


class Onboarding(msgspec.Struct, frozen=True):
    """What the decisions of one onboarding depend on."""

    status: Status = Status.ABSENT
    onboarding_id: str = ""
    revision: int = 0
    plan: Plan | None = None
    plan_sha256: str = ""
    session: ProofSession | None = None
    receipt: Receipt | None = None

    @property
    def etag(self) -> str:
        """The tag of the current revision, with its quotes (G-082)."""
        return make_etag(self.onboarding_id, self.revision)

    @property
    def previous_etag(self) -> str | None:
        """The tag that the last accepted step consumed; None after the first."""
        return make_etag(self.onboarding_id, self.revision - 1) if self.revision > 1 else None


def make_etag(id: str, revision: int) -> str:
    """Make the quoted tag of a revision (G-082)."""
    return f'"onb:{id}:{revision}"'


class OnboardingNotStarted(Rejection):
    """There is no plan yet (R-ONB-41)."""

    code = "onboarding_not_started"


class OnboardingConflict(Rejection):
    """The status does not allow this step."""

    code = "onboarding_state_conflict"


class PlanHashMismatch(Rejection):
    """The human decided about another plan than the current one."""

    code = "plan_hash_mismatch"


class SourceSnapshotMismatch(Rejection):
    """A running proof belongs to one source tree; another tree needs a new plan."""

    code = "source_snapshot_mismatch"


class ProofStart(msgspec.Struct, frozen=True):
    """The wish to open a proof session. Only hashes of the two fresh markers get in here."""

    proof_session_id: str
    implementation_source_snapshot: SourceSnapshot
    runtime_marker_sha256: str
    ci_marker_sha256: str


class Judgement(msgspec.Struct, frozen=True):
    """Outcome of a verify: what to record, and what remains (nothing when `ok`)."""

    ok: bool
    events: list[Event]
    remaining: Remaining


def decide_start(
    state: Onboarding,
    wish: ProposedPlan,
    *,
    id: str,
    if_match: str | None,
    now: int,
) -> list[Event]:
    """Make a plan the current one.

    Records nothing when it already is and nothing has been built on it: an exact replay, or the repeat of a start
    whose answer was lost; nor once it is proven (G-138). Raises IfMatchRequired,
    PreconditionFailed, OnboardingConflict.
    """
    planned = OnboardingPlanned(onboarding_id=id, plan=wish.plan, plan_sha256=wish.sha256, planned_at=now)
    if state.status is Status.ABSENT:
        message = "There is no onboarding to match."
        require_none(if_match, message, "Send the start without If-Match.")
        return [planned]
    same_plan = wish.sha256 == state.plan_sha256
    if if_match is None and same_plan:
        return []
    read_first = "Read the onboarding, decide whether to replace its plan, and send its etag as If-Match."
    if_match = require_given(
        if_match, state.etag, "An onboarding exists. Replacing its plan needs If-Match.", read_first
    )
    if state.status is Status.PLANNED and same_plan and if_match in {state.etag, state.previous_etag}:
        return []
    require_current(state, if_match)
    if state.status is Status.VERIFIED:
        if not same_plan:
            raise conflict(state)
        return []
    return [planned]


def decide_approve(state: Onboarding, plan_sha256: str, *, if_match: str | None, now: int) -> list[Event]:
    """Approve the current plan by its hash. Raises OnboardingConflict, PlanHashMismatch and as `require_current`."""
    require_reviewable(state, plan_sha256, if_match)
    return [OnboardingApproved(plan_sha256=plan_sha256, approved_at=now)]


def decide_replace(
    state: Onboarding, plan_sha256: str, replacement: ProposedPlan, *, if_match: str | None, now: int
) -> list[Event]:
    """Put another plan in place of the one with this hash. Raises as `decide_approve`.

    The human's decision is recorded also when the other plan reads the same.
    """
    require_reviewable(state, plan_sha256, if_match)
    return [
        OnboardingPlanned(
            onboarding_id=state.onboarding_id,
            plan=replacement.plan,
            plan_sha256=replacement.sha256,
            planned_at=now,
        )
    ]


def decide_proof(state: Onboarding, wish: ProofStart, *, if_match: str | None, now: int) -> list[Event]:
    """Open a proof session, or replace the open one and with it the marker pair.

    Raises OnboardingConflict unless approved or proving, SourceSnapshotMismatch when the proof that runs is for
    another tree, and as `require_current`.
    """
    require_current(state, if_match)
    if state.status not in {Status.APPROVED, Status.PROVING}:
        raise conflict(state)
    running = state.session
    if running is not None and running.implementation_source_snapshot != wish.implementation_source_snapshot:
        raise SourceSnapshotMismatch(
            "The running proof is for another source snapshot.",
            next_action="Start again with a plan for the new source, then have it approved.",
        )
    return [
        OnboardingProofStarted(
            proof_session_id=wish.proof_session_id,
            implementation_source_snapshot=wish.implementation_source_snapshot,
            runtime_marker_sha256=wish.runtime_marker_sha256,
            ci_marker_sha256=wish.ci_marker_sha256,
            started_at=now,
            expires_at=now + SESSION_SECONDS,
        )
    ]


def decide_verify(state: Onboarding, findings: Findings | None, *, if_match: str | None, now: int) -> Judgement:
    """Judge the proof session on findings made before, records nothing unless they are complete.

    `findings` are those of the session `findings.proof_session_id`, read outside the lock; If-Match proves them
    still apt, and findings of another session (or none) are refused as stale. A repeat after the success, with the
    current tag or the one it consumed, is the same success.
    """
    if state.status is Status.VERIFIED and if_match == state.previous_etag:
        return Judgement(ok=True, events=[], remaining=Remaining())
    require_current(state, if_match)
    if state.status is Status.VERIFIED:
        return Judgement(ok=True, events=[], remaining=Remaining())
    if state.status is not Status.PROVING:
        raise conflict(state)
    assert state.plan is not None, "a proof has a plan"
    assert state.session is not None, "a proof has a session"
    if not state.session.covers(now):
        return Judgement(ok=False, events=[], remaining=expired_work(state.plan, state.session))
    if findings is None or findings.proof_session_id != state.session.proof_session_id:
        raise stale(state)
    if not findings.complete:
        return Judgement(ok=False, events=[], remaining=findings.remaining)
    assert findings.error is not None, "complete findings hold the safe error"
    receipt = Receipt(
        evidence_status="source_verified",
        source_verified_at=now,
        analytics=findings.analytics,
        error=findings.error,
        deploy=DeployReceipt(
            environment=state.plan.deploy.environment,
            source_snapshot=state.session.implementation_source_snapshot,
            row_count=findings.deploy_count,
        ),
    )
    verified = OnboardingVerified(receipt=receipt, evidence_source=findings.evidence_source)
    return Judgement(ok=True, events=[verified], remaining=Remaining())


def require_current(state: Onboarding, if_match: str | None) -> None:
    """Refuse unless an onboarding exists and the tag is that of its current revision."""
    if state.status is Status.ABSENT:
        raise OnboardingNotStarted(
            "No onboarding has been started for this project.",
            next_action="Start one with a plan.",
        )
    read_first = "Read the onboarding and send its etag as If-Match."
    require_same(
        require_given(if_match, state.etag, "This step needs If-Match.", read_first), state.etag, _MOVED, _READ_AGAIN
    )


def require_reviewable(state: Onboarding, plan_sha256: str, if_match: str | None) -> None:
    """Refuse a review unless the current plan waits for it and is the one that was shown."""
    require_current(state, if_match)
    if state.status is not Status.PLANNED:
        raise conflict(state)
    if plan_sha256 != state.plan_sha256:
        raise PlanHashMismatch(
            "The decision names another plan than the current one.",
            next_action="Read the onboarding, show its plan to the human, and decide on its plan_sha256.",
            plan_sha256=state.plan_sha256,
        )


_MOVED = "The onboarding has changed since you read that etag."
_READ_AGAIN = "Read the onboarding again and retry the step only if it still applies."


def stale(state: Onboarding) -> PreconditionFailed:
    """Make the refusal of a tag that is not the current one."""
    return PreconditionFailed(_MOVED, next_action=_READ_AGAIN, current_etag=state.etag)


def conflict(state: Onboarding) -> OnboardingConflict:
    """Make the refusal of a step that the status does not allow."""
    return OnboardingConflict(
        f"This is not possible while the status is {state.status.value}.",
        next_action="Read the onboarding and follow its next_action.",
        status=state.status.value,
        allowed_next=allowed_next(MACHINE, state),
    )


def evolve(state: Onboarding, event: Any) -> Onboarding:
    """Fold an event; each one is an accepted mutation and moves the revision by one. Never refuses."""
    status = Status[destination(TABLE, event, state.status)]
    moved = msgspec.structs.replace(state, status=status, revision=state.revision + 1)
    match event:
        case OnboardingPlanned():
            return msgspec.structs.replace(
                moved,
                onboarding_id=event.onboarding_id,
                plan=event.plan,
                plan_sha256=event.plan_sha256,
                session=None,
            )
        case OnboardingProofStarted():
            return msgspec.structs.replace(moved, session=open_session(event))
        case OnboardingVerified():
            return msgspec.structs.replace(moved, receipt=event.receipt)
        case _:
            return moved


def open_session(event: OnboardingProofStarted) -> ProofSession:
    """Turn the event into the session that it opens."""
    return ProofSession(
        proof_session_id=event.proof_session_id,
        implementation_source_snapshot=event.implementation_source_snapshot,
        runtime_marker_sha256=event.runtime_marker_sha256,
        ci_marker_sha256=event.ci_marker_sha256,
        started_at=event.started_at,
        expires_at=event.expires_at,
    )


MACHINE = StateMachine("onb", TABLE, Onboarding(), evolve, OnboardingConflict, Onboarding)
