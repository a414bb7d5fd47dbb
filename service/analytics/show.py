"""How a connection to an analytics provider is shown (G-022). Never a secret."""

from __future__ import annotations

from projections.analytics.connection import ConnectionRow
from schemas.analytics.connection import ConnectionStarted, ConnectionStatus
from service.analytics.commands import PendingConnection
from statemachines.analytics.connection import Reason, Status

_NEXT = {
    Status.PENDING: "Wait for the human's decision and poll again.",
    Status.CONNECTED: "Audit a bounded window of the provider project, then start the onboarding with a plan.",
    Status.EXPIRED: "The connection expired. Start another one with POST /v1/auth/provider.",
}
_NEXT_AFTER_DENIAL = {
    Reason.HUMAN: "The human refused. Ask them before you start another connection.",
    Reason.WRITE_SCOPE: ("The provider granted more than read access, so it was refused. Grant read scopes only."),
    Reason.MISSING_SCOPE: "The grant must cover the project, with project:read and query:read.",
}


def started(asked: PendingConnection) -> ConnectionStarted:
    """Show the page to grant read access on. Times are in seconds."""
    row, device = asked
    return ConnectionStarted(
        connection_id=row.id,
        status="pending",
        authorization_url=device.authorization_url,
        user_code=device.user_code,
        scopes=row.scopes,
        expires_in=row.expires_at - row.started_at,
        interval=device.interval,
        next_action=(
            "Have the human who owns the provider project open authorization_url and grant read access, then poll "
            "with connection_id."
        ),
    )


def status(row: ConnectionRow) -> ConnectionStatus:
    """Show how a connection stands."""
    stands = Status(row.status)
    return ConnectionStatus(
        status=stands.value,  # type: ignore[arg-type] # a row has no other status than these
        connection_id=row.id,
        project_id=row.project_id,
        provider_project_id=row.provider_project_id,
        scopes=row.scopes,
        connected_at=row.connected_at,
        next_action=_NEXT_AFTER_DENIAL[Reason(row.reason)] if stands is Status.DENIED else _NEXT[stands],
    )
