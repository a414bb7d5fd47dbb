"""Connecting the customer's analytics provider with read-only OAuth (R-AUTH-21, R-AUTH-22, G-022).

The exchange with the provider comes before the unit of work, which gets its outcome as an argument. A lost race
between two polls costs nothing: the provider gives a grant to one of them, and the other keeps waiting for an answer
that is then already recorded.
"""

from __future__ import annotations

import msgspec

from projections.analytics.connection import CONNECTIONS, GRANTS, ConnectionRow, GrantRow
from schemas.analytics.connection import ConnectionStarted, ConnectionStatus, ConnectRequest, PollRequest
from service.analytics.oauth import Secret, Tokens
from service.auth.refusals import InvalidPayload, Refusal, ServiceUnavailable, refusal
from service.eventstore.commands import Answer, CommandNotDone, Lookup, Outcome, Unit
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import OWNER
from service.ids import new_id
from statemachines.analytics import connection as connections
from statemachines.analytics.connection import (
    ConnectionGranted,
    ConnectionNotFound,
    ConnectWish,
    Granted,
    Reason,
    Reply,
    Status,
    Waiting,
    decide_connect,
    decide_reply,
)
from statemachines.kernel.machine import Stream
from statemachines.kernel.readings import ReadFailed
from statemachines.projects.project import ProjectNotFound

FLOW = frozenset({"onboarding", "provider"})
RECORD_ATTEMPTS = 3  # a grant is given once; a busy moment must not lose it

AnyCall = Call[ConnectRequest, None] | Call[PollRequest, None]


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/provider",
    operation_id="connect_provider",
    summary="Ask for read access to the customer's analytics provider",
    principals=OWNER,
    owner=True,
    responses={200: ConnectionStarted},
    idempotency="optional",
    flows=FLOW,
    errors=("project_not_found", "service_unavailable", "upstream_error", "upstream_timeout"),
)
async def connect_provider(call: Call[ConnectRequest, None]) -> Outcome:
    """Get a code for the human from the provider, and remember what it will be exchanged for."""
    wish = call.body
    await _require_own(call, wish.project_id)
    oauth = call.services.providers.oauth
    if not oauth.configured:
        raise _unconfigured()
    host = oauth.host_of(wish)
    if not await oauth.may_reach(host):
        raise InvalidPayload(
            "The provider's address cannot be used.",
            invalid=[("host", "must lead to public addresses")],
            schema=msgspec.json.schema(ConnectRequest),
        )
    device = await oauth.start(host)
    if isinstance(device, ReadFailed):
        raise _upstream(device)
    project_id, connection_id = wish.project_id, new_id("conn")
    stream = connections.stream(project_id, connection_id)
    sealed = oauth.seal(project_id, connection_id, Secret(device_code=device.device_code))

    def decide(unit: Unit) -> Answer:
        asked = ConnectWish(host, wish.provider_project_id, device.lifetime)
        unit.append(stream, decide_connect(unit.state(stream), asked, unit.now))
        unit.put(stream, GRANTS, GrantRow(project_id=project_id, id=connection_id, generation=1, sealed=sealed))
        row = _row(unit, stream)
        body = ConnectionStarted(
            connection_id=connection_id,
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
        return Answer(200, body)

    return await call.execute(decide, streams=[stream])


@groups.AUTH.operation(
    method="POST",
    path="/v1/auth/provider/poll",
    operation_id="poll_provider",
    summary="Ask whether read access has been granted",
    principals=OWNER,
    owner=True,
    responses={200: ConnectionStatus},
    idempotency="optional",
    flows=FLOW,
    errors=("not_found", "service_unavailable", "upstream_error", "upstream_timeout"),
)
async def poll_provider(call: Call[PollRequest, None]) -> Outcome | Answer:
    """Show how a connection stands, after asking the provider while it is pending."""
    row = await _find(call)
    if row.status != Status.PENDING.value:
        return Answer(200, _show(row))
    reply, sealed = await _ask(call, row)
    stream = connections.stream(row.project_id, row.id)

    def decide(unit: Unit) -> Answer:
        events = decide_reply(unit.state(stream), reply, unit.now)
        unit.append(stream, events)
        grant = unit.row(GRANTS, row.project_id, row.id)
        if events and grant is not None:
            granted = any(isinstance(event, ConnectionGranted) for event in events)
            kept = msgspec.structs.replace(grant, generation=grant.generation + 1, sealed=sealed if granted else None)
            unit.put(stream, GRANTS, kept)
        shown = _row(unit, stream)
        return Answer(200, _show(shown), pending=shown.status == Status.PENDING.value)

    lookups = [Lookup(GRANTS, row.project_id, row.id)]
    for _ in range(RECORD_ATTEMPTS - 1):
        try:
            return await call.execute(decide, streams=[stream], lookups=lookups)
        except CommandNotDone:
            continue
    return await call.execute(decide, streams=[stream], lookups=lookups)


async def _require_own(call: AnyCall, project_id: str) -> None:
    """Bring the body's project into scope. Raises ProjectNotFound, OwnerRequired, ProjectDeletionInProgress."""
    await call.services.authenticator.admit(call.principal, project_id, call.operation)
    call.scope_id = project_id


async def _find(call: Call[PollRequest, None]) -> ConnectionRow:
    """Find the connection; one of a project that the caller cannot see is not found either."""
    rows = await call.services.store.find(CONNECTIONS, "t.id = %s", call.body.connection_id, limit=1)
    missing = ConnectionNotFound("There is no such connection.", next_action="Start one with POST /v1/auth/provider.")
    if not rows:
        raise missing
    try:
        await _require_own(call, rows[0].project_id)
    except ProjectNotFound:
        raise missing from None
    return rows[0]


async def _ask(call: Call[PollRequest, None], row: ConnectionRow) -> tuple[Reply, str | None]:
    """Ask the provider; returns its reply, and the tokens sealed when there are any."""
    store, oauth = call.services.store, call.services.providers.oauth
    if not oauth.configured:
        raise _unconfigured()
    grant = await store.get(GRANTS, row.project_id, row.id)
    secret = oauth.unseal(row.project_id, row.id, grant.sealed) if grant is not None else None
    if secret is None or secret.device_code is None or await store.now() >= row.expires_at:
        return Waiting(), None
    polled = await oauth.poll(row.host, secret.device_code)
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


def _row(unit: Unit, stream: Stream) -> ConnectionRow:
    row = unit.row(CONNECTIONS, stream.project_id, stream.id)
    assert row is not None, "a connection that was started has a row"
    return row


_NEXT = {
    Status.PENDING: "Wait for the human's decision and poll again.",
    Status.CONNECTED: "Audit a bounded window of the provider project, then start the onboarding with a plan.",
    Status.EXPIRED: "Nobody answered in time. Start another connection with POST /v1/auth/provider.",
}
_NEXT_AFTER_DENIAL = {
    Reason.HUMAN: "The human said no. Ask them before starting another connection.",
    Reason.WRITE_SCOPE: "The provider granted more than reading, which is refused. Grant read scopes only.",
    Reason.MISSING_SCOPE: "The grant does not cover what is needed: the project, with project:read and query:read.",
}


def _show(row: ConnectionRow) -> ConnectionStatus:
    status = Status(row.status)
    return ConnectionStatus(
        status=status.value,  # type: ignore[arg-type] # a row has no other status than these
        connection_id=row.id,
        project_id=row.project_id,
        provider_project_id=row.provider_project_id,
        scopes=row.scopes,
        connected_at=row.connected_at,
        next_action=_NEXT_AFTER_DENIAL[Reason(row.reason)] if status is Status.DENIED else _NEXT[status],
    )


def _unconfigured() -> ServiceUnavailable:
    return ServiceUnavailable(
        "No analytics provider is configured on this service.",
        next_action=(
            "The operator sets SERVICE_PROVIDER_CLIENT_ID and SERVICE_ENCRYPTION_KEY. Without a connection, records "
            "sent with the DSN are read."
        ),
    )


def _upstream(failed: ReadFailed) -> Refusal:
    return refusal("upstream_timeout" if failed.cause == "timeout" else "upstream_error")


ENDPOINTS = [connect_provider, poll_provider]
