"""A connection to the customer's analytics provider: one human's answer to one request for read access (G-022).

One stream a connection; the newest connected one of a project is the one that reads. Tokens and device codes are
secrets and in no event. The provider's grant supplies evidence and never authority (R-AUTH-21).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from schemas.analytics.connection import CONNECT_SECONDS, READ_SCOPES
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table

_READ_SUFFIX = ":read"


def stream(project_id: str, connection_id: str) -> Stream:
    """History of a connection."""
    return Stream(MACHINE, project_id, connection_id)


class Status(Enum):
    """Where a connection stands."""

    ABSENT = "absent"
    PENDING = "pending"
    CONNECTED = "connected"
    DENIED = "denied"
    EXPIRED = "expired"


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


class ConnectionGranted(Event, frozen=True):
    """The human granted it."""

    TOPIC = "provider.connection_granted.v1"
    provider_project_id: int | None
    scopes: tuple[str, ...]
    connected_at: int


class ConnectionDenied(Event, frozen=True):
    """The human refused it, or what was granted is not read access alone."""

    TOPIC = "provider.connection_denied.v1"
    reason: Reason
    denied_at: int


class ConnectionExpired(Event, frozen=True):
    """Nobody answered in time."""

    TOPIC = "provider.connection_expired.v1"
    expired_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        # event                        from             to
        [ConnectionStarted.TOPIC, Status.ABSENT, Status.PENDING],
        [ConnectionGranted.TOPIC, Status.PENDING, Status.CONNECTED],
        [ConnectionDenied.TOPIC, Status.PENDING, Status.DENIED],
        [ConnectionExpired.TOPIC, Status.PENDING, Status.EXPIRED],
    ],
)


class Connection(msgspec.Struct, frozen=True):
    """What the decisions of one connection depend on."""

    status: Status = Status.ABSENT
    expires_at: int = 0


class ConnectionNotFound(Rejection):
    """No such connection in a project of the caller."""

    code = "not_found"


class ConnectionConflict(Rejection):
    """The connection has had its answer."""

    code = "provider_not_provisioned"


class ConnectWish(msgspec.Struct, frozen=True):
    """The wish to connect: where, which of the provider's projects, and for how long a human may think (seconds)."""

    host: str
    provider_project_id: int | None
    lifetime: int = CONNECT_SECONDS


class Granted(msgspec.Struct, frozen=True):
    """The provider's yes: its scopes, the project it reads, and whether it covers the project that was asked for."""

    scopes: tuple[str, ...]
    provider_project_id: int | None
    covers_project: bool = True


class Refused(msgspec.Struct, frozen=True):
    """The human's no."""


class Waiting(msgspec.Struct, frozen=True):
    """No answer yet."""


Reply = Granted | Refused | Waiting


def scope_fault(scopes: Sequence[str]) -> Reason | None:
    """Say why granted scopes are not acceptable: anything but reading, or too little of it."""
    if any(not scope.endswith(_READ_SUFFIX) for scope in scopes):
        return Reason.WRITE_SCOPE
    return None if set(READ_SCOPES) <= set(scopes) else Reason.MISSING_SCOPE


def decide_connect(state: Connection, wish: ConnectWish, now: int) -> list[Event]:
    """Ask for access; nothing when this connection has asked before."""
    if state.status is not Status.ABSENT:
        return []
    return [
        ConnectionStarted(
            host=wish.host,
            provider_project_id=wish.provider_project_id,
            scopes=READ_SCOPES,
            started_at=now,
            expires_at=now + min(wish.lifetime, CONNECT_SECONDS),
        )
    ]


def decide_reply(state: Connection, reply: Reply, now: int) -> list[Event]:
    """Record the provider's reply; nothing when there is none yet, or the connection has had its answer.

    A grant that arrives counts even when its time has passed meanwhile: the human has given it.
    """
    if state.status is not Status.PENDING:
        return []
    match reply:
        case Granted():
            fault = scope_fault(reply.scopes) or (None if reply.covers_project else Reason.MISSING_SCOPE)
            if fault is not None:
                return [ConnectionDenied(reason=fault, denied_at=now)]
            return [
                ConnectionGranted(provider_project_id=reply.provider_project_id, scopes=reply.scopes, connected_at=now)
            ]
        case Refused():
            return [ConnectionDenied(reason=Reason.HUMAN, denied_at=now)]
        case Waiting():
            return [ConnectionExpired(expired_at=now)] if now >= state.expires_at else []


def evolve(state: Connection, event: Any) -> Connection:
    """Fold an event. Never refuses."""
    status = Status[destination(TABLE, event, state.status)]
    return Connection(status, event.expires_at if isinstance(event, ConnectionStarted) else state.expires_at)


MACHINE = StateMachine("conn", TABLE, Connection(), evolve, ConnectionConflict, Connection)
