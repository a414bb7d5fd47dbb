"""An approval: a person's word on one action of one run (G-108).

It never widens scope, budgets or allowed actions. A request lapses with time, with its run, or with the authority
under which it was made; that holds before anything is recorded here.
"""

from enum import Enum
from typing import Literal

import msgspec

from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs.events import Action

APPROVAL_SECONDS = 86400
Cause = Literal["run_over", "authority_withdrawn"]


def approval_id(run_id: str, state_revision: int) -> str:
    """Id of the request made at a state revision of a run: of rivals at one revision only one can be recorded."""
    return derived_id("appr", run_id, str(state_revision))


def stream(project_id: str, approval_id: str) -> Stream:
    """Name the history of a request for approval."""
    return Stream(MACHINE, project_id, approval_id)


class Status(Enum):
    """Where a request stands."""

    ABSENT = "absent"
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


DECIDED = (Status.APPROVED, Status.REJECTED)
"""A person has spoken."""


class ApprovalRequested(Event, frozen=True, kw_only=True):
    """A runner asks. `evidence_json` is its canonical JSON: an opaque text, so that numbers in it survive storage."""

    TOPIC = "approval.requested.v1"
    run_id: str
    automation_id: str
    action: Action
    generation: int
    summary: str
    evidence_json: str | None
    requested_at: int
    expires_at: int


class ApprovalGiven(Event, frozen=True):
    """An owner said yes."""

    TOPIC = "approval.approved.v1"
    decided_by: str
    reason: str | None
    decided_at: int


class ApprovalRefused(Event, frozen=True):
    """An owner said no."""

    TOPIC = "approval.rejected.v1"
    decided_by: str
    reason: str | None
    decided_at: int


class ApprovalExpired(Event, frozen=True):
    """Nobody decided in time."""

    TOPIC = "approval.expired.v1"
    expired_at: int


class ApprovalCancelled(Event, frozen=True):
    """There is nothing left to decide."""

    TOPIC = "approval.cancelled.v1"
    cause: Cause
    cancelled_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ApprovalRequested.TOPIC, Status.ABSENT, Status.PENDING],
        [ApprovalGiven.TOPIC, Status.PENDING, Status.APPROVED],
        [ApprovalRefused.TOPIC, Status.PENDING, Status.REJECTED],
        [ApprovalExpired.TOPIC, Status.PENDING, Status.EXPIRED],
        [ApprovalCancelled.TOPIC, Status.PENDING, Status.CANCELLED],
    ],
)


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions about a request depend on, and what its record shows."""

    status: Status = Status.ABSENT
    run_id: str = ""
    automation_id: str = ""
    action: Action = "draft_pr"
    generation: int = 0
    summary: str = ""
    evidence_json: str | None = None
    requested_at: int = 0
    expires_at: int = 0
    decided_at: int | None = None
    decided_by: str | None = None
    reason: str | None = None


class ApprovalNotFound(Rejection):
    """There is no such approval."""

    code = "approval_not_found"


class ApprovalPending(Rejection):
    """A person has not decided yet (G-108)."""

    code = "approval_pending"


class ActionNotApproved(Rejection):
    """A person said no to this action in this run, or let the request expire (G-108)."""

    code = "approval_rejected"


class ApprovalAlreadyDecided(Rejection):
    """The approval has another outcome already (G-108)."""

    code = "approval_already_decided"
    FINAL = True


class ApprovalOfEndedRun(Rejection):
    """Nobody decided before the run was over (G-185)."""

    code = "approval_cancelled"
    FINAL = True


class OwnerDecision(msgspec.Struct, frozen=True):
    """What an owner decided, and who."""

    approve: bool
    decided_by: str
    reason: str | None = None


def settle(approval: Approval, authority: Authority, *, run_live: bool, now: int) -> list[Event]:
    """What has become of a request by `now`; nothing while it is pending or decided."""
    if approval.status is not Status.PENDING:
        return []
    if now >= approval.expires_at and not authority.withdrew(approval.generation, approval.expires_at):
        return [ApprovalExpired(approval.expires_at)]
    if not run_live:
        return [ApprovalCancelled("run_over", now)]
    return [] if authority.upholds(approval.generation) else [ApprovalCancelled("authority_withdrawn", now)]


def decide_answer(approval: Approval, decision: OwnerDecision, now: int) -> list[Event]:
    """Approve or reject a pending request. Deciding the same again records nothing.

    Raises ApprovalNotFound, ApprovalAlreadyDecided.
    """
    if approval.status is Status.ABSENT:
        raise ApprovalNotFound("There is no such approval.", next_action="List the approvals of the project.")
    if approval.status is (Status.APPROVED if decision.approve else Status.REJECTED):
        return []
    if approval.status is not Status.PENDING:
        raise ApprovalAlreadyDecided(
            "The request is no longer open.",
            next_action="Read the run. Make a new request for a new decision.",
            status=approval.status.value,
        )
    event = ApprovalGiven if decision.approve else ApprovalRefused
    return [event(decision.decided_by, decision.reason, now)]


def evolve(state: Approval, event: Event) -> Approval:
    """Fold an event of an approval."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case ApprovalRequested():
            return Approval(
                status=status,
                run_id=event.run_id,
                automation_id=event.automation_id,
                action=event.action,
                generation=event.generation,
                summary=event.summary,
                evidence_json=event.evidence_json,
                requested_at=event.requested_at,
                expires_at=event.expires_at,
            )
        case ApprovalGiven() | ApprovalRefused():
            return msgspec.structs.replace(
                state, status=status, decided_by=event.decided_by, reason=event.reason, decided_at=event.decided_at
            )
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("appr", TABLE, Approval(), evolve, ApprovalAlreadyDecided, Approval)
