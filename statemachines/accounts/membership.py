"""A membership: a person in a project, with a role, until removed (R-AUTH, G-025).

The id is derived from project and person, so that rivals for one membership name the same stream, which is scoped by
the project. Who joins is read with it: a person who is fenced, or made up by a test run, stays out.
"""

from collections.abc import Sequence
from enum import Enum
from typing import assert_never

import msgspec

from statemachines.accounts import person
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)


def membership_id(project_id: str, user_id: str) -> str:
    """Id of the one membership of a person in a project."""
    return derived_id("mem", project_id, user_id)


def stream(project_id: str, user_id: str) -> Stream:
    """History of a person in a project."""
    return Stream(MACHINE, project_id, membership_id(project_id, user_id))


class Role(Enum):
    """The rights of a person in a project (G-025, G-169).

    The owner may do everything. A member may do what grants or reveals nothing. An auditor may read and change nothing.
    """

    OWNER = "owner"
    MEMBER = "member"
    AUDITOR = "auditor"


_ASCENDING = (Role.AUDITOR, Role.MEMBER, Role.OWNER)


def role_named(text: str) -> Role | None:
    """The role of a row. None for one of a later release, which gives no right here."""
    return next((role for role in Role if role.value == text), None)


class Status(Enum):
    """Where a membership stands. The role is part of the status: it decides what is possible."""

    ABSENT = "absent"
    OWNER = "owner"
    MEMBER = "member"
    AUDITOR = "auditor"
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


class AuditorAdded(Event, frozen=True):
    """A person reads the project and changes nothing, from now on."""

    TOPIC = "membership.auditor_added.v1"
    user_id: str
    added_at: int


class MembershipRemoved(Event, frozen=True):
    """A person left the project."""

    TOPIC = "membership.removed.v1"
    removed_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [OwnerAdded.TOPIC, [Status.ABSENT, Status.MEMBER, Status.AUDITOR, Status.REMOVED], Status.OWNER],
        [MemberAdded.TOPIC, [Status.ABSENT, Status.OWNER, Status.AUDITOR, Status.REMOVED], Status.MEMBER],
        [AuditorAdded.TOPIC, [Status.ABSENT, Status.OWNER, Status.MEMBER, Status.REMOVED], Status.AUDITOR],
        [MembershipRemoved.TOPIC, [Status.OWNER, Status.MEMBER, Status.AUDITOR], Status.REMOVED],
    ],
)


class Membership(msgspec.Struct, frozen=True):
    """What decisions about a membership depend on."""

    status: Status = Status.ABSENT
    user_id: str = ""


class MemberNotFound(Rejection):
    """The person is no member of the project."""

    code = "not_found"


class LastOwner(Rejection):
    """Without an owner nobody could administer or delete the project."""

    code = "last_owner"


class SyntheticMember(Rejection):
    """Identities of test runs stay among projects of test runs (threat 8)."""

    code = "principal_not_allowed"


def is_less(role: Role, status: Status) -> bool:
    """Whether a role permits less than what somebody is: taking it needs no consent, and no offer of it is taken up."""
    held = role_of(status)
    return held is not None and _ASCENDING.index(role) < _ASCENDING.index(held)


def role_of(status: Status) -> Role | None:
    """The role that a membership gives. None for one that is absent or ended."""
    match status:
        case Status.OWNER | Status.MEMBER | Status.AUDITOR:
            return Role(status.value)
        case Status.ABSENT | Status.REMOVED:
            return None
        case _:
            assert_never(status)


def check_may_join(joining: person.Person, *, synthetic_project: bool) -> None:
    """Refuse people who cannot join a project. Raises AccountDeletionInProgress, PersonNotFound, SyntheticMember."""
    if joining.status is person.Status.FENCED:
        raise person.AccountDeletionInProgress("The account is being deleted.")
    if joining.status is not person.Status.ACTIVE:
        raise person.PersonNotFound(
            "There is no such person.", next_action="Let the person sign in once, or create a key."
        )
    if joining.synthetic and not synthetic_project:
        raise SyntheticMember("An identity of a test run cannot join this project.")


def decide_set_role(
    state: Membership, user_id: str, role: Role, now: int, *, other_owners: Sequence[str] = ()
) -> list[Event]:
    """Add a person or change the role. `other_owners` are the owners besides this person. Raises LastOwner."""
    if state.status.value == role.value:
        return []
    if state.status is Status.OWNER and not other_owners:
        raise LastOwner("This person is the only owner.", next_action="Make another member an owner first.")
    match role:
        case Role.OWNER:
            return [OwnerAdded(user_id, now)]
        case Role.MEMBER:
            return [MemberAdded(user_id, now)]
        case Role.AUDITOR:
            return [AuditorAdded(user_id, now)]
        case _:
            assert_never(role)


def decide_remove(state: Membership, now: int, *, other_owners: Sequence[str]) -> list[Event]:
    """End a membership; a repeat records nothing. Raises MemberNotFound, LastOwner."""
    if state.status is Status.REMOVED:
        return []
    if state.status is Status.ABSENT:
        raise MemberNotFound(
            "This person is not a member of the project.", next_action="List the members of the project."
        )
    if state.status is Status.OWNER and not other_owners:
        raise LastOwner("This person is the only owner.", next_action="Make another member an owner first.")
    return [MembershipRemoved(now)]


def evolve(state: Membership, event: Event) -> Membership:
    """Fold an event of a membership."""
    status = Status[destination(TABLE, event, state.status)]
    user_id = event.user_id if isinstance(event, OwnerAdded | MemberAdded | AuditorAdded) else state.user_id
    return Membership(status, user_id)


MACHINE = StateMachine("mem", TABLE, Membership(), evolve, MemberNotFound, Membership)
