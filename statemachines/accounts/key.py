"""An API key: minted for a person, and revoked for good (R-AUTH, G-021). Its secret appears as SHA-256 only.

The stream is scoped by the user id. A sign-in mints its key in the commit of its own redemption; one that an operator
makes belongs to no sign-in.
"""

from enum import Enum

import msgspec

from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table


def stream(user_id: str, key_id: str) -> Stream:
    """History of an API key."""
    return Stream(MACHINE, user_id, key_id)


class Status(Enum):
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


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [KeyMinted.TOPIC, Status.ABSENT, Status.LIVE],
        [KeyRevoked.TOPIC, Status.LIVE, Status.REVOKED],
    ],
)


class Key(msgspec.Struct, frozen=True):
    """What decisions about a key depend on."""

    status: Status = Status.ABSENT
    user_id: str = ""


class KeyNotFound(Rejection):
    """No such key among the caller's own."""

    code = "not_found"


def decide_revoke(state: Key, now: int) -> list[Event]:
    """End a key; the first revocation counts. Raises KeyNotFound."""
    match state.status:
        case Status.ABSENT:
            raise KeyNotFound("There is no such key.", next_action="List your keys and name one of them.")
        case Status.REVOKED:
            return []
        case Status.LIVE:
            return [KeyRevoked(now)]


def evolve(state: Key, event: Event) -> Key:
    """Fold an event of a key."""
    status = Status[destination(TABLE, event, state.status)]
    return Key(status, event.user_id if isinstance(event, KeyMinted) else state.user_id)


MACHINE = StateMachine("key", TABLE, Key(), evolve, KeyNotFound, Key)
