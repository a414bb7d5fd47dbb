"""The device flow: a code shown on one device is authorised on another, and the poll mints the key (G-020).

A sign-in's stream id is derived from its user code, so that two live sign-ins can never show the same code; a code
whose time is over may be used again by a later sign-in of the same stream. That time is over is never an event: it
follows from the clock of the command. Codes appear as SHA-256 only.
"""

from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

LIFETIME = 900  # seconds between start and expiry


def normal_user_code(text: str) -> str:
    """Reduce a code as typed to its letters: case, dash and spaces do not matter."""
    return "".join(letter for letter in text.upper() if letter.isascii() and letter.isalnum())


def sign_in_id(salt: str, user_code: str) -> str:
    """Id of the sign-in that shows a user code, however the code was typed."""
    return derived_id("dev", salt, normal_user_code(user_code))


def stream(sign_in_id: str) -> Stream:
    """History of the sign-ins that show one user code."""
    return Stream(MACHINE, sign_in_id, sign_in_id)


class Status(Enum):
    """Where a sign-in stands."""

    ABSENT = "absent"
    PENDING = "pending"
    AUTHORIZED = "authorized"
    DENIED = "denied"
    REDEEMED = "redeemed"


class SignInStarted(Event, frozen=True):
    """A device asked for a code. `client_name` is what it calls itself: shown to the operator, never trusted."""

    TOPIC = "sign_in.started.v1"
    device_code_hash: str
    client_name: str | None
    started_at: int
    expires_at: int


class SignInAuthorized(Event, frozen=True):
    """A person stood behind the code. `is_new`: this sign-in made the account."""

    TOPIC = "sign_in.authorized.v1"
    user_id: str
    is_new: bool
    authorized_at: int


class SignInDenied(Event, frozen=True):
    """The code was refused."""

    TOPIC = "sign_in.denied.v1"
    denied_at: int


class SignInRedeemed(Event, frozen=True):
    """The poll took the key: exactly once."""

    TOPIC = "sign_in.redeemed.v1"
    key_id: str
    redeemed_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [SignInStarted.TOPIC, Status.ABSENT, Status.PENDING],
        # A code whose time is over may be shown again: decide_start looks at the clock.
        [SignInStarted.TOPIC, Status.PENDING, Status.PENDING],
        [SignInStarted.TOPIC, Status.AUTHORIZED, Status.PENDING],
        [SignInStarted.TOPIC, Status.DENIED, Status.PENDING],
        [SignInStarted.TOPIC, Status.REDEEMED, Status.PENDING],
        [SignInAuthorized.TOPIC, Status.PENDING, Status.AUTHORIZED],
        [SignInDenied.TOPIC, Status.PENDING, Status.DENIED],
        [SignInDenied.TOPIC, Status.AUTHORIZED, Status.DENIED],
        [SignInRedeemed.TOPIC, Status.AUTHORIZED, Status.REDEEMED],
    ],
)


class SignIn(msgspec.Struct, frozen=True):
    """What decisions about a sign-in depend on."""

    status: Status = Status.ABSENT
    device_code_hash: str = ""
    user_id: str = ""
    is_new: bool = False
    expires_at: int = 0

    def live(self, now: int) -> bool:
        """Whether its time is not over; true says nothing about its status."""
        return now < self.expires_at


class DeviceCodeOver(Rejection):
    """The device code is unknown, over, or was redeemed: these look the same."""

    code = "expired_token"


class AccessDenied(Rejection):
    """The sign-in was refused by the person or the operator."""

    code = "access_denied"


class AuthorizationPending(Rejection):
    """Nobody has authorised the code yet."""

    code = "authorization_pending"


class SlowDown(Rejection):
    """The client polls faster than the interval it was given."""

    code = "slow_down"


class UserCodeNotFound(Rejection):
    """The user code is unknown, over, or belongs to somebody else's sign-in."""

    code = "not_found"


class UserCodeTaken(Rejection):
    """A live sign-in already shows this code; the server tries another one."""

    code = "service_unavailable"


def decide_start(state: SignIn, device_code_hash: str, client_name: str | None, now: int) -> list[Event]:
    """Begin a sign-in under a code. Raises UserCodeTaken while another one shows it."""
    if state.device_code_hash == device_code_hash:
        return []
    if state.live(now):
        raise UserCodeTaken("No code is free at the moment.", next_action="Start again.")
    return [SignInStarted(device_code_hash, client_name, now, now + LIFETIME)]


def decide_authorize(state: SignIn, user_id: str, now: int, *, is_new: bool) -> list[Event]:
    """Let a person stand behind a code; a repeat by the same person records nothing. Raises UserCodeNotFound."""
    if state.live(now):
        if state.status is Status.PENDING:
            return [SignInAuthorized(user_id, is_new, now)]
        if state.user_id == user_id and state.status is not Status.DENIED:
            return []
    raise UserCodeNotFound("There is no live sign-in with this code.", next_action="Start the sign-in again.")


def decide_deny(state: SignIn, now: int) -> list[Event]:
    """Refuse a code that has not been redeemed; a repeat records nothing. Raises UserCodeNotFound."""
    if state.live(now):
        if state.status is Status.DENIED:
            return []
        if state.status is not Status.REDEEMED:
            return [SignInDenied(now)]
    raise UserCodeNotFound("There is no live sign-in with this code.", next_action="List the pending sign-ins.")


def decide_redeem(state: SignIn, device_code_hash: str, key_id: str, now: int) -> list[Event]:
    """Take the key of an authorised sign-in, once; [] while it is pending. Raises DeviceCodeOver, AccessDenied."""
    known = state.device_code_hash == device_code_hash and state.status is not Status.ABSENT
    if not known or not state.live(now) or state.status is Status.REDEEMED:
        raise DeviceCodeOver("The device code has expired or was used.", next_action="Start the sign-in again.")
    if state.status is Status.DENIED:
        raise AccessDenied("The sign-in was refused.", next_action="Ask the person before starting again.")
    return [SignInRedeemed(key_id, now)] if state.status is Status.AUTHORIZED else []


def evolve(state: SignIn, event: Event) -> SignIn:
    """Fold an event of a sign-in."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case SignInStarted():
            return SignIn(status, event.device_code_hash, expires_at=event.expires_at)
        case SignInAuthorized():
            return msgspec.structs.replace(state, status=status, user_id=event.user_id, is_new=event.is_new)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("dev", TABLE, SignIn(), evolve, DeviceCodeOver, SignIn)


# How a device polls: the seconds it has to wait in between, which grow when it does not (G-020).

INTERVAL = 5  # seconds a client waits between polls
INTERVAL_STEP = 5  # seconds added each time it polls faster
INTERVAL_MAX = 60
PACE_TOLERANCE = 1  # seconds of jitter that the whole-second clock and the network may add


class Pace(msgspec.Struct, frozen=True):
    """How a device polls: when it last did, and the seconds it has to wait in between."""

    last_polled_at: int
    interval: int = INTERVAL


def next_pace(pace: Pace | None, now: int) -> tuple[Pace, bool]:
    """Note a poll of a pending sign-in; True when it came too early, which lengthens the interval.

    Only pending sign-ins are slowed down: a client that keeps the pace it was first told gets its key at its first
    poll after the authorisation, whatever the interval has grown to.
    """
    if pace is None:
        return Pace(now), False
    if now - pace.last_polled_at >= pace.interval - PACE_TOLERANCE:
        return Pace(now, pace.interval), False
    return Pace(now, min(pace.interval + INTERVAL_STEP, INTERVAL_MAX)), True
