"""Provisioning and session replay over HTTP (R-PROJ-14, R-PRV, G-094, G-165)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.service.http.projects.test_project import add_member, fence
from tests.service.http.provider.scene import Provided
from tests.support import seen
from tests.support.api import World, ok, refused
from tests.support.provider.api import FakeApi
from tests.support.provider.document import Asked
from tests.support.server import ServerHandle, running_beside


@pytest.fixture(scope="module")
def second(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory, running: FakeApi) -> Iterator[ServerHandle]:
    """Another machine's server on the same database, with the same settings."""
    with running_beside(server, tmp_path_factory.mktemp("second"), running.env()) as handle:
        yield handle


@pytest.fixture(scope="module")
def bare(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """A server on the same database whose operator has no account."""
    handle = ServerHandle(tmp_path_factory.mktemp("bare"), database_url=server.database_url)
    try:
        handle.start()
        yield handle
    finally:
        handle.stop()


async def test_a_team_is_provisioned_once(provided: Provided) -> None:
    """Every repeat shows the same team, and asks for nothing more."""
    made = ok(await provided.provision())
    [number] = provided.api.named(f"service-{provided.project_id}")
    assert {**made, "next_action": ""} == {
        "project_id": provided.project_id,
        "status": "provisioned",
        "team_id": number,
        "web_ui_url": f"{provided.api.url}/project/{number}",
        "next_action": "",
    }
    assert made["next_action"]
    asked = len(provided.api.requests)
    assert ok(await provided.provision()) == made
    assert len(provided.api.requests) == asked
    assert await provided.events() == ["provider.provisioning_started.v1", "provider.team_provisioned.v1"]
    status = await provided.status()
    assert (status["status"], status["replay"]["enabled"], status["last_recording_at"]) == ("provisioned", False, None)


async def test_nobody_has_asked_yet(provided: Provided) -> None:
    status = await provided.status()
    assert {**status, "next_action": ""} == {
        "project_id": provided.project_id,
        "status": "unknown",
        "replay": {"enabled": False, "provider": "provider_cloud", "sample_rate": 1.0, "mask_all_inputs": True},
        "last_recording_at": None,
        "next_action": "",
    }


async def test_the_intent_is_committed_before_the_provider_is_asked(provided: Provided) -> None:
    seen: list[list[str]] = []
    loop = asyncio.get_running_loop()

    def look(_: Asked) -> None:
        seen.append(asyncio.run_coroutine_threadsafe(provided.events(), loop).result(10))

    provided.api.fail[("*", "/projects/")] = look
    ok(await provided.provision())
    assert seen[0] == ["provider.provisioning_started.v1"]
    assert len(seen) == 2, "a look-up before the creation"


async def test_two_processes_at_once_make_one_team(provided: Provided, second: ServerHandle) -> None:
    """Of many requests at two servers one asks the provider, whose creation takes its time, and all see its team."""
    late = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slowly(_: Asked) -> None:
        asyncio.run_coroutine_threadsafe(_wait(late), loop).result(20)

    provided.api.fail[("POST", "/projects/")] = slowly
    path = f"{provided.path}/provider/provision"
    async with seen.async_client(second.base_url, timeout=60) as other:
        headers = {"authorization": f"Bearer {provided.owner.secret}"}
        rivals = [
            asyncio.ensure_future(client.post(path, json={}, headers=headers))
            for client in (provided.world.client, other, provided.world.client, other)
        ]
        await until(lambda: bool(provided.api.calls("POST")))
        late.set()
        answers = await asyncio.gather(*rivals)
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    assert len({answer.json()["team_id"] for answer in answers}) == 1
    assert len(provided.api.calls("POST")) == len(provided.api.projects) == 1
    assert await provided.events() == ["provider.provisioning_started.v1", "provider.team_provisioned.v1"]


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - another thread brings it about
            await asyncio.sleep(0.02)


async def test_an_attempt_that_takes_long_is_told_to_the_others(provided: Provided) -> None:
    late, loop = asyncio.Event(), asyncio.get_running_loop()
    provided.api.fail[("POST", "/projects/")] = lambda _: asyncio.run_coroutine_threadsafe(_wait(late), loop).result(30)
    first = asyncio.ensure_future(provided.provision())
    await until(lambda: bool(provided.api.calls("POST")))
    answer = await provided.provision()
    assert refused(answer, 503, "provider_provisioning_blocked")["retryable"] is True
    assert int(answer.headers["retry-after"]) > 0
    late.set()
    ok(await first)
    assert len(provided.api.projects) == 1


async def test_a_lost_answer_makes_no_second_team(provided: Provided) -> None:
    """The provider created the team and the answer never came: the next attempt finds it by its name."""

    def lose(asked: Asked) -> tuple[int, Any]:
        provided.api.add_project(asked.body["name"])
        return 200, b'{"id": '

    provided.api.fail[("POST", "/projects/")] = lose
    refused(await provided.provision(), 503, "provider_provisioning_blocked")
    assert (await provided.status())["status"] == "upstream_blocked"
    del provided.api.fail[("POST", "/projects/")]
    made = ok(await provided.provision())
    assert provided.api.named(f"service-{provided.project_id}") == [made["team_id"]]
    assert len(provided.api.calls("POST")) == 1


async def test_a_creation_in_doubt_is_not_repeated_at_once(provided: Provided) -> None:
    """A team that no look-up shows yet may still come: until the doubt is over, nobody creates another."""
    provided.api.fail[("POST", "/projects/")] = 502
    refused(await provided.provision(), 503, "provider_provisioning_blocked")
    del provided.api.fail[("POST", "/projects/")]
    answer = await provided.provision()
    refused(answer, 503, "provider_provisioning_blocked")
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert len(provided.api.calls("POST")) == 1
    await provided.world.wait(61)
    ok(await provided.provision())
    assert len(provided.api.calls("POST")) == 2


async def test_a_killed_process_leaves_an_attempt_that_is_taken_over(
    provided: Provided, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The process dies between the creation and its answer. Once its time is over, another attempt finds the team."""
    database_url = provided.world.server.database_url
    victim = ServerHandle(tmp_path_factory.mktemp("victim"), database_url=database_url, env=provided.api.env())
    victim.start()
    created = asyncio.Event()
    never, loop = asyncio.Event(), asyncio.get_running_loop()

    def create_and_hang(asked: Asked) -> tuple[int, Any]:
        provided.api.add_project(asked.body["name"])
        loop.call_soon_threadsafe(created.set)
        asyncio.run_coroutine_threadsafe(_wait(never), loop).result(60)
        return 200, {}

    provided.api.fail[("POST", "/projects/")] = create_and_hang
    headers = {"authorization": f"Bearer {provided.owner.secret}"}
    async with seen.async_client(victim.base_url, timeout=60) as client:
        asked = asyncio.ensure_future(client.post(f"{provided.path}/provider/provision", json={}, headers=headers))
        await created.wait()
        await asyncio.to_thread(victim.kill)
        with pytest.raises(httpx2.HTTPError):
            await asked
    never.set()
    provided.api.fail.clear()
    assert (await provided.status())["status"] == "unknown"
    await provided.world.wait(41)
    made = ok(await provided.provision())
    assert provided.api.named(f"service-{provided.project_id}") == [made["team_id"]]
    assert len(provided.api.calls("POST")) == 1
    assert await provided.events() == [
        "provider.provisioning_started.v1",
        "provider.provisioning_started.v1",
        "provider.team_provisioned.v1",
    ]


async def test_a_team_is_found_on_any_page_and_by_its_whole_name(provided: Provided) -> None:
    """Names that only begin alike are others', also where the provider does not search at all."""
    for number in range(5):
        provided.api.add_project(f"service-{provided.project_id}-{number}")
    provided.api.ignores_search, provided.api.page_at_most = True, 2
    mine = provided.api.add_project(f"service-{provided.project_id}")
    made = ok(await provided.provision())
    assert made["team_id"] == mine.settings["id"]
    assert provided.api.calls("POST") == []


@pytest.mark.parametrize("failure", [401, 403, 404, 500, 503, (200, b"<html>"), (200, {"results": [{"id": "x"}]})])
async def test_a_provider_that_fails_blocks_analytics_alone(provided: Provided, failure: Any) -> None:
    """503 and upstream_blocked; telemetry is taken in, and the next success recovers (R-PRV-02)."""
    provided.api.fail[("GET", "/projects/")] = failure
    answer = await provided.provision()
    error = refused(answer, 503, "provider_provisioning_blocked")
    assert error["retryable"] is True
    assert int(answer.headers["retry-after"]) >= 5
    assert (await provided.status())["status"] == "upstream_blocked"
    ok(await provided.dsn.post("/v1/logs/", {"level": "error", "message": "boom"}), 202)
    assert ok(await provided.dsn.get("/v1/analytics/browser-config"))["replay"]["enabled"] is False
    refused(await provided.configure(), 409, "provider_not_provisioned")
    provided.api.fail.clear()
    ok(await provided.provision())
    assert (await provided.status())["status"] == "provisioned"


async def test_the_seconds_of_a_429_are_passed_on(provided: Provided) -> None:
    provided.api.fail[("GET", "/projects/")] = (429, {"detail": "throttled"}, {"retry-after": "77"})
    answer = await provided.provision()
    refused(answer, 503, "provider_provisioning_blocked")
    assert answer.headers["retry-after"] == "77"


@pytest.mark.parametrize("token", ["phx_personal-key", "phs_secret-token", "phc_", "phc_with space"])
async def test_no_token_but_a_public_one_is_taken(provided: Provided, token: str) -> None:
    project = provided.api.add_project(f"service-{provided.project_id}")
    project.settings["api_token"] = token
    refused(await provided.provision(), 503, "provider_provisioning_blocked")


async def test_without_credentials_of_the_operator(provided: Provided, bare: ServerHandle) -> None:
    """Blocked at once, recorded once; a team that another server made is shown all the same."""
    path, headers = f"{provided.path}/provider/provision", {"authorization": f"Bearer {provided.owner.secret}"}
    async with seen.async_client(bare.base_url, timeout=60) as client:
        for _ in range(3):
            refused(await client.post(path, json={}, headers=headers), 503, "provider_provisioning_blocked")
        assert await provided.events() == ["provider.provisioning_blocked.v1"]
        assert (await provided.status())["status"] == "upstream_blocked"
        assert provided.api.requests == []
        made = ok(await provided.provision())
        assert ok(await client.post(path, json={}, headers=headers)) == made


@pytest.mark.parametrize("body", [{"team_id": 1}, [], "x", 1])
async def test_provisioning_takes_an_empty_object(provided: Provided, body: Any) -> None:
    refused(await provided.ask("POST", "/provider/provision", body), 400, "invalid_payload")
    assert provided.api.requests == []


async def test_a_repeat_with_its_key_asks_nobody(provided: Provided) -> None:
    """The stored answer is replayed, also while the provider is away; a blocked one is tried again (G-008)."""
    provided.api.fail[("GET", "/projects/")] = 503
    refused(await provided.provision(**{"idempotency-key": "k1"}), 503, "provider_provisioning_blocked")
    provided.api.fail.clear()
    made = ok(await provided.provision(**{"idempotency-key": "k1"}))
    provided.api.fail[("*", "/")] = 500
    asked = len(provided.api.requests)
    repeat = await provided.provision(**{"idempotency-key": "k1"})
    assert (ok(repeat), repeat.headers["idempotent-replayed"]) == (made, "true")
    assert len(provided.api.requests) == asked


async def test_replay_is_configured_and_confirmed(provided: Provided) -> None:
    """provisioned, replay_configured, ready: once the provider shows the settings (R-PRV-01)."""
    ok(await provided.provision())
    shown = ok(await provided.configure(sample_rate=0.255, mask_all_inputs=False))
    replay = {"enabled": True, "provider": "provider_cloud", "sample_rate": 0.26, "mask_all_inputs": False}
    assert (shown["status"], shown["replay"]) == ("replay_configured", replay)
    settings = provided.team.settings
    assert settings["session_recording_opt_in"] is True
    assert settings["session_recording_sample_rate"] == "0.26"
    assert settings["session_recording_masking_config"] == {"maskAllInputs": False}
    provided.team.add_recording(start="2026-11-20T10:00:00.250Z")
    ready = await provided.status()
    assert (ready["status"], ready["replay"], ready["last_recording_at"]) == ("ready", replay, 1795168800)
    events = await provided.events()
    assert events[2:] == ["provider.replay_started.v1", "provider.replay_configured.v1"], "a GET records nothing"


async def test_ready_is_remembered_and_a_failure_is_no_502(provided: Provided) -> None:
    ok(await provided.provision())
    ok(await provided.configure())
    provided.api.fail[("GET", "/projects/")] = 500
    assert (await provided.status())["status"] == "replay_configured"
    provided.api.fail.clear()
    assert (await provided.status())["status"] == "ready"
    asked = len(provided.api.requests)
    assert (await provided.status())["status"] == "ready"
    assert len(provided.api.requests) == asked, "asked a moment ago"
    await provided.world.wait(31)
    provided.api.fail[("*", "/")] = 500
    assert (await provided.status())["status"] == "ready"
    provided.api.fail.clear()
    provided.team.settings["session_recording_opt_in"] = False
    assert (await provided.status())["status"] == "replay_configured", "somebody changed it at the provider"


async def test_a_status_waits_a_second_for_the_provider(provided: Provided) -> None:
    ok(await provided.provision())
    ok(await provided.configure())
    late, loop = asyncio.Event(), asyncio.get_running_loop()
    provided.api.fail[("*", "/")] = lambda _: asyncio.run_coroutine_threadsafe(_wait(late), loop).result(30)
    began = loop.time()
    assert (await provided.status())["status"] == "replay_configured"
    assert loop.time() - began < 5
    late.set()


@pytest.mark.parametrize(
    ("failure", "status", "code"), [(500, 503, "service_unavailable"), (403, 502, "upstream_error")]
)
async def test_a_failed_configuration_leaves_the_state(
    provided: Provided, failure: int, status: int, code: str
) -> None:
    ok(await provided.provision())
    ok(await provided.configure(sample_rate=0.5))
    provided.api.fail[("PATCH", "/projects/")] = failure
    refused(await provided.configure(enabled=False), status, code)
    shown = await provided.status()
    assert (shown["status"], shown["replay"]["enabled"], shown["replay"]["sample_rate"]) == ("ready", True, 0.5)
    provided.api.fail.clear()
    assert ok(await provided.configure(enabled=False))["replay"]["enabled"] is False


async def test_a_throttled_configuration_is_a_503(provided: Provided) -> None:
    ok(await provided.provision())
    for status in (429, 502):
        provided.api.fail[("PATCH", "/projects/")] = (status, {}, {"retry-after": "9"})
        answer = await provided.configure()
        refused(answer, 503, "service_unavailable")
        assert answer.headers["retry-after"] == "9"


async def test_rivals_configure_one_after_the_other(provided: Provided) -> None:
    """Whatever order they come in, what is recorded last is what the provider has."""
    ok(await provided.provision())
    rates = [0.1, 0.2, 0.3, 0.4]
    answers = await asyncio.gather(*(provided.configure(sample_rate=rate) for rate in rates))
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    shown = await provided.status()
    assert shown["status"] == "ready"
    assert provided.team.settings["session_recording_sample_rate"] == f"{shown['replay']['sample_rate']:.2f}"
    events = (await provided.events())[2:]
    assert events == ["provider.replay_started.v1", "provider.replay_configured.v1"] * 4


@pytest.mark.parametrize(
    "members",
    [{"enabled": "yes"}, {"sample_rate": 2}, {"sample_rate": -0.1}, {"mask_all_inputs": None}, {"colour": 1}],
)
async def test_bad_settings_are_refused_before_everything_else(provided: Provided, members: dict[str, Any]) -> None:
    refused(await provided.configure(**members), 400, "invalid_payload")
    assert await provided.events() == []


async def test_replay_needs_a_team(provided: Provided) -> None:
    refused(await provided.configure(), 409, "provider_not_provisioned")


async def test_the_browser_follows_the_configured_replay(provided: Provided) -> None:
    """Token and address only while replay is on, and the public token alone (R-ING-05)."""
    config = "/v1/analytics/browser-config"
    off = ok(await provided.dsn.get(config))["replay"]
    assert off == {"enabled": False, "provider": "provider_cloud", "reason": off["reason"]}
    ok(await provided.provision())
    assert ok(await provided.dsn.get(config))["replay"] == off, "provisioned is not configured"
    ok(await provided.configure())
    on = ok(await provided.dsn.get(config))
    assert on["replay"] == {
        "enabled": True,
        "provider": "provider_cloud",
        "token": provided.team.settings["api_token"],
        "api_host": provided.api.url,
    }
    ok(await provided.configure(enabled=False))
    again = ok(await provided.dsn.get(config))["replay"]
    assert set(again) == {"enabled", "provider", "reason"}
    assert again["reason"] != off["reason"]


async def test_who_may(provided: Provided) -> None:
    """Any member; nobody else's project is there; a project's own secrets are refused."""
    member = await add_member(provided.world, provided.project_id, f"member-{provided.project_id}")
    owner = provided.owner
    ok(await provided.provision())
    provided.owner = member
    ok(await provided.provision())
    ok(await provided.configure())
    provided.owner = await provided.world.sign_in()
    for answer in (await provided.provision(), await provided.configure()):
        refused(answer, 404, "project_not_found")
    refused(await provided.ask("GET", "/provider/session-replay/status"), 404, "project_not_found")
    for method, path in (("POST", "/provider/provision"), ("GET", "/provider/session-replay/status")):
        answer = await provided.ask(method, path, authorization=f"Bearer {provided.dsn.secret}")
        refused(answer, 403, "principal_not_allowed")
        refused(await provided.ask(method, path, authorization="Bearer nobody"), 401, "unauthenticated")
    assert owner.secret != provided.owner.secret


async def test_a_fenced_project_is_read_and_no_more(provided: Provided) -> None:
    ok(await provided.provision())
    await fence(provided.world, provided.project_id)
    for answer in (await provided.provision(), await provided.configure()):
        refused(answer, 409, "project_deletion_in_progress")
    assert (await provided.status())["status"] == "provisioned"


async def test_the_operators_key_is_nowhere_to_be_seen(provided: Provided, world: World) -> None:
    """In no table, log line or answer; nor is any secret token of the team."""
    ok(await provided.provision())
    provided.api.fail[("PATCH", "/projects/")] = 401
    await provided.configure()
    provided.api.fail.clear()
    ok(await provided.configure())
    secrets = [*provided.api.keys, "phs_never-shown-by-us"]
    for table in ("events", "provider_teams", "provider_sightings", "idempotency"):
        for secret in secrets:
            [[found]] = await world.sql(
                f"select count(*) from {table} t where to_jsonb(t)::text like %s", f"%{secret}%"
            )
            assert found == 0, table
    assert not any(secret in world.server.log() for secret in secrets)


async def end(provided: Provided) -> dict[str, Any]:
    """Delete the project; returns the receipt."""
    async with asyncio.timeout(30):
        while (answer := await provided.ask("DELETE", "", **{"idempotency-key": "bye"})).status_code == 202:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return ok(answer)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_deletion_names_the_team(provided: Provided, lost: bool) -> None:
    """By its id, and by its name while it may have been created; nothing of it is left here (G-165)."""
    if lost:
        provided.api.fail[("POST", "/projects/")] = 502
        refused(await provided.provision(), 503, "provider_provisioning_blocked")
    else:
        ok(await provided.provision())
        ok(await provided.configure())
    expected = f"service-{provided.project_id}" if lost else str(provided.team.settings["id"])
    receipt = await end(provided)
    [item] = [one for one in receipt["external_follow_ups"] if one["kind"] == "inspect_provider_project"]
    assert (item["reference"], bool(item["action"])) == (expected, True)
    for table in ("provider_teams", "provider_sightings"):
        [[left]] = await provided.world.sql(f"select count(*) from {table} where project_id = %s", provided.project_id)
        assert left == 0


async def test_a_deletion_without_a_team_names_none(provided: Provided) -> None:
    provided.api.fail[("GET", "/projects/")] = 503
    refused(await provided.provision(), 503, "provider_provisioning_blocked")
    receipt = await end(provided)
    assert "inspect_provider_project" not in {one["kind"] for one in receipt["external_follow_ups"]}
