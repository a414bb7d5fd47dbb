"""A connection to the customer's analytics provider: one human's answer to one request for read access (G-022).

One stream a connection; the newest connected one of a project is the one that reads. The human grants access at the
provider, which sends them back to us with a code. We exchange it only after they have compared the user code there
(G-164). Codes, verifiers and tokens are secrets and in no event. The provider's grant supplies evidence and never
authority (R-AUTH-21).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from schemas.analytics import CONNECT_SECONDS, READ_SCOPES, REQUIRED_SCOPES
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table

_READ_SUFFIX = ":read"

EXCHANGE_SECONDS = 60
"""For exchanging the code and recording the outcome. An exchange that took longer has ended without one."""


def stream(project_id: str, connection_id: str) -> Stream:
    """History of a connection."""
    return Stream(MACHINE, project_id, connection_id)


class Status(Enum):
    """Where a connection stands."""

    ABSENT = "absent"
    PENDING = "pending"
    RETURNED = "returned"  # the human is back from the provider, and compares the codes
    EXCHANGING = "exchanging"  # the code is being exchanged for tokens
    CONNECTED = "connected"
    DENIED = "denied"
    EXPIRED = "expired"
    DISCONNECTED = "disconnected"


class Reason(Enum):
    """Why a connection was denied."""

    HUMAN = "human"  # somebody said no
    WRITE_SCOPE = "write_scope"  # the provider offered more than reading
    MISSING_SCOPE = "missing_scope"  # the provider offered less than is needed


class ConnectionStarted(Event, frozen=True):
    """A human was asked for read access."""

    TOPIC = "provider.connection_started.v1"
    host: str
    provider_project_id: int | None
    scopes: tuple[str, ...]
    started_at: int
    expires_at: int


class ConnectionReturned(Event, frozen=True):
    """The provider sent the human back with a code. The state of that address is used up."""

    TOPIC = "provider.connection_returned.v1"
    returned_at: int


class ConnectionExchangeStarted(Event, frozen=True):
    """The human found both codes equal, and the exchange of the code began. Recorded before the request."""

    TOPIC = "provider.connection_exchange_started.v1"
    started_at: int


class ConnectionGranted(Event, frozen=True, omit_defaults=True):
    """The human granted it. `host` is set if the provider named its region only now."""

    TOPIC = "provider.connection_granted.v1"
    provider_project_id: int | None
    scopes: tuple[str, ...]
    connected_at: int
    host: str | None = None


class ConnectionDenied(Event, frozen=True):
    """The human refused it, or what was granted is not read access alone."""

    TOPIC = "provider.connection_denied.v1"
    reason: Reason
    denied_at: int


class ConnectionExpired(Event, frozen=True):
    """Nobody answered in time, or the provider did not complete the sign-in."""

    TOPIC = "provider.connection_expired.v1"
    expired_at: int


class ConnectionEnded(Event, frozen=True):
    """An owner of the project disconnected it. Nothing is read through it any more."""

    TOPIC = "provider.connection_ended.v1"
    ended_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        # event                        from             to
        [ConnectionStarted.TOPIC, Status.ABSENT, Status.PENDING],
        [ConnectionReturned.TOPIC, Status.PENDING, Status.RETURNED],
        [ConnectionExchangeStarted.TOPIC, Status.RETURNED, Status.EXCHANGING],
        [ConnectionGranted.TOPIC, Status.EXCHANGING, Status.CONNECTED],
        [ConnectionDenied.TOPIC, Status.PENDING, Status.DENIED],
        [ConnectionDenied.TOPIC, Status.RETURNED, Status.DENIED],
        [ConnectionDenied.TOPIC, Status.EXCHANGING, Status.DENIED],
        [ConnectionExpired.TOPIC, Status.PENDING, Status.EXPIRED],
        [ConnectionExpired.TOPIC, Status.RETURNED, Status.EXPIRED],
        [ConnectionExpired.TOPIC, Status.EXCHANGING, Status.EXPIRED],
        [ConnectionEnded.TOPIC, Status.CONNECTED, Status.DISCONNECTED],
    ],
)


class Connection(msgspec.Struct, frozen=True):
    """What the decisions of one connection depend on; `expires_at` (epoch seconds) is when its present step ends."""

    status: Status = Status.ABSENT
    expires_at: int = 0

    @property
    def pending(self) -> bool:
        """Whether it has no answer yet."""
        return self.status in PENDING


PENDING = frozenset({Status.PENDING, Status.RETURNED, Status.EXCHANGING})
"""The statuses without an answer. Callers see them as pending."""


class ConnectionNotFound(Rejection):
    """No such connection in a project of the caller."""

    code = "not_found"


class ConnectionConflict(Rejection):
    """The connection has had its answer."""

    code = "provider_not_provisioned"


class ConnectWish(msgspec.Struct, frozen=True):
    """The wish to connect: where, and which of the provider's projects."""

    host: str
    provider_project_id: int | None


class Granted(msgspec.Struct, frozen=True):
    """The provider's yes: its scopes, the project it reads, and whether it covers the one asked for.

    `host` is the address of its region, if the provider names one.
    """

    scopes: tuple[str, ...]
    provider_project_id: int | None
    covers_project: bool = True
    host: str | None = None


class Brought(Enum):
    """The provider's word in the address that a human comes back to."""

    CODE = "code"
    DENIAL = "denial"  # the human refused there
    ERROR = "error"


class NoOutcome(msgspec.Struct, frozen=True):
    """The exchange failed. The code is spent all the same."""


Reply = Granted | NoOutcome


def scope_fault(scopes: Sequence[str]) -> Reason | None:
    """Say why granted scopes are not acceptable: anything but reading, or too little of it."""
    if any(not scope.endswith(_READ_SUFFIX) for scope in scopes):
        return Reason.WRITE_SCOPE
    return None if set(REQUIRED_SCOPES) <= set(scopes) else Reason.MISSING_SCOPE


def missing_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """The scopes asked for and not granted, in the order of READ_SCOPES."""
    return tuple(scope for scope in READ_SCOPES if scope not in scopes)


def decide_connect(state: Connection, wish: ConnectWish, now: int) -> list[Event]:
    """Ask for access. Returns nothing when this connection has asked before."""
    if state.status is not Status.ABSENT:
        return []
    return [
        ConnectionStarted(
            host=wish.host,
            provider_project_id=wish.provider_project_id,
            scopes=READ_SCOPES,
            started_at=now,
            expires_at=now + CONNECT_SECONDS,
        )
    ]


def decide_return(state: Connection, brought: Brought, now: int) -> list[Event]:
    """Use up the state of an address of ours. Returns nothing the second time."""
    if state.status is not Status.PENDING:
        return []
    match brought:
        case Brought.CODE:
            return decide_overdue(state, now) or [ConnectionReturned(returned_at=now)]
        case Brought.DENIAL:
            return decide_overdue(state, now) or [ConnectionDenied(reason=Reason.HUMAN, denied_at=now)]
        case Brought.ERROR:
            return decide_overdue(state, now, ended=True)


def decide_exchange(state: Connection, now: int) -> list[Event]:
    """Begin the exchange after the human's yes. Returns nothing unless they are back, nor the second time."""
    if state.status is not Status.RETURNED:
        return []
    return decide_overdue(state, now) or [ConnectionExchangeStarted(started_at=now)]


def decide_denial(state: Connection, now: int) -> list[Event]:
    """Record the human's no on our page. Returns nothing before it is shown, and after an answer."""
    if state.status is not Status.RETURNED:
        return []
    return decide_overdue(state, now) or [ConnectionDenied(reason=Reason.HUMAN, denied_at=now)]


def decide_reply(state: Connection, reply: Reply, now: int) -> list[Event]:
    """Record the outcome of the exchange. Returns nothing when it comes after the end of its time."""
    if state.status is not Status.EXCHANGING:
        return []
    if isinstance(reply, NoOutcome):
        return [ConnectionExpired(expired_at=now)]
    fault = scope_fault(reply.scopes) or (None if reply.covers_project else Reason.MISSING_SCOPE)
    if fault is not None:
        return [ConnectionDenied(reason=fault, denied_at=now)]
    return [
        ConnectionGranted(
            provider_project_id=reply.provider_project_id, scopes=reply.scopes, connected_at=now, host=reply.host
        )
    ]


def decide_overdue(state: Connection, now: int, *, ended: bool = False) -> list[Event]:
    """Let a pending connection expire after its time, or at once if nobody can answer it any more (`ended`)."""
    if not state.pending or not (ended or now >= state.expires_at):
        return []
    return [ConnectionExpired(expired_at=now)]


def decide_disconnect(state: Connection, now: int) -> list[Event]:
    """End a connection that reads. Returns nothing for any other."""
    return [ConnectionEnded(ended_at=now)] if state.status is Status.CONNECTED else []


def evolve(state: Connection, event: Any) -> Connection:
    """Fold an event. Never refuses."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case ConnectionStarted():
            return Connection(status, event.expires_at)
        case ConnectionExchangeStarted():
            return Connection(status, event.started_at + EXCHANGE_SECONDS)
    return Connection(status, state.expires_at)


MACHINE = StateMachine("conn", TABLE, Connection(), evolve, ConnectionConflict, Connection)
