"""Connecting the customer's analytics provider with read-only OAuth (R-AUTH-21, R-AUTH-22, G-022)."""

from litestar.params import JSONBody

from projections.analytics import ConnectionRow
from schemas.analytics import ConnectionStarted, ConnectionStatus, ConnectRequest, PollRequest, ProviderDisconnected
from service.analytics import connection
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import OWNER
from statemachines.analytics import PENDING, ConnectionNotFound, Status
from statemachines.projects.project import ProjectNotFound

FLOW = frozenset({"onboarding", "provider"})

AnyCall = Call


@groups.AUTH.post("/v1/auth/provider", "Request read access to the customer's analytics provider")
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs(ConnectionStarted, errors=("project_not_found", "service_unavailable"), flows=FLOW)
async def connect_provider(call: Call, data: JSONBody[ConnectRequest]) -> Outcome:
    """Begin a sign-in of the human who owns the provider project."""
    await _require_own(call, data.project_id)
    intent = await connection.connect(call.services.store, call.services.providers.oauth, data)
    return await call.carry_out(intent, _started)


@groups.AUTH.post("/v1/auth/provider/poll", "Poll a request for read access")
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs(ConnectionStatus, errors=("not_found", "service_unavailable"), flows=FLOW)
async def poll_provider(call: Call, data: JSONBody[PollRequest]) -> Outcome | Answer:
    """Show how a connection stands. One whose time is over expires."""
    row = await _find(call, data)
    if Status(row.status) not in PENDING:
        return _standing(row)
    intent = await connection.settle(call.services.store, call.services.providers.oauth, row)
    return await call.carry_out(intent, _standing)


@groups.PROJECTS.delete("/v1/projects/{project_id}/provider-connection", "Disconnect the customer's analytics provider")
@Who(OWNER, owner=True)
@Fencing(idempotency="optional")
@Docs(ProviderDisconnected, errors=("not_found",), flows=frozenset({"provider"}), extension=True)
async def disconnect_provider(call: Call) -> Outcome:
    """End the connection, give the grant back, and drop what was counted at the provider (G-182)."""
    store, oauth = call.services.store, call.services.providers.oauth
    rows = await connection.standing_connections(store, call.project_id)
    grants = await connection.opened_grants(store, oauth, rows)
    outcome = await call.carry_out(connection.disconnect(rows), _ended)
    await call.services.exceptions.drop(call.project_id)
    await connection.give_back(store, oauth, grants)
    return outcome


def _ended(ended: connection.Disconnected) -> Answer:
    return Answer(200, connection.disconnected(ended))


async def _require_own(call: Call, project_id: str) -> None:
    """Bring the body's project into scope. Raises ProjectNotFound, OwnerRequired, ProjectDeletionInProgress."""
    await call.services.authenticator.admit(call.principal, project_id, call.operation)
    call.scope_id = project_id


async def _find(call: Call, data: PollRequest) -> ConnectionRow:
    """Find the connection. One of a project hidden from the caller is not found either."""
    row = await connection.find_connection(call.services.store, data.connection_id)
    missing = ConnectionNotFound("There is no such connection.", next_action="Start one with POST /v1/auth/provider.")
    if row is None:
        raise missing
    try:
        await _require_own(call, row.project_id)
    except ProjectNotFound:
        raise missing from None
    return row


def _started(asked: connection.PendingConnection) -> Answer:
    return Answer(200, connection.started(asked))


def _standing(row: ConnectionRow) -> Answer:
    """An answer that can still change is not stored: a repeat with the same key asks again (G-008)."""
    return Answer(200, connection.status(row), pending=Status(row.status) in PENDING)


ENDPOINTS = [connect_provider, poll_provider, disconnect_provider]
