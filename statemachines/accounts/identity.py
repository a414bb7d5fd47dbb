"""An identity at an OIDC issuer, and the person whom it signs in (C-2).

The stream's id is derived from issuer and subject, so two first sign-ins of one identity race for one stream, which is
scoped by that id itself. It knows its person by the user id alone, and outlives the account.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from statemachines.accounts.person import Identity, without_address
from statemachines.kernel.machine import (
    Event,
    Moved,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

PROVIDER = "oidc"


def identity_id(salt: str, vouched: Vouched) -> str:
    """Id of an identity in one installation. The salt keeps ids from being computed elsewhere."""
    return derived_id("idn", salt, vouched.issuer, vouched.subject)


def stream(made_id: str) -> Stream:
    """History of an identity."""
    return Stream(MACHINE, made_id, made_id)


class Vouched(msgspec.Struct, frozen=True):
    """The word of an issuer about somebody. `email` is None without a verified address from a trusted issuer."""

    issuer: str
    subject: str
    email: str | None = None
    name: str | None = None

    def identity(self, salt: str) -> Identity:
        """The identity of a person of its own, in the installation with this salt."""
        subject = f"{self.issuer} {self.subject}"
        if self.email is None:
            return without_address(salt, PROVIDER, subject, self.name)
        return Identity(PROVIDER, subject, self.email, email_verified=True, name=self.name)


class Status(Enum):
    """Where an identity stands."""

    ABSENT = "absent"
    BOUND = "bound"


class IdentityBound(Event, frozen=True):
    """The identity signs this person in from now on: at its first sign-in, or at one after its person was deleted."""

    TOPIC = "identity.bound.v1"
    user_id: str
    issuer: str
    bound_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [IdentityBound.TOPIC, Status.ABSENT, Status.BOUND],
        [IdentityBound.TOPIC, Status.BOUND, Status.BOUND],
    ],
)


class BoundIdentity(msgspec.Struct, frozen=True):
    """The person of an identity."""

    status: Status = Status.ABSENT
    user_id: str = ""


class OtherPerson(Rejection):
    """The identity is not that of the signed-in person."""

    code = "principal_not_allowed"


def decide_bind(state: BoundIdentity, user_id: str, issuer: str, now: int, *, gone: str = "") -> list[Event]:
    """Bind an identity to a person; a repeat records nothing. `gone` is the person before, whose account was deleted.

    Raises Moved for an identity of anybody else.
    """
    if state.user_id == user_id:
        return []
    if state.user_id != gone:
        raise Moved
    return [IdentityBound(user_id, issuer, now)]


def check_person(state: BoundIdentity, user_id: str) -> None:
    """Raise OtherPerson for an identity of nobody, or of anybody else."""
    if state.user_id != user_id:
        raise OtherPerson("You signed in as somebody else.", next_action="Sign in as the person of this session.")


def evolve(state: BoundIdentity, event: Event) -> BoundIdentity:
    """Fold an event of an identity."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case IdentityBound():
            return BoundIdentity(status, event.user_id)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("idn", TABLE, BoundIdentity(), evolve, OtherPerson, BoundIdentity)
