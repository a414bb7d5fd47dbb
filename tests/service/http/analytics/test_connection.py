"""Connecting an analytics provider over HTTP, and verifying through it (G-022, G-032, G-164, R-AUTH-21, R-ONB-62)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import pytest_asyncio

from schemas.analytics import READ_SCOPES
from tests.support import seen
from tests.support.api import World, ok, refused
from tests.support.cluster import TestCluster
from tests.support.connecting import (
    CALLBACK,
    POLL,
    START,
    connect,
    grant,
    poll,
    press,
    rested,
    sent_back,
    start,
    visit,
    without_looks,
)
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import history_body, plan_body
from tests.support.provider import FakeProvider, running_provider
from tests.support.server import ServerHandle, running_server

ASKED = list(READ_SCOPES)


@pytest.fixture(scope="module")
def running() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, running: FakeProvider
) -> Iterator[ServerHandle]:
    """A server whose regions both lead to the fake provider, in an environment whose proxy nobody answers at."""
    env = {
        **running.env,
        "SERVICE_PROVIDER_CLIENT_SECRET": "client-secret",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "",
    }
    with running_server(tmp_path_factory.mktemp("connected"), cluster, env) as handle:
        without_looks(handle)
        yield handle


@pytest.fixture(scope="module")
def bare(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """A server on the same database that can be connected to no provider: it could seal no token."""
    env = {"SERVICE_ENCRYPTION_KEY": "none"}
    handle = ServerHandle(tmp_path_factory.mktemp("bare"), database_url=server.database_url, env=env)
    try:
        handle.start()
        yield handle
    finally:
        handle.stop()


@pytest_asyncio.fixture
async def world(server: ServerHandle) -> Any:
    async with seen.async_client(server.base_url, timeout=30) as client:
        yield World(client, server)


@pytest.fixture
def provider(running: FakeProvider) -> FakeProvider:
    """The provider, forgetful between tests."""
    running.forget()
    running.client_secret = "client-secret"
    return running


async def test_a_human_grants_read_access(world: World, provider: FakeProvider) -> None:
    """Pending with an address for the human, then connected. Secrets are nowhere to be seen (G-022, G-164)."""
    onb = await onboard(world)
    started = await start(onb, provider_project_id=42)
    expected = {"status": "pending", "scopes": ASKED, "expires_in": 900, "interval": 5}
    assert {name: started[name] for name in expected} == expected
    assert started["connection_id"].startswith("conn_")
    address, asked = _taken_apart(started)
    assert address == f"{provider.url}/oauth/authorize/"
    challenge, state = asked.pop("code_challenge"), asked.pop("state")
    assert len(challenge) == 43
    assert len(state) > 60
    assert asked == {
        "response_type": "code",
        "client_id": "client-1",
        "redirect_uri": f"{world.server.base_url}{CALLBACK}",
        "scope": "project:read query:read session_recording:read feature_flag:read survey:read experiment:read",
        "code_challenge_method": "S256",
        "required_access_level": "project",
    }
    pending = await poll(onb, started)
    expected = {
        "status": "pending",
        "connection_id": started["connection_id"],
        "project_id": onb.project_id,
        "provider": "provider_cloud",
        "provider_project_id": 42,
        "scopes": ASKED,
        "connected_at": None,
    }
    assert {name: pending[name] for name in expected} == expected
    page = visit(sent_back(started))
    assert started["user_code"] in page.text
    assert (await poll(onb, started))["status"] == "pending"
    assert provider.calls("/oauth/token/") == [], "nothing is exchanged before the human agrees"
    done = press(page)
    assert (done.status_code, "Connected." in done.text) == (200, True)
    connected = await poll(onb, started)
    assert connected["status"] == "connected"
    assert connected["connected_at"] > 0
    assert await poll(onb, started) == connected, "a second poll is told the same"
    [redeemed] = provider.calls("/oauth/token/")
    assert redeemed["client_secret"] == "client-secret"
    secrets = [*provider.issued, redeemed["code_verifier"]]
    assert len(secrets) == 4
    for secret in secrets:
        for table in ("events", "provider_connections", "provider_grants", "idempotency"):
            [[found]] = await world.sql(
                f"select count(*) from {table} t where to_jsonb(t)::text like %s", f"%{secret}%"
            )
            assert found == 0, table
        assert secret not in page.text + done.text
        assert secret not in world.server.log()
    assert state not in world.server.log()


def _taken_apart(started: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The authorization address, and its parameters."""
    address, _, query = started["authorization_url"].partition("?")
    return address, dict(parse_qsl(query, strict_parsing=True))


async def test_a_human_says_no(world: World, provider: FakeProvider) -> None:
    """A denial at the provider or on our page is final for its connection. Another one can be started."""
    onb = await onboard(world)
    provider.human = "access_denied"
    started = await start(onb)
    page = visit(sent_back(started))
    assert (page.status_code, "Refused." in page.text) == (200, True)
    assert (await poll(onb, started))["status"] == "denied"
    assert (await poll(onb, started))["status"] == "denied"
    provider.human = "granted"
    for decision in ("deny", "", "ALLOW", "allow "):
        started = await start(onb)
        page = press(visit(sent_back(started)), decision)
        assert (page.status_code, "Refused." in page.text) == (200, True)
        assert (await poll(onb, started))["status"] == "denied"
    assert provider.calls("/oauth/token/") == []
    provider.human = "temporarily_unavailable"
    started = await start(onb)
    assert "The provider ended the sign-in." in visit(sent_back(started)).text
    assert (await poll(onb, started))["status"] == "expired"
    assert (await connect(onb, provider))["status"] == "connected"


@pytest.mark.parametrize(
    ("scope", "status", "missing"),
    [
        ("", "connected", []),
        (None, "connected", []),
        ("project:read query:read", "connected", ASKED[2:]),
        ("project:read query:read survey:read", "connected", [s for s in ASKED[2:] if s != "survey:read"]),
        ("project:read query:read query:write", "denied", []),
        ("*", "denied", []),
        ("openid project:read query:read", "denied", []),
        ("project:read", "denied", []),
    ],
)
async def test_anything_but_reading_is_refused(
    world: World, provider: FakeProvider, scope: str | None, status: str, missing: list[str]
) -> None:
    """A grant with a write scope is thrown away whole, and given back. A missing other scope is named (R-AUTH-21)."""
    onb = await onboard(world)
    provider.scope = scope
    answer = await connect(onb, provider)
    assert answer["status"] == status
    assert [scope for scope in ASKED if scope in answer["next_action"] and status == "connected"] == missing
    if status == "connected":
        assert answer["scopes"] == [scope for scope in ASKED if scope not in missing]
    [[sealed]] = await world.sql("select sealed from provider_grants where id = %s", answer["connection_id"])
    assert (sealed is not None) == (status == "connected")
    revoked = [form["token"] for form in provider.calls("/oauth/revoke/")]
    assert revoked == ([] if status == "connected" else [provider.issued[-1]])


@pytest.mark.parametrize(
    ("asked", "teams", "status", "project"),
    [
        (None, [9], "connected", 9),
        (None, [8, 9], "connected", None),
        (8, [8, 9], "connected", 8),
        (7, [8, 9], "denied", 7),
        (7, None, "connected", 7),
        (7, [], "connected", 7),
        (None, [], "connected", None),
    ],
)
async def test_which_project_a_grant_reads(
    world: World, provider: FakeProvider, asked: int | None, teams: list[int] | None, status: str, project: int | None
) -> None:
    """The project asked for if the grant covers it, else the only one that it covers."""
    onb = await onboard(world)
    provider.teams = teams
    members = {} if asked is None else {"provider_project_id": asked}
    answer = await connect(onb, provider, **members)
    assert (answer["status"], answer["provider_project_id"]) == (status, project)


@pytest.mark.parametrize(
    ("wish", "granted", "status", "read"),
    [
        (None, "us", "connected", "/us"),
        (None, "eu", "connected", "/eu"),
        (None, None, "connected", "/us"),
        (None, "mars", "connected", "/us"),
        ("eu", "eu", "connected", "/eu"),
        ("eu", None, "connected", "/eu"),
        ("eu", "us", "denied", "/eu"),
        ("us", "eu", "denied", "/us"),
    ],
)
async def test_which_region_a_grant_reads(
    world: World, provider: FakeProvider, wish: str | None, granted: str | None, status: str, read: str
) -> None:
    """All regions sign in at one address, and the answer names the region. One that was asked for has to be that."""
    onb = await onboard(world)
    provider.region = granted
    answer = await connect(onb, provider, **({} if wish is None else {"region": wish}))
    assert answer["status"] == status
    [[host]] = await world.sql("select host from provider_connections where id = %s", answer["connection_id"])
    assert host == provider.url + read


async def test_nobody_answers(world: World, provider: FakeProvider) -> None:
    """After fifteen minutes a connection is expired, wherever its human was."""
    onb = await onboard(world)
    at_provider, at_page = await start(onb), await start(onb)
    page = visit(sent_back(at_page))
    address = sent_back(at_provider)
    assert urlsplit(address).path == CALLBACK
    await world.wait(900)
    for started in (at_provider, at_page):
        assert (await poll(onb, started))["status"] == "expired"
    assert visit(address).status_code == 410
    assert press(page).status_code == 410
    assert provider.calls("/oauth/token/") == []
    for started in (at_provider, at_page):
        assert (await poll(onb, started))["status"] == "expired"
    late = await start(onb)
    page = visit(sent_back(late))
    await world.wait(900)
    assert press(page).status_code == 410, "without a poll, it expires all the same"
    [[events]] = await world.sql("select count(*) from events where stream_id = %s", late["connection_id"])
    assert (events, (await poll(onb, late))["status"]) == (3, "expired")


async def test_who_may_connect(world: World, provider: FakeProvider) -> None:
    """The owner of the project; connections of others do not exist (G-025)."""
    onb = await onboard(world)
    body = {"project_id": onb.project_id}
    stranger, member = await world.sign_in(), await onb.add_member()
    refused(await world.post(START, body), 401, "unauthenticated")
    refused(await stranger.post(START, body), 404, "project_not_found")
    refused(await member.post(START, body), 403, "owner_required")
    started = ok(await onb.owner.post(START, body))
    asks = {"connection_id": started["connection_id"]}
    unknown = {"connection_id": "conn_00000000000000000000000000"}
    refused(await world.post(POLL, asks), 401, "unauthenticated")
    for caller, told in ((stranger, asks), (stranger, unknown), (onb.owner, unknown)):
        refused(await caller.post(POLL, told), 404, "not_found")
    refused(await member.post(POLL, asks), 403, "owner_required")
    address = sent_back(started)
    page = visit(sent_back(ok(await onb.owner.post(START, body))))
    await world.sql("update projects set status = 'fenced' where project_id = %s", onb.project_id)
    refused(await onb.owner.post(START, body), 409, "project_deletion_in_progress")
    refused(await onb.owner.post(POLL, asks), 409, "project_deletion_in_progress")
    assert visit(address).status_code == 410
    assert press(page).status_code == 410
    assert provider.calls("/oauth/token/") == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"project_id": "short"},
        {"region": "us"},
        {"region": "mars"},
        {"host": "http://provider.example"},
        {"host": "https://user:pass@provider.example"},
        {"host": "https://provider.example?x=1"},
        {"host": "https://127.0.0.1"},
        {"host": "https://localhost"},
        {"host": "https://169.254.169.254"},
        {"host": "https://10.0.0.1:8443"},
        {"host": "https://127.1"},
        {"host": "https://2130706433"},
        {"host": "https://0x7f000001"},
        {"host": "https://8.8.8.8:22"},
        {"host": "https://provider.example:6379"},
        {"host": "https://provider..example"},
        {"host": "https://provider.example:65536"},
        {"provider_project_id": 0},
        {"provider_project_id": "42"},
        {"surplus": 1},
    ],
)
async def test_bodies_that_are_refused(world: World, provider: FakeProvider, body: dict[str, Any]) -> None:
    """A connection starts from its declared members alone, and never towards an address inside (threat: SSRF)."""
    onb = await onboard(world)
    if set(body) - {"project_id"} and body != {"region": "us"}:
        body = {"project_id": onb.project_id, **body}
    refused(await onb.owner.post(START, body), 400, "invalid_payload")
    assert provider.requests == []


async def test_a_repeated_start_is_one_connection(world: World, provider: FakeProvider) -> None:
    """The same key is answered with the same connection (G-008)."""
    onb = await onboard(world)
    first = ok(await onb.owner.post(START, {"project_id": onb.project_id}, key="c1"))
    again = await onb.owner.post(START, {"project_id": onb.project_id}, key="c1")
    assert ok(again) == first
    assert again.headers["idempotent-replayed"] == "true"


FAILED_EXCHANGES: dict[str, tuple[Any, int]] = {
    "server error": (500, 503),
    "throttled": (429, 503),
    "unknown client": (401, 502),
    "no json": (lambda handler: handler.reply(200, b"<html>"), 502),
    "no token": (lambda handler: handler.reply(200, b"{}"), 502),
    "a scope that is none": (lambda handler: handler.reply(200, _token(scope='a"b:read')), 502),
    "a token that fits no header": (lambda handler: handler.reply(200, _token(access_token="a\r\nb")), 502),
    "a refresh token of no text": (lambda handler: handler.reply(200, _token(refresh_token="\u0000")), 502),
    "a project of no size": (lambda handler: handler.reply(200, _token(scoped_teams=[2**70])), 502),
    "a life without end": (lambda handler: handler.reply(200, _token(expires_in=10**30)), 502),
    "elsewhere": (lambda handler: handler.reply(302, b"", {"location": "/elsewhere"}), 502),
    "hang up": (lambda handler: handler.connection.close(), 502),
}


def _token(**members: Any) -> bytes:
    return json.dumps({"access_token": "pha_1", "refresh_token": "phr_1", "token_type": "Bearer", **members}).encode()


@pytest.mark.parametrize("how", FAILED_EXCHANGES)
async def test_an_exchange_that_fails_ends_the_sign_in(world: World, provider: FakeProvider, how: str) -> None:
    """The code is spent, so the human starts again. Nothing is half connected."""
    onb = await onboard(world)
    started = await start(onb)
    failing, status = FAILED_EXCHANGES[how]
    provider.fail = {"/oauth/token/": failing}
    page = grant(started)
    assert page.status_code == status
    assert ("takes no requests just now" if status == 503 else "did not confirm") in page.text
    assert ("retry-after" in page.headers) == (status == 503)
    assert (await poll(onb, started))["status"] == "expired"
    [[sealed]] = await world.sql("select sealed from provider_grants where id = %s", started["connection_id"])
    assert sealed is None
    assert provider.calls("/elsewhere") == [], "redirects are not followed"
    provider.fail = {}
    assert (await connect(onb, provider))["status"] == "connected"


async def test_without_configuration(world: World, bare: ServerHandle) -> None:
    """An operator who has configured no provider: 503, and what to set (G-022)."""
    onb = await onboard(world)
    async with seen.async_client(bare.base_url, timeout=30) as client:
        headers = {"authorization": f"Bearer {onb.owner.secret}"}
        answer = await client.post(START, json={"project_id": onb.project_id}, headers=headers)
        error = refused(answer, 503, "service_unavailable")
        assert "SERVICE_PROVIDER_CLIENT_ID" in error["next_action"]
        assert error["retryable"] is True
        pending = await start(onb)
        answer = await client.post(POLL, json={"connection_id": pending["connection_id"]}, headers=headers)
        refused(answer, 503, "service_unavailable")
        refused(await client.get("/.well-known/oauth-client"), 503, "service_unavailable")
    assert (await poll(onb, pending))["status"] == "pending"
    own = await world.client.get("/.well-known/oauth-client")
    assert refused(own, 503, "service_unavailable")["next_action"]


# ---- verification through the provider


def captured(provider: FakeProvider, begun: dict[str, Any], **changes: Any) -> None:
    """Capture at the provider what the plan asks for, just after the session began by the service's clock."""
    at = begun["state"]["proof_session"]["started_at"] + 1
    proof = {"service_onboarding_proof": begun["one_time_markers"]["runtime"]["value"]}
    provider.capture("order_created", at, order_kind="book", **{"$lib": "web"}, **proof)
    provider.capture("order_paid", at, **{"amount": 1, "currency": "eur", "$lib": "service-node", **changes}, **proof)
    provider.capture(
        "$exception",
        at,
        **{"$exception_message": "payment_declined", "$lib": "service-node", "decline_code": "51"},
        **proof,
    )


async def proving(world: World, provider: FakeProvider) -> tuple[Onboarding, dict[str, Any]]:
    """A connected project that is proving, its deploy recorded."""
    onb = await onboard(world)
    await connect(onb, provider, provider_project_id=42)
    begun = await onb.to_proving(plan_body(historical_evidence=history_body()))
    await onb.deploy(begun)
    return onb, begun


async def test_verification_reads_the_connected_provider_alone(world: World, provider: FakeProvider) -> None:
    """With a connection only the provider's rows count; our own records are another source (R-ONB-62, G-032)."""
    onb, begun = await proving(world, provider)
    await onb.exercise(begun)
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert len(owed["analytics"]["milestones"]) == 2
    assert owed["safe_error"]["marker_missing"]
    assert owed["deploy"] is None
    captured(provider, begun)
    done = ok(await onb.verify(begun["state"]))
    assert done["ok"] is True, done["remaining"]
    paths = {path for path, _, _ in provider.requests if path.startswith("/api")}
    assert paths == {"/api/projects/42/query/"}


async def test_the_boundary_is_checked_at_the_provider(world: World, provider: FakeProvider) -> None:
    """A server event captured in the browser is not the approved one."""
    onb, begun = await proving(world, provider)
    captured(provider, begun, **{"$lib": "web"})
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert [m["event"] for m in owed["analytics"]["milestones"]] == ["order_paid"]


async def test_rows_received_beside_the_session_do_not_count(world: World, provider: FakeProvider) -> None:
    """The provider's own time of receipt decides (R-ONB-59)."""
    onb, begun = await proving(world, provider)
    captured(provider, begun)
    for event in provider.events:
        event["created_at"] = begun["state"]["proof_session"]["started_at"] - 5
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["analytics"]["blockers"] == owed["safe_error"]["blockers"] == ["proof_session_outside_window"]


def stall(handler: Any) -> None:
    """Answer more than is taken."""
    handler.reply(200, b'{"results": [' + b" " * (17 * 1024 * 1024) + b"]}")


FAILURES: dict[str, Any] = {
    "server error": 500,
    "throttled": 429,
    "refused": 400,
    "forbidden": 403,
    "no json": lambda handler: handler.reply(200, b"<html>"),
    "other json": lambda handler: handler.reply(200, b'{"results": null}'),
    "no results": lambda handler: handler.reply(200, b"{}"),
    "broken properties": lambda handler: handler.reply(200, b'{"results": [["order_paid", 1, "{"]]}'),
    "properties of no object": lambda handler: handler.reply(200, b'{"results": [["order_paid", 1, "[]"]]}'),
    "too much": stall,
    "hang up": lambda handler: handler.connection.close(),
}


@pytest.mark.parametrize("how", FAILURES)
async def test_a_failed_read_is_never_an_empty_one(world: World, provider: FakeProvider, how: str) -> None:
    """However the provider fails, verify answers 200 with the two read blockers and claims nothing (G-085)."""
    onb, begun = await proving(world, provider)
    captured(provider, begun)
    provider.fail = {"/api/": FAILURES[how]}
    answer = ok(await onb.verify(begun["state"]))
    assert answer["ok"] is False
    assert answer["state"] == begun["state"]
    assert answer["remaining"]["analytics"] == {
        "blockers": ["analytics_read_failed"],
        "milestones": [],
        "properties": [],
    }
    assert answer["remaining"]["safe_error"]["blockers"] == ["safe_error_read_failed"]
    assert answer["remaining"]["safe_error"]["marker_missing"] is False
    assert answer["remaining"]["deploy"] is None
    provider.fail = {}
    if how in {"server error", "throttled"}:
        assert ok(await onb.verify(begun["state"]))["ok"] is False, "the provider is left alone for a second"
        headers = {"authorization": f"Bearer {onb.owner.secret}"}
        await rested(lambda: world.client.get(f"/v1/projects/{onb.project_id}/event-names", headers=headers))
    assert ok(await onb.verify(begun["state"]))["ok"] is True


async def test_tokens_are_refreshed_and_rotated(world: World, provider: FakeProvider) -> None:
    """A rejected or ending token is replaced once, the new pair kept sealed, and reads go on."""
    onb, begun = await proving(world, provider)
    for _ in range(3):
        provider.revoke_access()
        owed = ok(await onb.verify(begun["state"]))["remaining"]
        assert owed["analytics"]["blockers"] == []
    assert len([form for form in provider.calls("/oauth/token/") if form["grant_type"] == "refresh_token"]) == 3
    [[generation]] = await world.sql("select generation from provider_grants where project_id = %s", onb.project_id)
    assert generation == 10
    provider.token_seconds = 30  # about to end as soon as it is issued
    provider.revoke_access()
    ok(await onb.verify(begun["state"]))
    before = len(provider.calls("/oauth/token/"))
    ok(await onb.verify(begun["state"]))
    assert len(provider.calls("/oauth/token/")) > before
    provider.refresh.clear()
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["analytics"]["blockers"] == ["analytics_read_failed"], "the grant is gone"


async def test_a_refresh_that_brings_more_than_reading_is_refused(world: World, provider: FakeProvider) -> None:
    """Later grants are held to the same scopes as the first."""
    onb, begun = await proving(world, provider)
    provider.revoke_access()
    provider.scope = "project:read query:read query:write"
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["analytics"]["blockers"] == ["analytics_read_failed"]


async def test_a_connection_outlives_its_configuration_as_a_failure(
    world: World, provider: FakeProvider, bare: ServerHandle
) -> None:
    """With the adapter's settings gone, reads of a connected project fail; they never turn into local ones."""
    onb, begun = await proving(world, provider)
    await onb.exercise(begun)
    async with seen.async_client(bare.base_url, timeout=30) as client:
        headers = {"authorization": f"Bearer {onb.owner.secret}", "if-match": begun["state"]["etag"]}
        owed = ok(await client.post(f"{onb.path}/verify", headers=headers))["remaining"]
    assert owed["analytics"]["blockers"] == ["analytics_read_failed"]


async def test_the_newest_connection_reads(world: World, provider: FakeProvider) -> None:
    """A second connection takes over once it is granted, not before."""
    onb, begun = await proving(world, provider)
    visit(sent_back(await start(onb, provider_project_id=43)))
    ok(await onb.verify(begun["state"]))
    await world.wait(1)
    provider.teams = [44]
    await connect(onb, provider, provider_project_id=44)
    ok(await onb.verify(begun["state"]))
    paths = [path for path, _, _ in provider.requests if path.startswith("/api")]
    assert set(paths[:2]) == {"/api/projects/42/query/"}
    assert set(paths[2:]) == {"/api/projects/44/query/"}


async def test_names_and_keys_are_asked_of_the_provider(world: World, provider: FakeProvider) -> None:
    """They are what the provider says, whatever came in here; a failure is no empty answer (G-032, G-155)."""
    onb = await onboard(world)
    await connect(onb, provider, provider_project_id=42)
    for person, amount in (("u1", 1), ("u2", 2.5), ("u1", None)):
        provider.capture("paid", distinct_id=person, amount=amount, service_onboarding_proof="canary")
    provider.capture("seen", distinct_id="u3")
    provider.capture("seen", time.time() - 40 * 86400, distinct_id="u4")
    names, keys = (f"/v1/projects/{onb.project_id}/{read}" for read in ("event-names", "event-property-keys"))
    shown = ok(await onb.owner.get(names))
    found = [(e["event"], e["row_count"], e["unique_users"]) for e in shown["analytics_events"]]
    assert (found, shown["complete"]) == ([("paid", 3, 2), ("seen", 1, 1)], True)
    told = ok(await onb.owner.get(keys, params={"events": "paid"}))
    assert [(k["event"], k["key"], k["row_count"], k["types"]) for k in told["keys"]] == [
        ("paid", "amount", 3, ["null", "number"]),
        ("paid", "distinct_id", 3, ["string"]),
    ]
    assert [k["event"] for k in ok(await onb.owner.get(keys, params={"days": 90}))["keys"]] == ["paid", "paid", "seen"]
    queries = [body["query"]["query"] for body in provider.calls("/api/projects/42/query/")][-3:]
    assert ["in {events}" in query for query in queries] == [False, True, False]

    async def fails(read: str, failing: Any, status: int = 502, code: str = "upstream_error") -> None:
        provider.fail = {"/api/": failing}
        answer = await world.client.get(read, headers={"authorization": f"Bearer {onb.owner.secret}"})
        refused(answer, status, code)

    for read, rows in ((names, [["paid", -1, 1, 0, 0]]), (keys, [["paid", "k", 1, ["Nonsense"]]])):
        body = json.dumps({"results": rows}).encode()
        await fails(read, lambda handler, body=body: handler.reply(200, body))
    for read in (names, keys):
        await fails(read, 500, 503, "service_unavailable")
