"""Connections to analytics providers, for polls and for choosing the provider of a read (G-022). No secret."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from statemachines import analytics
from statemachines.kernel.machine import Event, Recorded


class ConnectionRow(Row, frozen=True, kw_only=True):
    """One connection; `host` is the provider's address, times are epoch seconds, `reason` says why it was denied."""

    status: str
    host: str
    provider_project_id: int | None
    scopes: tuple[str, ...]
    started_at: int
    expires_at: int
    connected_at: int | None = None
    reason: str | None = None
    ended_at: int | None = None


class SealedGrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed secret of a connection, a fact beside its stream; `generation` counts its replacements."""

    project_id: str
    id: str
    generation: int
    sealed: str | None


_STATUS: Mapping[type[Event], analytics.Status] = {
    analytics.ConnectionReturned: analytics.Status.RETURNED,
    analytics.ConnectionExchangeStarted: analytics.Status.EXCHANGING,
    analytics.ConnectionExpired: analytics.Status.EXPIRED,
}


def fold_connection(row: ConnectionRow | None, recorded: Recorded) -> ConnectionRow | None:
    """Fold an event of a connection into its row."""
    match recorded.event:
        case analytics.ConnectionStarted() as event:
            return ConnectionRow(
                **header(recorded),
                status=analytics.Status.PENDING.value,
                host=event.host,
                provider_project_id=event.provider_project_id,
                scopes=event.scopes,
                started_at=event.started_at,
                expires_at=event.expires_at,
            )
        case (
            analytics.ConnectionReturned()
            | analytics.ConnectionExchangeStarted()
            | analytics.ConnectionExpired() as event
        ) if row:
            return replace(row, revision=recorded.revision, status=_STATUS[type(event)].value)
        case analytics.ConnectionGranted() as event if row:
            return replace(
                row,
                revision=recorded.revision,
                status=analytics.Status.CONNECTED.value,
                host=event.host or row.host,
                provider_project_id=event.provider_project_id,
                scopes=event.scopes,
                connected_at=event.connected_at,
            )
        case analytics.ConnectionDenied() as event if row:
            return replace(
                row, revision=recorded.revision, status=analytics.Status.DENIED.value, reason=event.reason.value
            )
        case analytics.ConnectionEnded(ended_at) if row:
            return replace(
                row, revision=recorded.revision, status=analytics.Status.DISCONNECTED.value, ended_at=ended_at
            )
    return row


CONNECTIONS = projection("provider_connections", ConnectionRow, ("conn",), fold_connection)
GRANTS = Table("provider_grants", SealedGrantRow)
