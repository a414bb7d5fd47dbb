"""The stop of a whole installation: an operator ends all automation at once, and lifts only that again (G-148).

One stream an installation. While the stop is in force no contract can be enabled; contracts that were enabled are
paused one by one, each by an event of its own, and stay so when the stop is lifted until their owners enable them.
"""

from enum import Enum
from typing import Any

import msgspec

from statemachines.contracts.policy import PauseInForce
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

SCOPE = "service"  # the stop belongs to no project
GATE = "installation-stop"
"""Held by whoever enables; the stop and its end wait until nobody does."""


def stream() -> Stream:
    """History of the installation's stop."""
    return Stream(MACHINE, SCOPE, derived_id("stop", "installation"))


class Status(Enum):
    """Whether an operator has stopped the installation."""

    LIFTED = "lifted"
    IN_FORCE = "in_force"


class InstallationStopped(Event, frozen=True):
    """An operator stopped all automation of the installation; `why` is the operator's own word."""

    TOPIC = "installation.stopped.v1"
    why: str
    stopped_at: int


class InstallationResumed(Event, frozen=True):
    """An operator lifted the stop: owners may enable their contracts again."""

    TOPIC = "installation.resumed.v1"
    resumed_at: int


TABLE = transition_table(
    Status,
    Status.LIFTED,
    [
        # event                      from              to
        [InstallationStopped.TOPIC, Status.LIFTED, Status.IN_FORCE],
        [InstallationResumed.TOPIC, Status.IN_FORCE, Status.LIFTED],
    ],
)


class InstallationStop(msgspec.Struct, frozen=True):
    """Whether the stop is in force, and since when (epoch seconds; 0 while it never was)."""

    status: Status = Status.LIFTED
    since: int = 0


class StopConflict(Rejection):
    """An event that the table does not allow: never, for each decision records nothing where its wish is true."""

    code = "internal_error"


def decide_stop(state: InstallationStop, *, why: str, now: int) -> list[Event]:
    """Stop everything; nothing when it is stopped already."""
    return [] if state.status is Status.IN_FORCE else [InstallationStopped(why=why, stopped_at=now)]


def decide_resume(state: InstallationStop, *, now: int) -> list[Event]:
    """Lift the stop; nothing when there is none."""
    return [InstallationResumed(resumed_at=now)] if state.status is Status.IN_FORCE else []


def require_lifted(state: InstallationStop) -> None:
    """Refuse to turn anything on while the stop is in force. Raises PauseInForce."""
    if state.status is Status.IN_FORCE:
        raise PauseInForce(
            "An operator has stopped all automation of this installation.",
            next_action="Wait until the operator lifts the stop. Then review the contract and enable it.",
        )


def evolve(state: InstallationStop, event: Any) -> InstallationStop:
    """Fold an event. Never refuses."""
    status = Status[destination(TABLE, event, state.status)]
    since = event.stopped_at if isinstance(event, InstallationStopped) else event.resumed_at
    return InstallationStop(status, since)


MACHINE = StateMachine("stop", TABLE, InstallationStop(), evolve, StopConflict, InstallationStop)
