"""How a connection to an analytics provider is shown (G-022). Never a secret."""

from __future__ import annotations

from projections.analytics import ConnectionRow
from schemas.analytics import POLL_INTERVAL, ConnectionStarted, ConnectionStatus
from service.analytics.connection import PendingConnection
from statemachines.analytics.connection import PENDING, Reason, Status, missing_scopes

_NEXT = {
    Status.PENDING: "Wait for the human's decision and poll again.",
    Status.RETURNED: "The human is comparing the codes. Poll again.",
    Status.EXCHANGING: "The grant is being recorded. Poll again.",
    Status.CONNECTED: "Audit a bounded window of the provider project, then start the onboarding with a plan.",
    Status.EXPIRED: "The sign-in expired or was not completed. Start another one with POST /v1/auth/provider.",
}
_GRANT = (
    "Show the human who owns the provider project user_code. Have them open authorization_url, grant read access, and "
    "compare the code on the page they are sent back to. Then poll with connection_id."
)
_NEARBY = "The browser must be on the machine of this service, for it is sent back to a loopback address. "
_NEXT_AFTER_DENIAL = {
    Reason.HUMAN: "The human refused. Ask them before you start another connection.",
    Reason.WRITE_SCOPE: ("The provider granted more than read access, so it was refused. Grant read scopes only."),
    Reason.MISSING_SCOPE: "The grant must cover the project and region, with project:read and query:read.",
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
    stands = Status(row.status)
    return ConnectionStatus(
        status="pending" if stands in PENDING else stands.value,  # type: ignore[arg-type] # a row has no other status
        connection_id=row.id,
        project_id=row.project_id,
        provider_project_id=row.provider_project_id,
        scopes=row.scopes,
        connected_at=row.connected_at,
        next_action=_next_action(row, stands),
    )


def _next_action(row: ConnectionRow, stands: Status) -> str:
    if stands is Status.DENIED:
        return _NEXT_AFTER_DENIAL[Reason(row.reason)]
    missing = missing_scopes(row.scopes) if stands is Status.CONNECTED else ()
    if not missing:
        return _NEXT[stands]
    return f"{_NEXT[stands]} Not granted, so what needs it is empty: {', '.join(missing)}."
