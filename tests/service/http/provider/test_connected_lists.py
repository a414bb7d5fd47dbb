"""Lists of a connected project: scopes, the rest of a connection, and which provider is read (G-022, G-095, G-164)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.service.http.provider.scene import Provided
from tests.service.http.provider.test_listed import LISTS, PATHS, fill
from tests.support.api import World, ok, refused
from tests.support.cluster import TestCluster
from tests.support.connecting import connect, rested
from tests.support.onboarding import onboard
from tests.support.provider import FakeProvider, running_provider
from tests.support.provider.api import FakeApi, FakeProject
from tests.support.server import ServerHandle, running_server

SCOPES = {
    "/session-recordings": "session_recording:read",
    "/feature-flags": "feature_flag:read",
    "/surveys": "survey:read",
    "/experiments": "experiment:read",
}
REQUIRED = "project:read query:read"
TEAM = 42


@pytest.fixture(scope="module")
def customers() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, running: FakeApi, customers: FakeProvider
) -> Iterator[ServerHandle]:
    """A server with an operator's account, whose projects can be connected as well."""
    env = customers.env | running.env()
    with running_server(tmp_path_factory.mktemp("both"), cluster, env) as handle:
        yield handle


@pytest.fixture
def theirs(customers: FakeProvider) -> FakeApi:
    """What the customer's project holds, read over OAuth."""
    customers.forget()
    held = FakeApi()
    held.projects[TEAM] = FakeProject({"id": TEAM, "name": "theirs", "api_token": "phc_theirs0001"})
    customers.rest = held.rest
    return held


@pytest_asyncio.fixture
async def connected(
    world: World, api: FakeApi, customers: FakeProvider, theirs: FakeApi
) -> AsyncIterator[tuple[Provided, FakeProject]]:
    """A connected project, which nobody has provisioned, and the customer's project."""
    yield await connect_one(world, api, customers), theirs.projects[TEAM]
    assert theirs.faults == []


async def connect_one(world: World, api: FakeApi, customers: FakeProvider) -> Provided:
    onb = await onboard(world)
    await connect(onb, customers, provider_project_id=TEAM)
    return Provided(world, api, onb.owner, {"id": onb.project_id, "dsn": None})


@pytest.mark.parametrize("path", PATHS)
async def test_a_connected_project_is_read_over_its_connection(
    connected: tuple[Provided, FakeProject], path: str
) -> None:
    provided, theirs = connected
    fill(theirs, path, 3)
    shown = ok(await provided.ask("GET", f"{path}?limit=2"))
    assert shown["count"] == 2
    rest = ok(await provided.ask("GET", f"{path}?cursor={shown['next_cursor']}&limit=2"))
    assert (rest["count"], rest["next_cursor"]) == (1, None)
    assert provided.api.requests == [], "the operator's account is not asked"


@pytest.mark.parametrize("path", PATHS)
async def test_a_missing_scope_empties_its_list_and_is_named(
    world: World, api: FakeApi, customers: FakeProvider, theirs: FakeApi, path: str
) -> None:
    fill(theirs.projects[TEAM], path, 2)
    others = [scope for scope in SCOPES.values() if scope != SCOPES[path]]
    customers.scope = " ".join([REQUIRED, *others])
    provided = await connect_one(world, api, customers)
    shown = ok(await provided.ask("GET", path))
    assert (shown[LISTS[path]], shown["count"], shown["next_cursor"]) == ([], 0, None)
    assert SCOPES[path] in shown["next_action"]
    assert theirs.requests == []
    other = PATHS[PATHS.index(path) - 1]
    assert SCOPES[other] not in ok(await provided.ask("GET", other))["next_action"]


async def test_without_its_scope_a_survey_has_no_responses(
    world: World, api: FakeApi, customers: FakeProvider, theirs: FakeApi
) -> None:
    customers.scope = REQUIRED
    provided = await connect_one(world, api, customers)
    shown = ok(await provided.ask("GET", "/surveys?survey_id=s"))
    assert (shown["responses"], shown["stats"]) == ([], [])
    summary = ok(await provided.ask("GET", "/users/ann/summary"))
    assert (summary["recent_recordings"], summary["recordings_read"]) == ([], True)
    assert theirs.requests == []


@pytest.mark.parametrize("path", PATHS)
async def test_a_resting_connection_is_a_503(
    connected: tuple[Provided, FakeProject], customers: FakeProvider, path: str
) -> None:
    """After a 5xx nobody asks until the rest is over, and then the list is there."""
    provided, theirs = connected
    fill(theirs, path, 1)
    customers.fail["/api/"] = 500
    refused(await provided.ask("GET", path), 503, "service_unavailable")
    customers.fail.clear()

    async def ask() -> httpx2.Response:
        return await provided.ask("GET", path)

    assert ok(await rested(ask))["count"] == 1


@pytest.mark.parametrize(("status", "code"), [(403, "upstream_error"), (404, "upstream_error")])
async def test_a_refused_read_is_a_502(
    connected: tuple[Provided, FakeProject], customers: FakeProvider, status: int, code: str
) -> None:
    provided, _ = connected
    customers.fail["/api/"] = status
    for path in PATHS:
        refused(await provided.ask("GET", path), 502, code)


async def test_a_rejected_token_is_refreshed_for_a_list(
    connected: tuple[Provided, FakeProject], customers: FakeProvider
) -> None:
    provided, theirs = connected
    fill(theirs, "/surveys", 1)
    customers.revoke_access()
    assert ok(await provided.ask("GET", "/surveys"))["count"] == 1


async def test_recordings_follow_the_browser(connected: tuple[Provided, FakeProject], theirs: FakeApi) -> None:
    """A provisioned team with replay has the recordings; all else stays with the connection."""
    provided, held = connected
    held.add_recording("theirs")
    held.add_flag("theirs", 1)
    ok(await provided.provision())
    provided.team.add_flag("ours", 1)
    provided.team.add_recording("ours")

    async def people() -> list[Any]:
        shown = ok(await provided.ask("GET", "/session-recordings"))
        return [recording["distinct_id"] for recording in shown["session_recordings"]]

    assert await people() == ["theirs"]
    ok(await provided.configure())
    assert await people() == ["ours"]
    ok(await provided.configure(enabled=False))
    assert await people() == ["theirs"]
    flags = ok(await provided.ask("GET", "/feature-flags"))["feature_flags"]
    assert [flag["key"] for flag in flags] == ["theirs"]
    page = ok(await provided.ask("GET", "/users/theirs/summary"))
    assert page["recent_recordings"][0]["web_ui_url"].startswith(page["web_ui_url"].split("/person/")[0])
