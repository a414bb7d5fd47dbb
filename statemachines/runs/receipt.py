"""A trigger receipt: the server's own statement that an automation may begin one chain of work (G-104, R-AUT-20..29).

A receipt's id is made from what it is for (automation, case, revision and ordinal, or schedule slot), so that rivals
race for one stream. Expiry, invalidation and closing hold from the moment their cause is there: `settle` says what
has become of a receipt, a read applies it without recording, the sweep records it.
"""

from enum import Enum
from typing import Any, Literal

import msgspec

from statemachines.contracts.policy import Authority, Playbook
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs.materiality import ACTIVE_STATUS, CaseFacts, MaterialityDecision

CASE_RECEIPT_SECONDS = 86400
"""How long a case receipt can be claimed: a runner that comes once a night finds one (G-188)."""
ReceiptKind = Literal["unhandled_case", "schedule"]

Cause = Literal[
    "authority_withdrawn",
    "case_left_open",
    "case_revision_moved",
    "materiality_not_met",
    "claim_ended",
    "project_fenced",
]


def case_receipt_id(project_id: str, automation_id: str, case_id: str, case_revision: int, ordinal: int) -> str:
    """Id of the `ordinal`-th receipt of a case; automation and revision keep the name speaking of one purpose."""
    return derived_id("trc", project_id, automation_id, case_id, str(case_revision), str(ordinal))


def schedule_receipt_id(project_id: str, automation_id: str, scheduled_for: int) -> str:
    """Id of the one receipt that a schedule slot may ever have."""
    return derived_id("trc", project_id, automation_id, "slot", str(scheduled_for))


def stream(project_id: str, receipt_id: str) -> Stream:
    """Name the history of a receipt."""
    return Stream(MACHINE, project_id, receipt_id)


class Status(Enum):
    """Where a receipt stands."""

    ABSENT = "absent"
    ISSUED = "issued"
    CLAIMED = "claimed"
    CONSUMED = "consumed"
    EXPIRED = "expired"
    CLOSED = "closed"
    INVALIDATED = "invalidated"


class CaseSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The case as it was when the receipt was issued. Its title is evidence and is kept outside the stream."""

    case_id: str
    case_revision: int
    fingerprint: str
    level: str
    status: str
    trust: str
    event_count: int
    first_seen_at: int | None
    last_seen_at: int | None


class Slot(msgspec.Struct, frozen=True):
    """One civil occurrence of a schedule, and the period that its report covers."""

    scheduled_for: int
    window_ends_at: int
    period_start: int
    period_end: int


class ReceiptIssued(Event, frozen=True, kw_only=True):
    """The service found a reason to wake the automation. Exactly one of `case` and `slot` is set."""

    TOPIC = "trigger_receipt.issued.v1"
    receipt_kind: ReceiptKind
    automation_id: str
    playbook: Playbook
    policy_sha256: str
    contract_revision: int
    generation: int
    case: CaseSnapshot | None
    slot: Slot | None
    materiality: MaterialityDecision | None
    snapshot_sha256: str
    issued_at: int
    expires_at: int


class ReceiptClaimed(Event, frozen=True):
    """A runner claimed the case of the receipt."""

    TOPIC = "trigger_receipt.claimed.v1"
    claim_id: str
    claimed_at: int


class ReceiptConsumed(Event, frozen=True):
    """The receipt started its one run. `materiality` is the second look, for a case receipt."""

    TOPIC = "trigger_receipt.consumed.v1"
    run_id: str
    materiality: MaterialityDecision | None
    consumed_at: int


class ReceiptExpired(Event, frozen=True):
    """Nobody claimed or started in time."""

    TOPIC = "trigger_receipt.expired.v1"
    expired_at: int


class ReceiptClosed(Event, frozen=True):
    """The claim ended before a run began."""

    TOPIC = "trigger_receipt.closed.v1"
    cause: Cause
    closed_at: int


class ReceiptInvalidated(Event, frozen=True):
    """What the receipt rested on no longer holds. `materiality` is the decision that ended it, when one did."""

    TOPIC = "trigger_receipt.invalidated.v1"
    cause: Cause
    materiality: MaterialityDecision | None
    invalidated_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [ReceiptIssued.TOPIC, Status.ABSENT, Status.ISSUED],
        [ReceiptClaimed.TOPIC, Status.ISSUED, Status.CLAIMED],
        [ReceiptConsumed.TOPIC, Status.CLAIMED, Status.CONSUMED],
        [ReceiptConsumed.TOPIC, Status.ISSUED, Status.CONSUMED],  # a schedule's; a case receipt is claimed first
        [ReceiptExpired.TOPIC, Status.ISSUED, Status.EXPIRED],
        [ReceiptClosed.TOPIC, Status.CLAIMED, Status.CLOSED],
        [ReceiptInvalidated.TOPIC, Status.ISSUED, Status.INVALIDATED],
        [ReceiptInvalidated.TOPIC, Status.CLAIMED, Status.INVALIDATED],
    ],
)


class ReceiptState(msgspec.Struct, frozen=True, kw_only=True):
    """The state for decisions about a receipt and for its detail."""

    status: Status = Status.ABSENT
    kind: ReceiptKind = "unhandled_case"
    automation_id: str = ""
    playbook: Playbook = Playbook()
    policy_sha256: str = ""
    contract_revision: int = 0
    generation: int = 0
    case: CaseSnapshot | None = None
    slot: Slot | None = None
    issued_materiality: MaterialityDecision | None = None
    final_materiality: MaterialityDecision | None = None
    snapshot_sha256: str = ""
    issued_at: int = 0
    expires_at: int = 0
    claim_id: str | None = None
    run_id: str | None = None
    cause: Cause | None = None
    ended_at: int | None = None

    @property
    def over(self) -> bool:
        """Whether nothing can begin from this receipt any more."""
        return self.status in {Status.CONSUMED, Status.EXPIRED, Status.CLOSED, Status.INVALIDATED}


class ReceiptNotFound(Rejection):
    """There is no such receipt."""

    code = "trigger_receipt_not_found"


class ReceiptNotClaimable(Rejection):
    """The receipt is claimed, closed, invalidated, or needs no claim."""

    code = "receipt_not_claimable"
    FINAL = True


class ReceiptOfAnotherCase(Rejection):
    """The receipt names another case than the one to be claimed, or none."""

    code = "receipt_not_claimable"


class ReceiptAlreadyConsumed(Rejection):
    """The receipt already started its one run; `details.run_id` names it (R-AUT-28, R-AUT-29)."""

    code = "receipt_already_consumed"
    FINAL = True


class ReceiptOver(Rejection):
    """The receipt's time is over."""

    code = "receipt_expired"
    FINAL = True


class ReceiptPolicySuperseded(Rejection):
    """The contract changed since the receipt was issued (G-105)."""

    code = "receipt_policy_superseded"


class CaseRevisionStale(Rejection):
    """The case moved past the revision that was asked for (R-AUT-25)."""

    code = "case_revision_stale"


def settle(
    receipt: ReceiptState, authority: Authority, case: tuple[str, int] | None, *, claim_live: bool, now: int
) -> list[Event]:
    """What time and the world have made of a receipt by `now`; nothing while it still stands.

    `case` is the case's status and revision now (None for a schedule); `claim_live` tells of the claim on it.
    """
    if receipt.status not in {Status.ISSUED, Status.CLAIMED}:
        return []
    stopped_first = authority.withdrew(receipt.generation, receipt.expires_at)
    if receipt.status is Status.ISSUED and now >= receipt.expires_at and not stopped_first:
        return [ReceiptExpired(receipt.expires_at)]
    if receipt.status is Status.CLAIMED and not claim_live:
        return [ReceiptClosed("claim_ended", now)]
    cause = _void(receipt, authority, case)
    return [] if cause is None else [ReceiptInvalidated(cause, None, now)]


def _void(receipt: ReceiptState, authority: Authority, case: tuple[str, int] | None) -> Cause | None:
    """Why a receipt in time has no force: its authority is gone, or its case is another one now."""
    if not authority.upholds(receipt.generation):
        return "authority_withdrawn"
    if receipt.case is None or case is None:
        return None
    status, revision = case
    if status != ACTIVE_STATUS:
        return "case_left_open"
    return None if revision == receipt.case.case_revision else "case_revision_moved"


def require_standing(receipt: ReceiptState, authority: Authority, case: CaseFacts, *, held: bool, now: int) -> None:
    """Refuse a receipt that time or the world has ended, whether or not that is recorded yet."""
    state = receipt
    for event in settle(receipt, authority, (case.status, case.revision), claim_live=held, now=now):
        state = evolve(state, event)
    match state.status, state.cause:
        case Status.EXPIRED, _:
            raise ReceiptOver("The receipt has expired.", next_action="Wait for a new receipt.")
        case Status.INVALIDATED, "authority_withdrawn":
            raise ReceiptPolicySuperseded(
                "The contract has changed since the receipt was issued.", next_action="Wait for a new receipt."
            )
        case Status.INVALIDATED, "case_left_open" | "case_revision_moved":
            raise stale_case()
        case Status.INVALIDATED | Status.CLOSED | Status.CONSUMED, _:
            raise ReceiptNotClaimable("The receipt is over.", next_action="Wait for a new receipt for this case.")


def stale_case() -> CaseRevisionStale:
    """Build the refusal of another revision of the case than the one that is offered."""
    return CaseRevisionStale(
        "The case is no longer at this revision.", next_action="Wait for a new receipt for the case as it is now."
    )


def decide_invalidate(receipt: ReceiptState, decision: MaterialityDecision, now: int) -> list[Event]:
    """End an open receipt because its case no longer matters enough; the decision is kept with it."""
    if receipt.status not in {Status.ISSUED, Status.CLAIMED}:
        return []
    return [ReceiptInvalidated("materiality_not_met", decision, now)]


def decide_fence(receipt: ReceiptState, now: int) -> list[Event]:
    """End an open receipt because its project is being deleted."""
    if receipt.status not in {Status.ISSUED, Status.CLAIMED}:
        return []
    return [ReceiptInvalidated("project_fenced", None, now)]


def evolve(state: ReceiptState, event: Event) -> ReceiptState:
    """Fold an event of a receipt."""
    changes: dict[str, Any] = {}
    match event:
        case ReceiptIssued():
            names = ("automation_id", "playbook", "policy_sha256", "contract_revision", "generation", "case", "slot")
            changes = {name: getattr(event, name) for name in (*names, "snapshot_sha256", "issued_at", "expires_at")}
            changes |= {"kind": event.receipt_kind, "issued_materiality": event.materiality}
        case ReceiptClaimed():
            changes = {"claim_id": event.claim_id}
        case ReceiptConsumed():
            changes = {"run_id": event.run_id, "final_materiality": event.materiality, "ended_at": event.consumed_at}
        case ReceiptInvalidated():
            changes = {"cause": event.cause, "final_materiality": event.materiality, "ended_at": event.invalidated_at}
        case ReceiptClosed():
            changes = {"cause": event.cause, "ended_at": event.closed_at}
        case ReceiptExpired():
            changes = {"ended_at": event.expired_at}
    return msgspec.structs.replace(state, status=Status[destination(TABLE, event, state.status)], **changes)


MACHINE = StateMachine("trc", TABLE, ReceiptState(), evolve, ReceiptNotClaimable, ReceiptState)
