"""The keeper of tokens in one process: a refresh outlives its readers, and fails without losing its claim (G-164)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from projections.analytics import GRANTS, ConnectionRow
from schemas.analytics import READ_SCOPES
from service.analytics.connecting.http import ProviderClient, Throttled
from service.analytics.connecting.oauth import ConnectionSecrets, ProviderOAuth, Tokens
from service.analytics.returning import TokenKeeper
from service.auth.secrets import seal
from service.egress.guard import Guard
from service.settings import load_settings
from statemachines.kernel.machine import ReadFailed
from tests.support.ingest import PROJECT

ROW = ConnectionRow(
    project_id=PROJECT,
    id="conn_00000001",
    revision=4,
    status="connected",
    host="https://provider.example",
    provider_project_id=42,
    scopes=READ_SCOPES,
    started_at=0,
    expires_at=900,
)
SETTINGS = load_settings({"SERVICE_PROVIDER_CLIENT_ID": "client-1", "SERVICE_ENCRYPTION_KEY": "00" * 32}, secrets=False)


class SlowOAuth(ProviderOAuth):
    """Answers refreshes in turn with what a test lays out, when the test says so."""

    def __init__(self, *answers: Tokens | ReadFailed) -> None:
        super().__init__(SETTINGS, ProviderClient(SETTINGS, Guard()))
        self.answers = list(answers)
        self.asked: list[str] = []
        self.revoked: list[ConnectionSecrets] = []
        self.arrived, self.leave = asyncio.Event(), asyncio.Event()

    async def refresh(self, host: str, account: str, former: ConnectionSecrets, scopes: Any) -> Tokens | ReadFailed:
        self.asked.append(former.refresh_token or "")
        self.arrived.set()
        await self.leave.wait()
        return self.answers.pop(0)

    async def revoke(self, host: str, account: str, secrets: ConnectionSecrets) -> None:
        self.revoked.append(secrets)


def secrets(number: int, lifetime: int = 3600) -> ConnectionSecrets:
    return ConnectionSecrets(
        access_token=f"access-{number}", refresh_token=f"refresh-{number}", expires_at=int(time.time()) + lifetime
    )


def fresh(number: int, scopes: tuple[str, ...] = READ_SCOPES) -> Tokens:
    return Tokens(secrets(number), scopes, None, None)


def keep(sql: Any, oauth: ProviderOAuth, kept: ConnectionSecrets) -> None:
    """Store the secrets of the connection."""
    sealed = oauth.sealer.close(PROJECT, ROW.id, kept)
    sql.execute("insert into provider_grants values (%s, %s, 3, %s)", (PROJECT, ROW.id, sealed))


async def kept(store: Any, oauth: ProviderOAuth) -> ConnectionSecrets:
    """Read what is stored."""
    row = await store.get(GRANTS, PROJECT, ROW.id)
    opened = oauth.sealer.open(PROJECT, ROW.id, row.sealed)
    assert opened is not None
    return opened


async def test_a_live_token_is_told_without_a_refresh(sql, store):
    oauth = SlowOAuth()
    keep(sql, oauth, secrets(1))
    assert await TokenKeeper(store, oauth).access(ROW) == "access-1"


async def test_tokens_of_the_release_before_still_open(sql, store):
    """Theirs came from a device grant, and are refreshed like any other."""
    oauth = SlowOAuth(fresh(2))
    oauth.leave.set()
    former = '{"device_code":null,"access_token":"access-0","refresh_token":"refresh-0","expires_at":%d}'
    keeper = TokenKeeper(store, oauth)
    for row, (lifetime, told) in enumerate([(3600, "access-0"), (0, "access-2")]):
        sealed = seal(bytes(32), "provider-grant", f"{PROJECT}/{ROW.id}", former % (time.time() + lifetime))
        sql.execute("delete from provider_grants")
        sql.execute("insert into provider_grants values (%s, %s, %s, %s)", (PROJECT, ROW.id, row, sealed))
        assert await keeper.access(ROW) == told
    assert oauth.asked == ["refresh-0"]


@pytest.mark.parametrize(("lifetime", "rejected"), [(59, None), (3600, "access-1")])
async def test_an_ending_or_rejected_token_is_replaced_once_for_all_readers(sql, store, lifetime, rejected):
    oauth = SlowOAuth(fresh(2))
    keep(sql, oauth, secrets(1, lifetime))
    keeper = TokenKeeper(store, oauth)
    readers = [asyncio.create_task(keeper.access(ROW, rejected)) for _ in range(5)]
    await oauth.arrived.wait()
    claimed = await kept(store, oauth)
    assert claimed.refreshing_until > await store.now()
    oauth.leave.set()
    assert await asyncio.gather(*readers) == ["access-2"] * 5
    assert oauth.asked == ["refresh-1"]
    assert (await kept(store, oauth)).refreshing_until == 0


async def test_a_refresh_outlives_its_reader(sql, store):
    """The provider gives tokens once, so they are kept although nobody waits for them."""
    oauth = SlowOAuth(fresh(2))
    keep(sql, oauth, secrets(1, 0))
    keeper = TokenKeeper(store, oauth)
    reader = asyncio.create_task(keeper.access(ROW))
    await oauth.arrived.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    oauth.leave.set()
    assert await keeper.access(ROW) == "access-2"
    assert oauth.asked == ["refresh-1"]
    assert (await kept(store, oauth)).refresh_token == "refresh-2"


@pytest.mark.parametrize("failure", [ReadFailed("timeout"), Throttled("unreachable", retry_after=7)])
async def test_a_failed_refresh_gives_its_claim_back(sql, store, failure):
    """The next reader tries again, with the token that is still there."""
    oauth = SlowOAuth(failure, fresh(2))
    oauth.leave.set()
    keep(sql, oauth, secrets(1, 0))
    keeper = TokenKeeper(store, oauth)
    assert await keeper.access(ROW) == failure
    assert await keeper.access(ROW) == "access-2"
    assert oauth.asked == ["refresh-1", "refresh-1"]


async def test_a_refresh_that_brings_more_than_reading_is_given_back(sql, store):
    oauth = SlowOAuth(fresh(2, (*READ_SCOPES, "query:write")))
    oauth.leave.set()
    keep(sql, oauth, secrets(1, 0))
    assert await TokenKeeper(store, oauth).access(ROW) == ReadFailed("refused")
    assert [given.access_token for given in oauth.revoked] == ["access-2"]


async def test_without_a_grant_or_its_key_nothing_is_told(sql, store):
    oauth = SlowOAuth()
    keeper = TokenKeeper(store, oauth)
    assert await keeper.access(ROW) == ReadFailed("unauthorized")
    sql.execute(
        "insert into provider_grants values (%s, %s, 3, 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA')", (PROJECT, ROW.id)
    )
    assert await keeper.access(ROW) == ReadFailed("unauthorized")
    sql.execute("delete from provider_grants")
    keep(sql, oauth, ConnectionSecrets(access_token="access-1"))
    assert await keeper.access(ROW) == ReadFailed("unauthorized")
    assert oauth.asked == []
