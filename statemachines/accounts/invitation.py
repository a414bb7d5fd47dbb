"""An invitation: an owner offers a role in a project to an address, and the person behind it accepts (G-177).

The id is derived from project and address, so that rivals for one address name the same stream, which is scoped by
the project; an invitation that was accepted, revoked or is over may be made again. It rests on the ownership of whoever
made it: `standing` is the revision of their membership then, so that it dies with any change of that, for good.
Nothing changes before it is accepted; then the membership moves with it, in one command under the project's gate.
"""

from enum import Enum

import msgspec

from statemachines.accounts.membership import Role
from statemachines.accounts.person import Person
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

LIFETIME = 7 * 86400  # seconds
OPEN_LIMIT = 100  # open invitations of a project


def normalized(email: str) -> str:
    """Return an address as it is compared: without surrounding space, and in lower case as far as it is ASCII.

    Folding more would let two different mailboxes pass for one.
    """
    return email.strip().encode().lower().decode()


def invitation_id(salt: str, project_id: str, email: str) -> str:
    """Id of the one invitation of an address to a project; the salt keeps ids from being computed elsewhere."""
    return derived_id("inv", salt, project_id, normalized(email))


def stream(project_id: str, made_id: str) -> Stream:
    """History of an address in a project."""
    return Stream(MACHINE, project_id, made_id)


class Status(Enum):
    """Where an invitation stands. Whether an open one is over is told by its time and its inviter's ownership."""

    ABSENT = "absent"
    OPEN = "open"
    ACCEPTED = "accepted"
    REVOKED = "revoked"


class InvitationMade(Event, frozen=True):
    """An owner offers a role to an address, for the first time or in place of what was offered before."""

    TOPIC = "invitation.made.v1"
    email: str
    role: str
    invited_by: str
    standing: int
    invited_at: int
    expires_at: int


class InvitationAccepted(Event, frozen=True):
    """The person with that verified address took it up."""

    TOPIC = "invitation.accepted.v1"
    user_id: str
    accepted_at: int


class InvitationRevoked(Event, frozen=True):
    """The offer was taken back before anybody took it up."""

    TOPIC = "invitation.revoked.v1"
    revoked_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [InvitationMade.TOPIC, [Status.ABSENT, Status.OPEN, Status.ACCEPTED, Status.REVOKED], Status.OPEN],
        [InvitationAccepted.TOPIC, Status.OPEN, Status.ACCEPTED],
        [InvitationRevoked.TOPIC, Status.OPEN, Status.REVOKED],
    ],
)


class Invitation(msgspec.Struct, frozen=True):
    """What decisions about an invitation depend on."""

    status: Status = Status.ABSENT
    email: str = ""
    role: str = ""
    expires_at: int = 0
    accepted_by: str = ""

    def open_at(self, now: int) -> bool:
        """Whether it can still be accepted, as far as time is concerned."""
        return self.status is Status.OPEN and now < self.expires_at


class Offer(msgspec.Struct, frozen=True):
    """What an owner offers: `standing` is the revision of that owner's membership."""

    email: str
    role: Role
    invited_by: str
    standing: int


class InvitationNotFound(Rejection):
    """There is none that the caller could see, or none any more: these look the same."""

    code = "not_found"


class TooManyInvitations(Rejection):
    """As many invitations of the project as there may be are open."""

    code = "too_many_invitations"


def no_invitation() -> InvitationNotFound:
    """The one refusal for what is absent, over, or somebody else's."""
    return InvitationNotFound("There is no such invitation.", next_action="Ask an owner of the project to invite you.")


def none_to_revoke() -> InvitationNotFound:
    """The same as an owner is told it."""
    return InvitationNotFound("There is no such invitation.", next_action="List the members of the project.")


def proves(person: Person, email: str) -> bool:
    """Whether a person is known to be behind an address.

    The reserved domain of test runs receives no mail, so what the test token vouches for is all there can be of it.
    """
    reserved = person.synthetic and normalized(person.email).endswith("@service.invalid")
    return normalized(person.email) == normalized(email) and (person.email_verified or reserved)


def decide_make(state: Invitation, offer: Offer, now: int, *, stands: bool, others_open: int) -> list[Event]:
    """Offer a role; the same offer again records nothing while it is open. Raises TooManyInvitations.

    `stands`: whoever made the open one still is the owner that they were then.
    """
    if state.open_at(now) and stands and state.role == offer.role.value:
        return []
    if others_open >= OPEN_LIMIT:
        raise TooManyInvitations(
            f"A project has at most {OPEN_LIMIT} open invitations.", next_action="Revoke one that is no longer wanted."
        )
    return [
        InvitationMade(
            email=normalized(offer.email),
            role=offer.role.value,
            invited_by=offer.invited_by,
            standing=offer.standing,
            invited_at=now,
            expires_at=now + LIFETIME,
        )
    ]


def decide_accept(state: Invitation, user_id: str, person: Person, now: int, *, stands: bool) -> list[Event]:
    """Take an offer up; a repeat by the same person records nothing. Raises InvitationNotFound."""
    if not proves(person, state.email):
        raise no_invitation()
    if state.status is Status.ACCEPTED and state.accepted_by == user_id:
        return []
    if not (state.open_at(now) and stands):
        raise no_invitation()
    return [InvitationAccepted(user_id, now)]


def decide_revoke(state: Invitation, now: int) -> list[Event]:
    """Take an offer back; a repeat records nothing. Raises InvitationNotFound once it was accepted."""
    if state.status is Status.REVOKED:
        return []
    if state.status is not Status.OPEN:
        raise none_to_revoke()
    return [InvitationRevoked(now)]


def evolve(state: Invitation, event: Event) -> Invitation:
    """Fold an event of an invitation."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case InvitationMade():
            return Invitation(status, event.email, event.role, event.expires_at)
        case InvitationAccepted():
            return msgspec.structs.replace(state, status=status, accepted_by=event.user_id)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("inv", TABLE, Invitation(), evolve, InvitationNotFound, Invitation)
