"""The access token of a connection, refreshed by one process at a time (G-022, G-164).

A provider may accept a refresh token once. So the first process claims it in the database, for LEASE_SECONDS of its
clock, and all others wait for the outcome: two processes at once refresh once. The claim of a dead process runs out,
and the next one takes over.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import NamedTuple

import msgspec
import structlog

from projections.analytics.connection import GRANTS, ConnectionRow, SealedGrantRow
from service.analytics.commands import insist, keep_tokens
from service.analytics.connecting.http import failure
from service.analytics.connecting.oauth import ProviderOAuth, Tokens
from service.analytics.connecting.sealed import ConnectionSecrets
from service.analytics.reads import account_of
from service.auth.system import carry_out
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from statemachines.analytics.connection import scope_fault
from statemachines.kernel.readings import ReadFailed
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

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
        account = account_of(self._store, connection.project_id)
        got = await self._oauth.refresh(connection.host, account, claimed.secrets, connection.scopes)
        if isinstance(got, Tokens) and scope_fault(got.scopes) is not None:
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
        intent = keep_tokens(before, sealed)
        keep = partial(
            carry_out, self._store, "provider", "refresh of a provider grant", intent, project=before.project_id
        )
        return await insist(keep)


def _usable(secrets: ConnectionSecrets, rejected: str | None) -> str | None:
    """The access token, unless it was rejected or is about to end."""
    if secrets.access_token == rejected or secrets.expires_at - EARLY_SECONDS <= time.time():
        return None
    return secrets.access_token
