"""Connections to a customer's analytics provider: made, ended and read (R-AUTH-21, R-AUTH-22, G-022, G-164).

The exchange with the provider stands between two units: one records its beginning, the other its outcome. After a
crash in between the connection expires, and no code is exchanged twice.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from projections.analytics import CONNECTIONS, GRANTS, ConnectionRow, SealedGrantRow
from schemas.analytics import POLL_INTERVAL, ConnectionStarted, ConnectionStatus, ConnectRequest, ProviderDisconnected
from schemas.kernel.published import body_schema
from service.analytics.connecting.http import Throttled
from service.analytics.connecting.oauth import ConnectionSecrets, ProviderOAuth, begin
from service.analytics.connecting.registering import THREE_WAYS, OAuthClient
from service.auth.refusals import InvalidPayload, ServiceUnavailable
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.ids import new_id
from statemachines import analytics
from statemachines import analytics as connections
from statemachines.kernel.machine import Cause, Event, ReadFailed, Stream

# Which connections to analytics providers there are (G-022, G-032).

_CONNECTED = "t.project_id = %s and t.status = 'connected'"


async def find_connection(store: EventStore, connection_id: str) -> ConnectionRow | None:
    """Find a connection by its id, in whatever project it is: whether the caller sees that one is the door's to ask."""
    rows = await store.find(CONNECTIONS, "t.id = %s", connection_id, limit=1)
    return rows[0] if rows else None


async def current_connection(store: EventStore, project_id: str) -> ConnectionRow | None:
    """Return the connection that a project reads through: the newest that was granted."""
    rows = await store.find(CONNECTIONS, _CONNECTED, project_id, order_by="t.connected_at desc, t.id desc", limit=1)
    return rows[0] if rows else None


def account_of(store: EventStore, project_id: str) -> str:
    """The account for the look-ups of a project's provider: the caller's, or in jobs the project by itself."""
    return store.reads.tenant or project_id


# What may be done with a connection to the customer's analytics provider (R-AUTH-21, R-AUTH-22, G-022, G-164).

T = TypeVar("T")

ATTEMPTS = 3


_OPERATORS = (
    f"The operator sets SERVICE_ENCRYPTION_KEY, and one of the three ways to a client: {THREE_WAYS}. Without a "
    "connection, records sent with the DSN are read."
)
_UNREGISTERED: Mapping[Cause, str] = {
    "refused": "The provider has no endpoint where this service can register itself, or refused it.",
    "malformed": "The provider answered the registration of this service in an unknown form.",
    "too_much": "The provider answered the registration of this service in an unknown form.",
    "timeout": "The provider did not answer the registration of this service in time.",
    "unreachable": "The provider could not be reached to register this service.",
}


class PendingConnection(NamedTuple):
    """A connection waiting for its human: where that human goes, and the code to compare there.

    `nearby`: the human's browser must be on the machine of the service.
    """

    row: ConnectionRow
    authorization_url: str
    user_code: str
    nearby: bool


async def connect(store: EventStore, oauth: ProviderOAuth, wish: ConnectRequest) -> Intent[PendingConnection]:
    """Begin a sign-in. Nobody is asked yet: the human's browser does that. Only a first one may register our client.

    Raises ServiceUnavailable without a configuration or a client, and InvalidPayload for an address that may not be
    called.
    """
    require_configured(oauth)
    host = oauth.host_of(wish)
    fault = await oauth.fault_of(host, account_of(store, wish.project_id))
    if fault is not None:
        raise InvalidPayload(
            "The provider's address cannot be used.", invalid=[("host", fault)], schema=body_schema(ConnectRequest)
        )
    project_id, connection_id = wish.project_id, new_id("conn")
    stream = connections.stream(project_id, connection_id)
    client = await _client_at(store, oauth, host)
    registered = client if oauth.registration.client is None else None
    begun = begin(connection_id, wish.region, registered)
    url = oauth.registration.authorization_url(host, client, begun.state, begun.challenge)
    sealed = oauth.sealer.close(project_id, connection_id, begun.secrets)
    asked = analytics.ConnectWish(host, wish.provider_project_id)

    def decide(unit: Unit) -> PendingConnection:
        unit.append(stream, analytics.decide_connect(unit.state(stream), asked, unit.now))
        unit.put(stream, GRANTS, SealedGrantRow(project_id=project_id, id=connection_id, generation=1, sealed=sealed))
        return PendingConnection(_row(unit, stream), url, begun.secrets.user_code or "", registered is not None)

    return Intent([stream], decide)


async def settle(store: EventStore, oauth: ProviderOAuth, row: ConnectionRow) -> Intent[ConnectionRow]:
    """Let a connection expire after its time, or one begun in the former flow or sealed under another key.

    Raises ServiceUnavailable without a configuration.
    """
    require_configured(oauth)
    grant = await store.get(GRANTS, row.project_id, row.id)
    secrets = oauth.sealer.open(row.project_id, row.id, grant.sealed) if grant is not None else None
    ended = secrets is None or secrets.verifier is None
    stream = connections.stream(row.project_id, row.id)

    def decide(unit: Unit) -> ConnectionRow:
        # Read before the lock, the secrets may be those of a sign-in that has its answer by now.
        current = unit.row(GRANTS, row.project_id, row.id)
        gone = ended and current == grant
        events = analytics.decide_overdue(unit.state(stream), unit.now, ended=gone)
        unit.append(stream, events)
        if events and current is not None:
            _replace(unit, stream, current, None)
        return _row(unit, stream)

    return Intent([stream], decide, lookups=[Lookup(GRANTS, row.project_id, row.id)])


def step(
    before: SealedGrantRow, sealed: str | None, decide_step: Callable[[analytics.Connection, int], list[Event]]
) -> Intent[Sequence[Event]]:
    """Take a step of the sign-in, and keep `sealed` with it. Returns the events recorded: none if it is too late.

    An expiry instead of the step is recorded too, and drops the secrets.
    """
    stream = connections.stream(before.project_id, before.id)

    def decide(unit: Unit) -> Sequence[Event]:
        grant = unit.row(GRANTS, before.project_id, before.id)
        if grant is None or grant.generation != before.generation:
            return []
        events = decide_step(unit.state(stream), unit.now)
        unit.append(stream, events)
        if events:
            lasting = any(event.TOPIC in _LASTING for event in events)
            _replace(unit, stream, grant, sealed if lasting else None)
        return events

    return Intent([stream], decide, lookups=[Lookup(GRANTS, before.project_id, before.id)])


def begin_exchange(before: SealedGrantRow) -> Intent[Sequence[Event]]:
    """Record that the exchange begins. The secrets stay as they are."""
    return step(before, before.sealed, analytics.decide_exchange)


def record_reply(row: ConnectionRow, reply: analytics.Reply, sealed: str | None) -> Intent[bool]:
    """Record the outcome of the exchange, and keep its tokens if they are accepted. Returns whether they are.

    The provider gives tokens once: carry the intent out with `insist`.
    """
    stream = connections.stream(row.project_id, row.id)

    def decide(unit: Unit) -> bool:
        events = analytics.decide_reply(unit.state(stream), reply, unit.now)
        unit.append(stream, events)
        granted = any(isinstance(event, analytics.ConnectionGranted) for event in events)
        grant = unit.row(GRANTS, row.project_id, row.id)
        if events and grant is not None:
            _replace(unit, stream, grant, sealed if granted else None)
        return granted

    return Intent([stream], decide, lookups=[Lookup(GRANTS, row.project_id, row.id)])


class Disconnected(NamedTuple):
    """A connection that was ended, the newest of its project, and when, in epoch seconds."""

    project_id: str
    connection_id: str
    ended_at: int


async def standing_connections(store: EventStore, project_id: str) -> list[ConnectionRow]:
    """Read the connections to end: those that were granted, the newest first, or else the newest that was ended."""
    rows = await store.find(CONNECTIONS, _CONNECTED, project_id, order_by="t.connected_at desc, t.id desc")
    if rows:
        return rows
    ended = "t.project_id = %s and t.status = 'disconnected'"
    return await store.find(CONNECTIONS, ended, project_id, order_by="t.ended_at desc, t.id desc", limit=1)


def disconnect(rows: Sequence[ConnectionRow]) -> Intent[Disconnected]:
    """End the connections of a project, and drop their secrets (G-182). Raises ConnectionNotFound without any.

    A repeat records nothing, and tells of the end that stands.
    """
    if not rows:
        raise analytics.ConnectionNotFound(
            "The project has no connection.", next_action="Start one with POST /v1/auth/provider."
        )
    streams = [connections.stream(row.project_id, row.id) for row in rows]

    def decide(unit: Unit) -> Disconnected:
        for stream in streams:
            events = analytics.decide_disconnect(unit.state(stream), unit.now)
            unit.append(stream, events)
            grant = unit.row(GRANTS, stream.project_id, stream.id)
            if events and grant is not None:
                _replace(unit, stream, grant, None)
        newest = _row(unit, streams[0])
        return Disconnected(newest.project_id, newest.id, newest.ended_at or unit.now)

    return Intent(streams, decide, lookups=[Lookup(GRANTS, row.project_id, row.id) for row in rows])


async def opened_grants(
    store: EventStore, oauth: ProviderOAuth, rows: Sequence[ConnectionRow]
) -> list[tuple[ConnectionRow, ConnectionSecrets]]:
    """Open the secrets of connections, to give their grants back to the provider."""
    found = []
    for row in rows:
        grant = await store.get(GRANTS, row.project_id, row.id)
        secrets = None if grant is None else oauth.sealer.open(row.project_id, row.id, grant.sealed)
        if secrets is not None:
            found.append((row, secrets))
    return found


async def give_back(
    store: EventStore, oauth: ProviderOAuth, grants: Sequence[tuple[ConnectionRow, ConnectionSecrets]]
) -> None:
    """Have the provider end grants that were dropped here. A failure is logged."""
    for row, secrets in grants:
        await oauth.revoke(row.host, account_of(store, row.project_id), secrets)


def keep_tokens(before: SealedGrantRow, sealed: str | None) -> Intent[SealedGrantRow | None]:
    """Store the secrets of a grant. Returns None if another process has stored some since `before` was read."""
    stream = connections.stream(before.project_id, before.id)

    def decide(unit: Unit) -> SealedGrantRow | None:
        grant = unit.row(GRANTS, before.project_id, before.id)
        if grant is None or grant.generation != before.generation:
            return None
        return _replace(unit, stream, grant, sealed)

    return Intent([stream], decide, lookups=[Lookup(GRANTS, before.project_id, before.id)])


async def insist(attempt: Callable[[], Awaitable[T]]) -> T:
    """Carry out a command that a busy moment must not lose: what the provider gave it gives once.

    Raises CommandNotDone when ATTEMPTS of them were in vain.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return await attempt()
        except CommandNotDone:
            continue
    return await attempt()


def require_configured(oauth: ProviderOAuth) -> None:
    """Raise ServiceUnavailable where no connection can be made."""
    if not oauth.configured:
        raise ServiceUnavailable(
            "No analytics provider is configured on this service.",
            next_action=_OPERATORS,
        )


async def _client_at(store: EventStore, oauth: ProviderOAuth, host: str) -> OAuthClient:
    """Return our client for a host. Raises ServiceUnavailable when the provider gives none."""
    client = await oauth.client_at(store, host)
    if isinstance(client, ReadFailed):
        wait = {"retry-after": str(client.retry_after)} if isinstance(client, Throttled) else None
        message = _UNREGISTERED.get(client.cause, _UNREGISTERED["refused"])
        raise ServiceUnavailable(message, next_action=_OPERATORS, headers=wait)
    return client


_LASTING = frozenset({connections.ConnectionReturned.TOPIC, connections.ConnectionExchangeStarted.TOPIC})
"""The steps after which the secrets of a sign-in are needed further."""


def _replace(unit: Unit, stream: Stream, grant: SealedGrantRow, sealed: str | None) -> SealedGrantRow:
    replaced = msgspec.structs.replace(grant, generation=grant.generation + 1, sealed=sealed)
    unit.put(stream, GRANTS, replaced)
    return replaced


def _row(unit: Unit, stream: Stream) -> ConnectionRow:
    row = unit.row(CONNECTIONS, stream.project_id, stream.id)
    assert row is not None, "a connection that was started has a row"
    return row


# How a connection to an analytics provider is shown (G-022). Never a secret.

_NEXT = {
    analytics.Status.PENDING: "Wait for the human's decision and poll again.",
    analytics.Status.RETURNED: "The human is comparing the codes. Poll again.",
    analytics.Status.EXCHANGING: "The grant is being recorded. Poll again.",
    analytics.Status.CONNECTED: (
        "Audit a bounded window of the provider project, then start the onboarding with a plan."
    ),
    analytics.Status.DISCONNECTED: (
        "An owner disconnected the project. Start another connection with POST /v1/auth/provider."
    ),
    analytics.Status.EXPIRED: (
        "The sign-in expired or was not completed. Start another one with POST /v1/auth/provider."
    ),
}
_GRANT = (
    "Show the human who owns the provider project user_code. Have them open authorization_url, grant read access, and "
    "compare the code on the page they are sent back to. Then poll with connection_id."
)
_NEARBY = "The browser must be on the machine of this service, for it is sent back to a loopback address. "
_NEXT_AFTER_DENIAL = {
    analytics.Reason.HUMAN: "The human refused. Ask them before you start another connection.",
    analytics.Reason.WRITE_SCOPE: (
        "The provider granted more than read access, so it was refused. Grant read scopes only."
    ),
    analytics.Reason.MISSING_SCOPE: "The grant must cover the project and region, with project:read and query:read.",
}


def started(asked: PendingConnection) -> ConnectionStarted:
    """Show where to grant read access, and the code to compare there. Times are in seconds."""
    row = asked.row
    return ConnectionStarted(
        connection_id=row.id,
        status="pending",
        authorization_url=asked.authorization_url,
        user_code=asked.user_code,
        scopes=row.scopes,
        expires_in=row.expires_at - row.started_at,
        interval=POLL_INTERVAL,
        next_action=_NEARBY + _GRANT if asked.nearby else _GRANT,
    )


def status(row: ConnectionRow) -> ConnectionStatus:
    """Show how a connection stands."""
    stands = analytics.Status(row.status)
    return ConnectionStatus(
        status="pending" if stands in analytics.PENDING else stands.value,  # type: ignore[arg-type] # a row has no other status
        connection_id=row.id,
        project_id=row.project_id,
        provider_project_id=row.provider_project_id,
        scopes=row.scopes,
        connected_at=row.connected_at,
        next_action=_next_action(row, stands),
    )


def disconnected(ended: Disconnected) -> ProviderDisconnected:
    """Show the end of a connection."""
    return ProviderDisconnected(
        project_id=ended.project_id,
        connection_id=ended.connection_id,
        status="disconnected",
        disconnected_at=ended.ended_at,
        next_action=(
            "Nothing is read at the provider any more, and what was counted there is dropped. Cases stay. Records sent "
            "with the DSN count from now on."
        ),
    )


def _next_action(row: ConnectionRow, stands: analytics.Status) -> str:
    if stands is analytics.Status.DENIED:
        return _NEXT_AFTER_DENIAL[analytics.Reason(row.reason)]
    missing = analytics.missing_scopes(row.scopes) if stands is analytics.Status.CONNECTED else ()
    if not missing:
        return _NEXT[stands]
    return f"{_NEXT[stands]} Not granted, so what needs it is empty: {', '.join(missing)}."
