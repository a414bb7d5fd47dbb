"""What may be done with a connection to the customer's analytics provider (R-AUTH-21, R-AUTH-22, G-022).

The exchange with the provider comes before the unit of work, which gets its outcome as an argument. A lost race
between two polls costs nothing: the provider gives a grant to one of them, and the other keeps waiting for an answer
that is then already recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import msgspec

from projections.analytics.connection import CONNECTIONS, GRANTS, ConnectionRow, SealedGrantRow
from schemas.analytics.connection import ConnectRequest
from schemas.kernel.published import body_schema
from service.analytics.http import Misdirected
from service.analytics.oauth import DeviceAuthorization, ProviderOAuth, SealedSecret, Tokens
from service.analytics.reads import account_of
from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable, refusal
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.ids import new_id
from statemachines.analytics import connection as connections
from statemachines.analytics.connection import (
    ConnectionGranted,
    ConnectWish,
    Granted,
    Reply,
    Waiting,
    decide_connect,
    decide_reply,
)
from statemachines.kernel.machine import Stream
from statemachines.kernel.readings import ReadFailed

T = TypeVar("T")

ATTEMPTS = 3


class PendingConnection(NamedTuple):
    """A connection that waits for its human, and where that human goes."""

    row: ConnectionRow
    device: DeviceAuthorization


async def connect(store: EventStore, oauth: ProviderOAuth, wish: ConnectRequest) -> Intent[PendingConnection]:
    """Get a code for the human from the provider, and remember what it will be exchanged for.

    Raises ServiceUnavailable without a configuration, InvalidPayload for an address that is not public, and
    `upstream_timeout` or `upstream_error` for a provider that does not answer as agreed.
    """
    _require_configured(oauth)
    host = oauth.host_of(wish)
    device = await oauth.start(host, account_of(store, wish.project_id))
    if isinstance(device, Misdirected):
        raise InvalidPayload(
            "The provider's address cannot be used.",
            invalid=[("host", "must lead to public addresses")],
            schema=body_schema(ConnectRequest),
        )
    if isinstance(device, ReadFailed):
        raise _upstream(device)
    project_id, connection_id = wish.project_id, new_id("conn")
    stream = connections.stream(project_id, connection_id)
    sealed = oauth.seal(project_id, connection_id, SealedSecret(device_code=device.device_code))
    asked = ConnectWish(host, wish.provider_project_id, device.lifetime)

    def decide(unit: Unit) -> PendingConnection:
        unit.append(stream, decide_connect(unit.state(stream), asked, unit.now))
        unit.put(stream, GRANTS, SealedGrantRow(project_id=project_id, id=connection_id, generation=1, sealed=sealed))
        return PendingConnection(_row(unit, stream), device)

    return Intent([stream], decide)


async def settle(store: EventStore, oauth: ProviderOAuth, row: ConnectionRow) -> Intent[ConnectionRow]:
    """Ask the provider how the human has decided about a pending connection, and record that.

    A grant is given once: carry the intent out with `insist`. Raises ServiceUnavailable, `upstream_timeout` and
    `upstream_error` as `connect` does.
    """
    reply, sealed = await _ask(store, oauth, row)
    stream = connections.stream(row.project_id, row.id)

    def decide(unit: Unit) -> ConnectionRow:
        events = decide_reply(unit.state(stream), reply, unit.now)
        unit.append(stream, events)
        grant = unit.row(GRANTS, row.project_id, row.id)
        if events and grant is not None:
            granted = any(isinstance(event, ConnectionGranted) for event in events)
            _replace(unit, stream, grant, sealed if granted else None)
        return _row(unit, stream)

    return Intent([stream], decide, lookups=[Lookup(GRANTS, row.project_id, row.id)])


def keep_tokens(before: SealedGrantRow, sealed: str | None) -> Intent[None]:
    """Store the fresh tokens of a grant, sealed, unless somebody has stored others since `before` was read."""
    stream = connections.stream(before.project_id, before.id)

    def decide(unit: Unit) -> None:
        grant = unit.row(GRANTS, before.project_id, before.id)
        if grant is not None and grant.generation == before.generation:
            _replace(unit, stream, grant, sealed)

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


async def _ask(store: EventStore, oauth: ProviderOAuth, row: ConnectionRow) -> tuple[Reply, str | None]:
    """Ask the provider. Returns its reply, and the sealed tokens if there are any."""
    _require_configured(oauth)
    grant = await store.get(GRANTS, row.project_id, row.id)
    secret = oauth.unseal(row.project_id, row.id, grant.sealed) if grant is not None else None
    if secret is None or secret.device_code is None or await store.now() >= row.expires_at:
        return Waiting(), None
    polled = await oauth.poll(row.host, account_of(store, row.project_id), secret.device_code)
    if isinstance(polled, ReadFailed):
        raise _upstream(polled)
    if not isinstance(polled, Tokens):
        return polled, None
    return _granted(polled, row.provider_project_id), oauth.seal(row.project_id, row.id, polled.secret)


def _granted(tokens: Tokens, asked_for: int | None) -> Granted:
    """Say what was granted: the project asked for if the grant covers it, else the only one that it covers."""
    if tokens.projects is None:
        return Granted(tokens.scopes, asked_for)
    if asked_for is None:
        return Granted(tokens.scopes, tokens.projects[0] if len(tokens.projects) == 1 else None)
    return Granted(tokens.scopes, asked_for, covers_project=asked_for in tokens.projects)


def _replace(unit: Unit, stream: Stream, grant: SealedGrantRow, sealed: str | None) -> None:
    unit.put(stream, GRANTS, msgspec.structs.replace(grant, generation=grant.generation + 1, sealed=sealed))


def _row(unit: Unit, stream: Stream) -> ConnectionRow:
    row = unit.row(CONNECTIONS, stream.project_id, stream.id)
    assert row is not None, "a connection that was started has a row"
    return row


def _require_configured(oauth: ProviderOAuth) -> None:
    if not oauth.configured:
        raise ServiceUnavailable(
            "No analytics provider is configured on this service.",
            next_action=(
                "The operator sets SERVICE_PROVIDER_CLIENT_ID and SERVICE_ENCRYPTION_KEY. Without a connection, "
                "records sent with the DSN are read."
            ),
        )


def _upstream(failed: ReadFailed) -> Refusal:
    return refusal("upstream_timeout" if failed.cause == "timeout" else "upstream_error")
