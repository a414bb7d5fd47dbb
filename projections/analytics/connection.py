"""Connections to analytics providers, for polls and for choosing the provider of a read (G-022). No secret."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.analytics.connection import (
    ConnectionDenied,
    ConnectionExpired,
    ConnectionGranted,
    ConnectionStarted,
    Status,
)
from statemachines.kernel.machine import Recorded


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


class SealedGrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed secret of a connection, a fact beside its stream; `generation` counts its replacements."""

    project_id: str
    id: str
    generation: int
    sealed: str | None


def fold(row: ConnectionRow | None, recorded: Recorded) -> ConnectionRow | None:
    """Fold an event of a connection into its row."""
    match recorded.event:
        case ConnectionStarted() as event:
            return ConnectionRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                status=Status.PENDING.value,
                host=event.host,
                provider_project_id=event.provider_project_id,
                scopes=event.scopes,
                started_at=event.started_at,
                expires_at=event.expires_at,
            )
        case ConnectionGranted() as event if row:
            return replace(
                row,
                revision=recorded.revision,
                status=Status.CONNECTED.value,
                provider_project_id=event.provider_project_id,
                scopes=event.scopes,
                connected_at=event.connected_at,
            )
        case ConnectionDenied() as event if row:
            return replace(row, revision=recorded.revision, status=Status.DENIED.value, reason=event.reason.value)
        case ConnectionExpired() if row:
            return replace(row, revision=recorded.revision, status=Status.EXPIRED.value)
    return row


PROJECTION = projection("provider_connections", ConnectionRow, ("conn",), fold)
CONNECTIONS = PROJECTION.table
GRANTS = Table("provider_grants", SealedGrantRow, ("project_id", "id"))
