"""The signal map of a project: which plan reads and queries go by, and whether its source is verified (G-060).

One stream a project. An approval records the map, a verify its receipt, in the same commit as the onboarding's own
event. A new start over an approved plan withdraws the map until the next approval. Before any onboarding an owner may
put a map without proof (R-MAP-04).
"""

from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from schemas.kernel.shape import EvidenceSource
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.onboarding.plan import Plan, ProposedPlan, Receipt


def stream(project_id: str) -> Stream:
    """History of a project's signal map."""
    return Stream(MACHINE, project_id, derived_id("map", project_id))


class Status(Enum):
    """Where a signal map stands."""

    ABSENT = "absent"
    RECORDED = "recorded"
    VERIFIED = "verified"
    WITHDRAWN = "withdrawn"


class SignalMapRecorded(Event, frozen=True):
    """An approved plan became the map."""

    TOPIC = "signal_map.recorded.v1"
    DOCUMENT = True
    plan: Plan
    plan_sha256: str
    recorded_at: int


class SignalMapVerified(Event, frozen=True):
    """Execution proved the map's source semantics (R-MAP-03)."""

    TOPIC = "signal_map.verified.v1"
    receipt: Receipt
    evidence_source: EvidenceSource | UnsetType = UNSET


class SignalMapWithdrawn(Event, frozen=True):
    """The plan under the map is being replaced."""

    TOPIC = "signal_map.withdrawn.v1"
    withdrawn_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        # event                        from              to
        [SignalMapRecorded.TOPIC, Status.ABSENT, Status.RECORDED],
        [SignalMapRecorded.TOPIC, Status.RECORDED, Status.RECORDED],
        [SignalMapRecorded.TOPIC, Status.WITHDRAWN, Status.RECORDED],
        [SignalMapVerified.TOPIC, Status.RECORDED, Status.VERIFIED],
        [SignalMapWithdrawn.TOPIC, Status.RECORDED, Status.WITHDRAWN],
    ],
)


class SignalMap(msgspec.Struct, frozen=True):
    """What the decisions of one signal map depend on."""

    status: Status = Status.ABSENT
    plan_sha256: str = ""


class SignalMapNotFound(Rejection):
    """No plan has been approved, so nothing says what events mean."""

    code = "signal_map_not_found"


class SignalMapConflict(Rejection):
    """Onboarding owns the map."""

    code = "signal_map_managed_by_onboarding"


def decide_record(state: SignalMap, plan: Plan, plan_sha256: str, now: int) -> list[Event]:
    """Make an approved plan the map; nothing when it already is."""
    if state.status is Status.RECORDED and state.plan_sha256 == plan_sha256:
        return []
    return [SignalMapRecorded(plan=plan, plan_sha256=plan_sha256, recorded_at=now)]


def decide_put(state: SignalMap, wish: ProposedPlan, now: int, *, onboarding: bool) -> list[Event]:
    """Make a reviewed plan the map, nothing when it already is. Raises SignalMapConflict beside an onboarding."""
    if onboarding:
        raise SignalMapConflict(
            "The signal map follows from the project's onboarding.",
            next_action="Change the plan with POST …/onboarding, and have it approved.",
        )
    return decide_record(state, wish.plan, wish.sha256, now)


def decide_verify(state: SignalMap, receipt: Receipt, evidence_source: EvidenceSource) -> list[Event]:
    """Attach the receipt, with where its evidence was read; nothing when one is attached."""
    return [] if state.status is Status.VERIFIED else [SignalMapVerified(receipt, evidence_source)]


def decide_withdraw(state: SignalMap, now: int) -> list[Event]:
    """Take the map away; nothing when there is none."""
    return [SignalMapWithdrawn(withdrawn_at=now)] if state.status is Status.RECORDED else []


def evolve(state: SignalMap, event: Any) -> SignalMap:
    """Fold an event. Never refuses."""
    status = Status[destination(TABLE, event, state.status)]
    plan_sha256 = event.plan_sha256 if isinstance(event, SignalMapRecorded) else state.plan_sha256
    return SignalMap(status=status, plan_sha256=plan_sha256)


MACHINE = StateMachine("map", TABLE, SignalMap(), evolve, SignalMapConflict, SignalMap)
