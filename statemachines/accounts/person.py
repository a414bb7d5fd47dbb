"""A person: known by an identity, fenced when the account is to be deleted, and deleted (R-AUTH, G-021, G-027).

The id is derived from the identity, so that two first sign-ins of one identity race for one stream, which is scoped
by that id itself. What begins in the name of a person (a key, a membership, the end of a sign-in) reads this stream
with its own, so that nothing begins for one who is fenced.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    LimitReached,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)


def person_id(salt: str, identity: Identity) -> str:
    """User id of an identity in one installation; the salt keeps ids from being computed elsewhere."""
    return derived_id("usr", salt, identity.provider, identity.subject)


def stream(user_id: str) -> Stream:
    """History of a person."""
    return Stream(MACHINE, user_id, user_id)


class Status(Enum):
    """Where a person stands. FENCED: an account deletion was accepted and is being carried out."""

    ABSENT = "absent"
    ACTIVE = "active"
    FENCED = "fenced"
    DELETED = "deleted"


class PersonRegistered(Event, frozen=True):
    """An identity was seen for the first time, or again after its account had been deleted."""

    TOPIC = "person.registered.v1"
    provider: str
    email: str
    email_verified: bool
    name: str | None
    synthetic: bool
    registered_at: int


class PersonProfileChanged(Event, frozen=True):
    """The identity provider reports another mail address or name for a known identity."""

    TOPIC = "person.profile_changed.v1"
    email: str
    email_verified: bool
    name: str | None


class PersonFenced(Event, frozen=True):
    """The account holder asked for deletion."""

    TOPIC = "person.fenced.v1"
    fenced_at: int


class PersonDeleted(Event, frozen=True):
    """The last row of the account is gone; of its history only this event can be read."""

    TOPIC = "person.deleted.v1"
    deleted_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [PersonRegistered.TOPIC, Status.ABSENT, Status.ACTIVE],
        [PersonRegistered.TOPIC, Status.DELETED, Status.ACTIVE],
        [PersonProfileChanged.TOPIC, Status.ACTIVE, Status.ACTIVE],
        [PersonFenced.TOPIC, Status.ACTIVE, Status.FENCED],
        [PersonDeleted.TOPIC, Status.FENCED, Status.DELETED],
        # The history before it is erased by then, so that it may lead nowhere.
        [PersonDeleted.TOPIC, Status.ABSENT, Status.DELETED],
    ],
)


class Person(msgspec.Struct, frozen=True):
    """What decisions about a person depend on."""

    status: Status = Status.ABSENT
    email: str = ""
    email_verified: bool = False
    name: str | None = None
    synthetic: bool = False


class AccountDeletionInProgress(Rejection):
    """The account was fenced for deletion; nothing new begins in its name."""

    code = "project_deletion_in_progress"


class PersonNotFound(Rejection):
    """No such person in this installation."""

    code = "not_found"


class TooMuchFeedback(LimitReached):
    """The person has sent as much different feedback as is kept."""


class Identity(msgspec.Struct, frozen=True):
    """Who an identity provider says somebody is. (provider, subject) is the key of the person (G-021)."""

    provider: str
    subject: str
    email: str
    email_verified: bool = False
    name: str | None = None

    @property
    def synthetic(self) -> bool:
        """Whether the identity belongs to a test run: a property of the identity, whoever presents it (R-AUTH-17)."""
        local, _, domain = self.subject.rpartition("@")
        return self.provider == "email" and local.startswith("test+") and domain == "service.invalid"


def without_address(salt: str, provider: str, subject: str, name: str | None) -> Identity:
    """The identity of somebody with no address: a stand-in at `.invalid` (RFC 2606), unverified."""
    identity = Identity(provider, subject, "", name=name)
    return msgspec.structs.replace(identity, email=f"{person_id(salt, identity)}@oidc.invalid")


def synthetic_identity(test_run_id: str) -> Identity:
    """Identity of a test run; `.invalid` can never receive mail, so nobody real can own it (RFC 2606)."""
    address = f"test+{test_run_id}@service.invalid"
    return Identity("email", address, address)


def decide_register(state: Person, identity: Identity, now: int) -> list[Event]:
    """Make the identity known, or take over its changed profile. Raises AccountDeletionInProgress."""
    if state.status is Status.FENCED:
        raise AccountDeletionInProgress("The account is being deleted.", next_action="Sign in again once it is gone.")
    if state.status is not Status.ACTIVE:
        return [
            PersonRegistered(
                provider=identity.provider,
                email=identity.email,
                email_verified=identity.email_verified,
                name=identity.name,
                synthetic=identity.synthetic,
                registered_at=now,
            )
        ]
    if (state.email, state.email_verified, state.name) == (identity.email, identity.email_verified, identity.name):
        return []
    return [PersonProfileChanged(identity.email, identity.email_verified, identity.name)]


def decide_fence(state: Person, now: int) -> list[Event]:
    """Begin the deletion of an account; a repeat records nothing."""
    return [] if state.status in {Status.FENCED, Status.DELETED} else [PersonFenced(now)]


def decide_delete(state: Person, now: int) -> list[Event]:
    """End the deletion of an account; a repeat records nothing."""
    return [] if state.status is Status.DELETED else [PersonDeleted(now)]


def evolve(state: Person, event: Event) -> Person:
    """Fold an event of a person."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case PersonRegistered() | PersonProfileChanged():
            synthetic = event.synthetic if isinstance(event, PersonRegistered) else state.synthetic
            return Person(status, event.email, event.email_verified, event.name, synthetic)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("usr", TABLE, Person(), evolve, AccountDeletionInProgress, Person)


# The rules of feedback: its id, and how much of it a person may send (G-063, G-158). Feedback decides nothing, so it
# has no machine. Its texts are facts, and go with the account.

FEEDBACK_LIMIT = 1_000
"""Different feedback of a person."""
MOST_DETAILS = 16_384
"""Bytes of `details` as JSON."""


def feedback_id(user_id: str, kind: str, fingerprint: str) -> str:
    """The one id of a person's feedback of a kind and a fingerprint."""
    return derived_id("fb", user_id, kind, fingerprint)


def require_room(kept: int) -> None:
    """Refuse new feedback beside so much that is kept. Raises TooMuchFeedback."""
    if kept >= FEEDBACK_LIMIT:
        raise TooMuchFeedback(
            f"A person has at most {FEEDBACK_LIMIT:,} different feedback.",
            next_action="Send defects that you have reported before with their fingerprint: repeats are counted.",
        )
