"""People, their API keys and their memberships: three machines, one resource (R-AUTH, G-021, G-025, G-027).

A person's id is derived from the identity, so that two first sign-ins of one identity race for one stream; a
membership's id is derived from project and person for the same reason. Streams of people and keys are scoped by
the user id, streams of memberships by the project id. Secrets appear as SHA-256 only.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from statemachines.kernel.machine import Event, Rejection, StateMachine, derived_id, destination, transition_table

# ---- People


class AccountDeletionInProgress(Rejection):
    """The account was fenced for deletion; nothing new begins in its name."""

    code = "project_deletion_in_progress"


class PersonNotFound(Rejection):
    """No such person in this installation."""

    code = "not_found"


class PersonStatus(Enum):
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
    """The last row of the account is gone."""

    TOPIC = "person.deleted.v1"
    deleted_at: int


PERSON_TABLE = transition_table(
    PersonStatus,
    PersonStatus.ABSENT,
    [
        [PersonRegistered.TOPIC, PersonStatus.ABSENT, PersonStatus.ACTIVE],
        [PersonRegistered.TOPIC, PersonStatus.DELETED, PersonStatus.ACTIVE],
        [PersonProfileChanged.TOPIC, PersonStatus.ACTIVE, PersonStatus.ACTIVE],
        [PersonFenced.TOPIC, PersonStatus.ACTIVE, PersonStatus.FENCED],
        [PersonDeleted.TOPIC, PersonStatus.FENCED, PersonStatus.DELETED],
    ],
)


class Person(msgspec.Struct, frozen=True):
    """What decisions about a person depend on."""

    status: PersonStatus = PersonStatus.ABSENT
    email: str = ""
    email_verified: bool = False
    name: str | None = None
    synthetic: bool = False


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


def synthetic_identity(test_run_id: str) -> Identity:
    """Identity of a test run; `.invalid` can never receive mail, so nobody real can own it (RFC 2606)."""
    address = f"test+{test_run_id}@service.invalid"
    return Identity("email", address, address)


def person_id(salt: str, identity: Identity) -> str:
    """User id of an identity in one installation; the salt keeps ids from being computed elsewhere."""
    return derived_id("usr", salt, identity.provider, identity.subject)


def decide_register(state: Person, identity: Identity, now: int) -> list[Event]:
    """Make the identity known, or take over its changed profile. Raises AccountDeletionInProgress."""
    if state.status is PersonStatus.FENCED:
        raise AccountDeletionInProgress("The account is being deleted.", next_action="Sign in again once it is gone.")
    if state.status is not PersonStatus.ACTIVE:
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


def decide_fence_person(state: Person, now: int) -> list[Event]:
    """Begin the deletion of an account; a repeat records nothing."""
    return [] if state.status in {PersonStatus.FENCED, PersonStatus.DELETED} else [PersonFenced(now)]


def decide_delete_person(state: Person, now: int) -> list[Event]:
    """End the deletion of an account; a repeat records nothing."""
    return [] if state.status is PersonStatus.DELETED else [PersonDeleted(now)]


def evolve_person(state: Person, event: Event) -> Person:
    """Fold an event of a person."""
    status = PersonStatus[destination(PERSON_TABLE, event, state.status)]
    match event:
        case PersonRegistered() | PersonProfileChanged():
            synthetic = event.synthetic if isinstance(event, PersonRegistered) else state.synthetic
            return Person(status, event.email, event.email_verified, event.name, synthetic)
        case _:
            return msgspec.structs.replace(state, status=status)


PERSON = StateMachine("usr", PERSON_TABLE, Person(), evolve_person, AccountDeletionInProgress, Person)

# ---- API keys


class KeyNotFound(Rejection):
    """No such key among the caller's own."""

    code = "not_found"


class KeyStatus(Enum):
    """Where an API key stands."""

    ABSENT = "absent"
    LIVE = "live"
    REVOKED = "revoked"


class KeyMinted(Event, frozen=True):
    """A key was made. `sign_in_id` is None when an operator made it."""

    TOPIC = "key.minted.v1"
    user_id: str
    key_hash: str
    key_prefix: str
    sign_in_id: str | None
    minted_at: int


class KeyRevoked(Event, frozen=True):
    """A key was ended for good."""

    TOPIC = "key.revoked.v1"
    revoked_at: int


KEY_TABLE = transition_table(
    KeyStatus,
    KeyStatus.ABSENT,
    [
        [KeyMinted.TOPIC, KeyStatus.ABSENT, KeyStatus.LIVE],
        [KeyRevoked.TOPIC, KeyStatus.LIVE, KeyStatus.REVOKED],
    ],
)


class Key(msgspec.Struct, frozen=True):
    """What decisions about a key depend on."""

    status: KeyStatus = KeyStatus.ABSENT
    user_id: str = ""


def decide_revoke_key(state: Key, now: int) -> list[Event]:
    """End a key; the first revocation counts. Raises KeyNotFound."""
    match state.status:
        case KeyStatus.ABSENT:
            raise KeyNotFound("There is no such key.", next_action="List your keys and name one of them.")
        case KeyStatus.REVOKED:
            return []
        case KeyStatus.LIVE:
            return [KeyRevoked(now)]


def evolve_key(state: Key, event: Event) -> Key:
    """Fold an event of a key."""
    status = KeyStatus[destination(KEY_TABLE, event, state.status)]
    return Key(status, event.user_id if isinstance(event, KeyMinted) else state.user_id)


KEY = StateMachine("key", KEY_TABLE, Key(), evolve_key, KeyNotFound, Key)

# ---- Memberships


class MemberNotFound(Rejection):
    """The person is no member of the project."""

    code = "not_found"


class LastOwner(Rejection):
    """Without an owner nobody could administer or delete the project."""

    code = "owner_required"


class SyntheticMember(Rejection):
    """Identities of test runs stay among projects of test runs (threat 8)."""

    code = "principal_not_allowed"


class Role(Enum):
    """What a member may do: the owner everything, a member what grants or reveals nothing (G-025)."""

    OWNER = "owner"
    MEMBER = "member"


class MembershipStatus(Enum):
    """Where a membership stands. The role is part of the status: it decides what is possible."""

    ABSENT = "absent"
    OWNER = "owner"
    MEMBER = "member"
    REMOVED = "removed"


class OwnerAdded(Event, frozen=True):
    """A person owns the project from now on."""

    TOPIC = "membership.owner_added.v1"
    user_id: str
    added_at: int


class MemberAdded(Event, frozen=True):
    """A person is a member, not an owner, from now on."""

    TOPIC = "membership.member_added.v1"
    user_id: str
    added_at: int


class MembershipRemoved(Event, frozen=True):
    """A person left the project."""

    TOPIC = "membership.removed.v1"
    removed_at: int


MEMBERSHIP_TABLE = transition_table(
    MembershipStatus,
    MembershipStatus.ABSENT,
    [
        [OwnerAdded.TOPIC, MembershipStatus.ABSENT, MembershipStatus.OWNER],
        [OwnerAdded.TOPIC, MembershipStatus.MEMBER, MembershipStatus.OWNER],
        [OwnerAdded.TOPIC, MembershipStatus.REMOVED, MembershipStatus.OWNER],
        [MemberAdded.TOPIC, MembershipStatus.ABSENT, MembershipStatus.MEMBER],
        [MemberAdded.TOPIC, MembershipStatus.OWNER, MembershipStatus.MEMBER],
        [MemberAdded.TOPIC, MembershipStatus.REMOVED, MembershipStatus.MEMBER],
        [MembershipRemoved.TOPIC, MembershipStatus.OWNER, MembershipStatus.REMOVED],
        [MembershipRemoved.TOPIC, MembershipStatus.MEMBER, MembershipStatus.REMOVED],
    ],
)


class Membership(msgspec.Struct, frozen=True):
    """What decisions about a membership depend on."""

    status: MembershipStatus = MembershipStatus.ABSENT
    user_id: str = ""


def membership_id(project_id: str, user_id: str) -> str:
    """Id of the one membership of a person in a project."""
    return derived_id("mem", project_id, user_id)


def decide_set_role(
    state: Membership, user_id: str, role: Role, now: int, *, other_owners: Sequence[str] = ()
) -> list[Event]:
    """Add a person or change the role. `other_owners` are the owners besides this person. Raises LastOwner."""
    if state.status.value == role.value:
        return []
    if role is Role.OWNER:
        return [OwnerAdded(user_id, now)]
    if state.status is MembershipStatus.OWNER and not other_owners:
        raise LastOwner("This person is the only owner.", next_action="Make somebody else an owner first.")
    return [MemberAdded(user_id, now)]


def check_may_join(person: Person, *, synthetic_project: bool) -> None:
    """Refuse people who cannot join a project. Raises AccountDeletionInProgress, PersonNotFound, SyntheticMember."""
    if person.status is PersonStatus.FENCED:
        raise AccountDeletionInProgress("The account is being deleted.")
    if person.status is not PersonStatus.ACTIVE:
        raise PersonNotFound("There is no such person.", next_action="Let the person sign in once, or create a key.")
    if person.synthetic and not synthetic_project:
        raise SyntheticMember("An identity of a test run cannot join this project.")


def decide_remove(state: Membership, now: int, *, other_owners: Sequence[str]) -> list[Event]:
    """End a membership; a repeat records nothing. Raises MemberNotFound, LastOwner."""
    if state.status is MembershipStatus.REMOVED:
        return []
    if state.status is MembershipStatus.ABSENT:
        raise MemberNotFound("This person is no member of the project.", next_action="List the members of the project.")
    if state.status is MembershipStatus.OWNER and not other_owners:
        raise LastOwner("This person is the only owner.", next_action="Make somebody else an owner first.")
    return [MembershipRemoved(now)]


def evolve_membership(state: Membership, event: Event) -> Membership:
    """Fold an event of a membership."""
    status = MembershipStatus[destination(MEMBERSHIP_TABLE, event, state.status)]
    user_id = event.user_id if isinstance(event, OwnerAdded | MemberAdded) else state.user_id
    return Membership(status, user_id)


MEMBERSHIP = StateMachine("mem", MEMBERSHIP_TABLE, Membership(), evolve_membership, MemberNotFound, Membership)
