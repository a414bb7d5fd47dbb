"""A session: what a person's browser signs in with, from a one-time link or a provider's word to its end (C-1).

The stream is scoped by the user id. A link is the beginning of a session, which opens when the link is used. A link may
also serve to sign in once more in an open session. Its own stream ends then. That the time of either is over is never
an event: it follows from the clock of the command. Secrets appear as SHA-256 only.
"""

from enum import Enum

import msgspec

from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table

LINK_LIFETIME = 120  # seconds in which a link may be used
LIFETIME = 12 * 3600  # seconds of a session, however much it is used
FRESH = 900  # seconds for which a sign-in counts where the person has to sign in again


def stream(user_id: str, session_id: str) -> Stream:
    """History of a session."""
    return Stream(MACHINE, user_id, session_id)


class Status(Enum):
    """Where a session stands. OFFERED: its link has not been used."""

    ABSENT = "absent"
    OFFERED = "offered"
    OPEN = "open"
    ENDED = "ended"


class SessionOffered(Event, frozen=True):
    """An operator made a link for a person."""

    TOPIC = "session.offered.v1"
    user_id: str
    link_hash: str
    offered_at: int
    expires_at: int


class SessionOpened(Event, frozen=True):
    """A browser has the session's secret. `by` is link or oidc: what the person signed in with."""

    TOPIC = "session.opened.v1"
    user_id: str
    secret_hash: str
    by: str
    opened_at: int
    expires_at: int


class SessionAuthenticated(Event, frozen=True):
    """The person signed in once more. The browser has a new secret, and the one before is nobody's."""

    TOPIC = "session.authenticated.v1"
    secret_hash: str
    by: str
    authenticated_at: int


class SessionEnded(Event, frozen=True):
    """It was ended for good. `reason` is signed_out, revoked, or used: the link of a sign-in in another session."""

    TOPIC = "session.ended.v1"
    reason: str
    ended_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [SessionOffered.TOPIC, Status.ABSENT, Status.OFFERED],
        [SessionOpened.TOPIC, Status.ABSENT, Status.OPEN],
        [SessionOpened.TOPIC, Status.OFFERED, Status.OPEN],
        [SessionAuthenticated.TOPIC, Status.OPEN, Status.OPEN],
        [SessionEnded.TOPIC, Status.OFFERED, Status.ENDED],
        [SessionEnded.TOPIC, Status.OPEN, Status.ENDED],
    ],
)


class Session(msgspec.Struct, frozen=True):
    """What decisions about a session depend on. `expires_at` is that of the link, and then that of the session."""

    status: Status = Status.ABSENT
    user_id: str = ""
    link_hash: str = ""
    secret_hash: str = ""
    expires_at: int = 0

    def live(self, now: int) -> bool:
        """Whether its time is not over. True says nothing about its status."""
        return now < self.expires_at


class SessionNotFound(Rejection):
    """No such session among the caller's own."""

    code = "not_found"


class LinkOver(Rejection):
    """The link is unknown, over, or was used: these look the same."""

    code = "expired_token"


def no_session() -> SessionNotFound:
    """The refusal of a session that is none of the caller's."""
    return SessionNotFound("There is no such session.", next_action="List your sessions and name one of them.")


def link_over() -> LinkOver:
    """The one refusal of every link that opens nothing."""
    return LinkOver("The link has expired or was used.", next_action="Make a new one with service console open.")


def decide_offer(state: Session, user_id: str, link_hash: str, now: int) -> list[Event]:
    """Make a link; a repeat of the same one records nothing."""
    if state.link_hash == link_hash:
        return []
    return [SessionOffered(user_id, link_hash, now, now + LINK_LIFETIME)]


def decide_enter(state: Session, link_hash: str, secret_hash: str, now: int) -> list[Event]:
    """Use a link, once, for a session. Raises LinkOver."""
    _check_link(state, link_hash, now)
    return [SessionOpened(state.user_id, secret_hash, "link", now, now + LIFETIME)]


def decide_open(state: Session, user_id: str, secret_hash: str, now: int) -> list[Event]:
    """Open a session for a person whom a provider has signed in; a repeat records nothing."""
    if state.secret_hash == secret_hash:
        return []
    return [SessionOpened(user_id, secret_hash, "oidc", now, now + LIFETIME)]


def decide_spend(state: Session, link_hash: str, now: int) -> list[Event]:
    """Use a link, once, for a sign-in in another session. Raises LinkOver."""
    _check_link(state, link_hash, now)
    return [SessionEnded("used", now)]


def decide_authenticate(state: Session, secret_hash: str, by: str, now: int) -> list[Event]:
    """Sign the person of an open session in once more; a repeat records nothing. Raises SessionNotFound."""
    if state.status is not Status.OPEN or not state.live(now):
        raise no_session()
    return [] if state.secret_hash == secret_hash else [SessionAuthenticated(secret_hash, by, now)]


def decide_end(state: Session, reason: str, now: int) -> list[Event]:
    """End a session or a link; the first end counts. Raises SessionNotFound."""
    match state.status:
        case Status.ABSENT:
            raise no_session()
        case Status.ENDED:
            return []
        case Status.OFFERED | Status.OPEN:
            return [SessionEnded(reason, now)]


def _check_link(state: Session, link_hash: str, now: int) -> None:
    if state.status is not Status.OFFERED or state.link_hash != link_hash or not state.live(now):
        raise link_over()


def evolve(state: Session, event: Event) -> Session:
    """Fold an event of a session."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case SessionOffered():
            return Session(status, event.user_id, event.link_hash, expires_at=event.expires_at)
        case SessionOpened():
            return Session(status, event.user_id, state.link_hash, event.secret_hash, event.expires_at)
        case SessionAuthenticated():
            return msgspec.structs.replace(state, status=status, secret_hash=event.secret_hash)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("ses", TABLE, Session(), evolve, SessionNotFound, Session)
