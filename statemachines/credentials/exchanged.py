"""A credential that CI was given for a token of its issuer: for one run of a bound workflow, and once (G-171).

Its id is derived from the token's, so that whoever shows a token again meets the stream that the first one began. Its
end is never an event: it follows from the clock, and from the binding by which it came. The hash of its secret is a
fact outside the stream, and goes with the secret.
"""

from enum import Enum

import msgspec

from statemachines.credentials.binding import Binding, Presented
from statemachines.kernel.machine import (
    CiRun,
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

LIFETIME = 900
"""Seconds that it lives."""
KEPT = 86_400
"""Seconds after its end for which it is shown."""


def stream(project_id: str, issuer: str, token_id: str) -> Stream:
    """History of the credential that a token of an issuer gives in a project."""
    return Stream(MACHINE, project_id, derived_id("xcred", project_id, issuer, token_id))


class Status(Enum):
    """Whether the token was exchanged."""

    ABSENT = "absent"
    EXCHANGED = "exchanged"


class CiCredentialExchanged(Event, frozen=True):
    """CI exchanged the token of a run for a credential. Times in epoch seconds."""

    TOPIC = "ci_credential.exchanged.v1"
    run: CiRun
    scopes: list[str]
    prefix: str
    exchanged_at: int
    expires_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [[CiCredentialExchanged.TOPIC, Status.ABSENT, Status.EXCHANGED]],
)


class Exchanged(msgspec.Struct, frozen=True):
    """What decisions about it depend on."""

    status: Status = Status.ABSENT
    prefix: str = ""


class TokenUsed(Rejection):
    """The token was exchanged before."""

    code = "unauthenticated"


def decide_exchange(
    state: Exchanged, binding: Binding, shown: Presented, *, scopes: list[str], prefix: str, now: int
) -> list[Event]:
    """Exchange a token for a secret with this prefix. Raises TokenUsed when it was exchanged for another one."""
    if state.status is Status.EXCHANGED:
        if state.prefix == prefix:
            return []
        raise TokenUsed("The token was exchanged before.")
    ran = shown.ran
    run = CiRun(binding.id, ran.issuer, shown.repository, ran.ref, ran.workflow, ran.environment, shown.run_id)
    return [CiCredentialExchanged(run, scopes, prefix, now, now + LIFETIME)]


def evolve(state: Exchanged, event: Event) -> Exchanged:
    """Fold the exchange."""
    status = Status[destination(TABLE, event, state.status)]
    return Exchanged(status, event.prefix) if isinstance(event, CiCredentialExchanged) else state


MACHINE = StateMachine("xcred", TABLE, Exchanged(), evolve, TokenUsed, Exchanged)
