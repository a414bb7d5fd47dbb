"""The human comes back from the provider, compares the codes on our page, and answers there (G-164).

The state in the address is good for one visit, and the token in the page's form for one answer. A human lured into
granting access sees a strange code, and no form of another site can answer in their place.
"""

import asyncio
import time
from collections.abc import Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from projections.analytics import GRANTS, ConnectionRow, SealedGrantRow
from service.analytics import connection as connections
from service.analytics.connecting.http import Throttled, failure
from service.analytics.connecting.oauth import ConnectionSecrets, ProviderOAuth, Tokens, make_form_token
from service.auth.authority import carry_out
from service.auth.secrets import digest
from service.eventstore.declare.commands import Intent
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from statemachines import analytics
from statemachines.kernel.machine import Event, ReadFailed
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

ALLOW = "allow"
"""The one answer in the form that connects. Any other is a denial."""
ACTOR = "provider"
HUMAN_ERROR = "access_denied"
"""The provider's word for a human who refused there."""


class Ending(Enum):
    """How a visit ends, for the page."""

    CONNECTED = "connected"
    DENIED = "denied"
    TOO_MUCH = "too_much"  # the grant is not read access alone
    TOO_LITTLE = "too_little"  # the grant does not cover what is needed
    PROVIDER_ERROR = "provider_error"  # the provider ended the sign-in
    NO_ANSWER = "no_answer"  # the provider did not answer the exchange
    NO_TIME = "no_time"  # likewise, in time
    OVER = "over"  # the address was used, has expired, or never was one


class ProviderRests(NamedTuple):
    """A visit that ends because the provider takes no requests for some seconds (G-205)."""

    retry_after: int


class Compare(NamedTuple):
    """The question on the page: is the code the same? With what its form sends back.

    `nearby`: the human came back to a loopback address.
    """

    user_code: str
    state: str
    token: str
    nearby: bool


class _SignIn(NamedTuple):
    row: ConnectionRow
    grant: SealedGrantRow
    secrets: ConnectionSecrets


async def come_back(
    store: EventStore, oauth: ProviderOAuth, state: str, code: str | None, error: str | None
) -> Compare | Ending:
    """Use up the state of an address. Returns the question for the human, or the end of the sign-in."""
    found = await _find(store, oauth, state)
    if found is None:
        return Ending.OVER
    brought = (
        analytics.Brought.DENIAL
        if error == HUMAN_ERROR
        else analytics.Brought.CODE
        if error is None
        else analytics.Brought.ERROR
    )
    token = make_form_token()
    kept = msgspec.structs.replace(found.secrets, code=code, form_hash=digest(token))
    sealed = oauth.sealer.close(found.row.project_id, found.row.id, kept)

    def decide(sign_in: analytics.Connection, now: int) -> list[Event]:
        return analytics.decide_return(sign_in, brought, now)

    events = await _take(store, found, "return from a provider", connections.step(found.grant, sealed, decide))
    if not events:
        return Ending.OVER
    match brought:
        case analytics.Brought.CODE if _has(events, analytics.ConnectionReturned):
            return Compare(found.secrets.user_code or "", state, token, found.secrets.registered is not None)
        case analytics.Brought.DENIAL if _has(events, analytics.ConnectionDenied):
            return Ending.DENIED
        case analytics.Brought.ERROR:
            return Ending.PROVIDER_ERROR
        case _:
            return Ending.OVER


async def answer(
    store: EventStore, oauth: ProviderOAuth, state: str, token: str, decision: str
) -> Ending | ProviderRests:
    """Carry out the human's answer: exchange the code, or deny. Raises CommandNotDone when it cannot be recorded."""
    found = await _find(store, oauth, state)
    if found is None or not found.secrets.knows_form(token):
        return Ending.OVER
    if decision != ALLOW:
        return await _deny(store, found)
    events = await _take(store, found, "exchange of a provider's code", connections.begin_exchange(found.grant))
    if not _has(events, analytics.ConnectionExchangeStarted):
        return Ending.OVER
    row = found.row
    got = await oauth.exchange(row.host, connections.account_of(store, row.project_id), found.secrets)
    if isinstance(got, ReadFailed):
        await _record(store, row, analytics.NoOutcome(), None)
        if isinstance(got, Throttled):
            return ProviderRests(got.retry_after)
        return Ending.NO_TIME if got.cause == "timeout" else Ending.NO_ANSWER
    return await _keep(store, oauth, found, got)


async def _keep(store: EventStore, oauth: ProviderOAuth, found: _SignIn, got: Tokens) -> Ending:
    """Record a grant, or else revoke it at the provider."""
    row = found.row
    reply = _granted(oauth, found, got)
    kept = False
    try:
        kept = await _record(store, row, reply, oauth.sealer.close(row.project_id, row.id, got.secrets))
    finally:
        if not kept:
            await oauth.revoke(row.host, connections.account_of(store, row.project_id), got.secrets)
    if kept:
        return Ending.CONNECTED
    match analytics.scope_fault(reply.scopes) or (None if reply.covers_project else analytics.Reason.MISSING_SCOPE):
        case analytics.Reason.WRITE_SCOPE:
            return Ending.TOO_MUCH
        case analytics.Reason.MISSING_SCOPE:
            return Ending.TOO_LITTLE
        case _:
            return Ending.OVER


def _granted(oauth: ProviderOAuth, found: _SignIn, tokens: Tokens) -> analytics.Granted:
    """Read the grant: the project asked for if it covers that, else its only project, in the region asked for.

    A provider with several regions names the region of the grant.
    """
    wished, asked_for = found.secrets.region, found.row.provider_project_id
    shared = oauth.registration.authority(found.row.host) != found.row.host
    host = oauth.registration.host_in(tokens.region) if shared else None
    covered = not (shared and wished and tokens.region and wished != tokens.region)
    if tokens.projects is None:
        return analytics.Granted(tokens.scopes, asked_for, covered, host)
    if asked_for is None:
        return analytics.Granted(
            tokens.scopes, tokens.projects[0] if len(tokens.projects) == 1 else None, covered, host
        )
    return analytics.Granted(tokens.scopes, asked_for, covered and asked_for in tokens.projects, host)


async def _find(store: EventStore, oauth: ProviderOAuth, state: str) -> _SignIn | None:
    """Find the sign-in of a state. None after its end, and for an unknown one."""
    row = await connections.find_connection(store, state.partition(".")[0])
    grant = None if row is None else await store.get(GRANTS, row.project_id, row.id)
    if row is None or grant is None:
        return None
    secrets = oauth.sealer.open(row.project_id, row.id, grant.sealed)
    if secrets is None or not secrets.knows_state(state):
        return None
    return _SignIn(row, grant, secrets)


async def _deny(store: EventStore, found: _SignIn) -> Ending:
    events = await _take(
        store, found, "denial of a provider's grant", connections.step(found.grant, None, analytics.decide_denial)
    )
    return Ending.DENIED if _has(events, analytics.ConnectionDenied) else Ending.OVER


def _has(events: Sequence[Event], kind: type[Event]) -> bool:
    return any(isinstance(event, kind) for event in events)


async def _take(store: EventStore, found: _SignIn, what: str, intent: Intent[Sequence[Event]]) -> Sequence[Event]:
    """Take a step in the name of the system, for the human has no key here. None is taken in a fenced project."""
    try:
        return await carry_out(store, ACTOR, what, intent, project=found.row.project_id)
    except (ProjectNotFound, ProjectDeletionInProgress):
        return ()


async def _record(store: EventStore, row: ConnectionRow, reply: analytics.Reply, sealed: str | None) -> bool:
    """Record the outcome of an exchange. Returns whether its tokens are kept."""
    intent = connections.record_reply(row, reply, sealed)
    try:
        return await connections.insist(
            partial(carry_out, store, ACTOR, "outcome of a provider's exchange", intent, project=row.project_id)
        )
    except (ProjectNotFound, ProjectDeletionInProgress):
        return False


# The access token of a connection, refreshed by one process at a time (G-022, G-164). A provider may accept a refresh
# token once. So the first process claims it in the database, for LEASE_SECONDS of its clock, and all others wait for
# the outcome: two processes at once refresh once. The claim of a dead process runs out, and the next one takes over.

log = structlog.get_logger(__name__)

EARLY_SECONDS = 60
"""A token is replaced this long before it expires."""
LEASE_SECONDS = 20
"""For one refresh: the request of 8 seconds, and recording what came of it."""
LOOK_SECONDS = 0.1
"""Between two looks at the claim of another process."""


class _Kept(NamedTuple):
    row: SealedGrantRow
    secrets: ConnectionSecrets


class TokenKeeper:
    """Tells the access tokens of connections in one process. A refresh goes on without its readers."""

    def __init__(self, store: EventStore, oauth: ProviderOAuth) -> None:
        self._store = store
        self._oauth = oauth
        self._running: dict[str, asyncio.Task[str | ReadFailed]] = {}

    async def access(self, connection: ConnectionRow, rejected: str | None = None) -> str | ReadFailed:
        """Return an access token, fresh for EARLY_SECONDS and other than the one just rejected."""
        if not self._oauth.configured:
            return failure("unconfigured")
        kept = await self._kept(connection)
        if kept is None:
            return failure("unauthorized")
        token = _usable(kept.secrets, rejected)
        return token if token is not None else await self._refreshed(connection, rejected)

    async def _refreshed(self, connection: ConnectionRow, rejected: str | None) -> str | ReadFailed:
        """Wait for the one refresh of this process. It keeps running if a reader gives up."""
        task = self._running.get(connection.id)
        if task is None:
            task = asyncio.create_task(self._refresh(connection, rejected))
            self._running[connection.id] = task
            task.add_done_callback(lambda _: self._running.pop(connection.id, None))
        return await asyncio.shield(task)

    async def _refresh(self, connection: ConnectionRow, rejected: str | None) -> str | ReadFailed:
        """Claim the refresh token and use it, or wait for the process with the claim."""
        try:
            while True:
                kept = await self._kept(connection)
                if kept is None or kept.secrets.refresh_token is None:
                    return failure("unauthorized")
                token = _usable(kept.secrets, rejected)
                if token is not None:
                    return token
                now = await self._store.now()
                if kept.secrets.refreshing_until > now:
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                claim = msgspec.structs.replace(kept.secrets, refreshing_until=now + LEASE_SECONDS)
                claimed = await self._keep(kept.row, claim)
                if claimed is not None:
                    return await self._use(connection, _Kept(claimed, claim))
        except (ProjectNotFound, ProjectDeletionInProgress):
            return failure("unauthorized")
        except CommandNotDone:
            log.error("provider_tokens_not_kept")  # noqa: TRY400 - that the store was busy needs no stack
            return failure("unreachable")

    async def _use(self, connection: ConnectionRow, claimed: _Kept) -> str | ReadFailed:
        """Exchange the claimed refresh token, store the outcome, and give the claim back."""
        account = connections.account_of(self._store, connection.project_id)
        got = await self._oauth.refresh(connection.host, account, claimed.secrets, connection.scopes)
        if isinstance(got, Tokens) and analytics.scope_fault(got.scopes) is not None:
            await self._oauth.revoke(connection.host, account, got.secrets)
            got = failure("refused")
        if isinstance(got, ReadFailed):
            await self._keep(claimed.row, msgspec.structs.replace(claimed.secrets, refreshing_until=0))
            return got
        await self._keep(claimed.row, got.secrets)
        return got.secrets.access_token or failure("malformed")

    async def _kept(self, connection: ConnectionRow) -> _Kept | None:
        """Return the stored secrets, opened. None without any, or without their key."""
        row = await self._store.get(GRANTS, connection.project_id, connection.id)
        if row is None:
            return None
        secrets = self._oauth.sealer.open(connection.project_id, connection.id, row.sealed)
        return None if secrets is None else _Kept(row, secrets)

    async def _keep(self, before: SealedGrantRow, secrets: ConnectionSecrets) -> SealedGrantRow | None:
        sealed = self._oauth.sealer.close(before.project_id, before.id, secrets)
        intent = connections.keep_tokens(before, sealed)
        keep = partial(
            carry_out, self._store, "provider", "refresh of a provider grant", intent, project=before.project_id
        )
        return await connections.insist(keep)


def _usable(secrets: ConnectionSecrets, rejected: str | None) -> str | None:
    """The access token, unless it was rejected or is about to end."""
    if secrets.access_token == rejected or secrets.expires_at - EARLY_SECONDS <= time.time():
        return None
    return secrets.access_token
