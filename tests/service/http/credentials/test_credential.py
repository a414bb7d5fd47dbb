"""Project credentials over HTTP: made once, used, expired, revoked (R-CRED, G-040, G-041)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from service.accounts import membership as admin
from service.ids import new_id
from statemachines.accounts.membership import Role
from statemachines.credentials.credential import SCOPES
from tests.support import seen
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

CI: dict[str, Any] = {"kind": "ci_deploy", "name": "release"}
RUNNER: dict[str, Any] = {"kind": "automation_runner", "name": "nightly", "automation_id": "error-to-draft-pr"}
METADATA = {
    "id",
    "project_id",
    "name",
    "prefix",
    "created_by",
    "kind",
    "scopes",
    "automation_id",
    "created_at",
    "expires_at",
    "last_used_at",
    "revoked_at",
    "revoke_reason",
    "active",
    "env_var",
    "runner_id",
}


def closed(error: dict[str, Any]) -> dict[str, Any]:
    """An error in the closed variant: no other members (R-ERR-02, G-018)."""
    assert set(error) <= {"code", "message", "next_action", "details"}
    return error


async def deploy(world: World, secret: str) -> Any:
    return await world.having(secret).post("/v1/deploys/", {"version": "1.0.0"})


async def listed(person: Any, project_id: str) -> dict[str, dict[str, Any]]:
    items = ok(await person.get(f"/v1/projects/{project_id}/credentials"))["credentials"]
    assert all(set(item) == METADATA for item in items)
    return {item["id"]: item for item in items}


async def test_a_credential_of_each_kind(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    path = f"/v1/projects/{project_id}/credentials"
    ci = ok(await owner.post(path, CI, key="ci"))
    runner = ok(await owner.post(path, {**RUNNER, "expires_in_seconds": 300}, key="runner"))
    assert set(ci) == set(runner) == METADATA | {"credential", "idempotent_replay", "next_action"}
    assert ci["credential"].startswith(ci["prefix"])
    assert len(ci["prefix"]) == 16
    assert ci["scopes"] == list(SCOPES["ci_deploy"])
    assert runner["scopes"] == list(SCOPES["automation_runner"])
    assert ci["credential"].startswith("service_ci_")
    assert runner["credential"].startswith("service_runner_")
    assert (ci["env_var"], runner["env_var"]) == ("SERVICE_CI_API_KEY", "SERVICE_RUNNER_API_KEY")
    assert (ci["automation_id"], runner["automation_id"]) == (None, "error-to-draft-pr")
    assert ci["runner_id"] is None
    assert runner["runner_id"].startswith("runner_")
    assert ci["expires_at"] - ci["created_at"] == 7776000
    assert runner["expires_at"] - runner["created_at"] == 300
    assert (ci["active"], ci["idempotent_replay"], ci["revoked_at"], ci["last_used_at"]) == (True, False, None, None)
    assert ci["created_by"] == owner.user_id
    shown = await listed(owner, project_id)
    assert shown == {item["id"]: {name: item[name] for name in METADATA} for item in (ci, runner)}


async def test_thirty_two_twins_make_one_credential_and_show_one_secret(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    path = f"/v1/projects/{project_id}/credentials"
    for turn in range(3):
        answers = await at_once(32, lambda _, t=turn: owner.post(path, RUNNER, key=f"twin-{t}"))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 31}
        [made] = [answer.json() for answer in answers if answer.status_code == 200]
        for answer in answers:
            if answer.status_code == 409 and answer.json()["error"]["code"] != "idempotency_in_progress":
                told = closed(refused(answer, 409, "credential_already_created"))["details"]["credential"]
                assert told == {**{name: made[name] for name in METADATA}, "idempotent_replay": True}
            assert made["credential"] not in answer.text or answer.status_code == 200
        assert len(await listed(owner, project_id)) == turn + 1


async def test_a_replay_tells_how_the_credential_stands_now(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    path = f"/v1/projects/{project_id}/credentials"
    made = ok(await owner.post(path, CI, key="k"))
    reordered = {"name": CI["name"], "kind": CI["kind"]}
    error = closed(refused(await owner.post(path, reordered, key="k"), 409, "credential_already_created"))
    assert (error["details"]["credential"]["id"], error["details"]["credential"]["active"]) == (made["id"], True)
    closed(refused(await owner.post(path, {**CI, "name": "other"}, key="k"), 422, "idempotency_key_reused"))
    ok(await owner.post(f"/v1/project-credentials/{made['id']}/revoke", {"reason": "leaked"}))
    error = refused(await owner.post(path, CI, key="k"), 409, "credential_already_created")
    assert error["details"]["credential"]["revoke_reason"] == "leaked"
    assert error["details"]["credential"]["active"] is False
    # The record of the key ages out; what it made does not (G-008).
    await world.sql("delete from idempotency where key = 'k'")
    error = refused(await owner.post(path, CI, key="k"), 409, "credential_already_created")
    assert error["details"]["credential"]["id"] == made["id"]
    assert error["details"]["credential"]["idempotent_replay"] is True
    await world.sql("delete from idempotency where key = 'k'")
    refused(await owner.post(path, {**CI, "name": "other"}, key="k"), 422, "idempotency_key_reused")
    assert len(await listed(owner, project_id)) == 1


@pytest.mark.parametrize(
    ("body", "field", "name"),
    [
        ({"name": "x"}, "missing", "kind"),
        ({"kind": "ci_deploy"}, "missing", "name"),
        ({**CI, "kind": "owner"}, "invalid", "kind"),
        ({**CI, "name": ""}, "invalid", "name"),
        ({**CI, "name": "x" * 201}, "invalid", "name"),
        ({**CI, "automation_id": "a"}, "invalid", "automation_id"),
        ({**CI, "automation_id": None}, "invalid", "automation_id"),
        ({"kind": "automation_runner", "name": "x"}, "missing", "automation_id"),
        ({**RUNNER, "automation_id": "Upper"}, "invalid", "automation_id"),
        ({**RUNNER, "automation_id": "1a"}, "invalid", "automation_id"),
        ({**RUNNER, "automation_id": "a\n"}, "invalid", "automation_id"),
        ({**RUNNER, "automation_id": "a" * 101}, "invalid", "automation_id"),
        ({**CI, "expires_in_seconds": 299}, "invalid", "expires_in_seconds"),
        ({**CI, "expires_in_seconds": 31536001}, "invalid", "expires_in_seconds"),
        ({**CI, "expires_in_seconds": 300.5}, "invalid", "expires_in_seconds"),
        ({**CI, "scopes": ["runs:write"]}, "unknown", "scopes"),
    ],
)
async def test_bad_bodies_are_named(world: World, body: dict[str, Any], field: str, name: str):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    answer = await owner.post(f"/v1/projects/{project_id}/credentials", body, key="k")
    details = closed(refused(answer, 400, "invalid_payload"))["details"]
    named = [item["field"] if field == "invalid" else item for item in details[f"{field}_fields"]]
    assert named == [name]
    assert details["request_body_schema"]["required"] == ["kind", "name"]
    assert await listed(owner, project_id) == {}


async def test_the_bounds_of_a_credential_are_taken(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    for number, more in enumerate(
        (
            {"expires_in_seconds": 300},
            {"expires_in_seconds": 31536000},
            {"name": "x" * 200},
            {"automation_id": "a"},
            {"automation_id": "a" + "_-0z" * 24 + "abc"},
        )
    ):
        body = {**(RUNNER if "automation_id" in more else CI), **more}
        ok(await owner.post(f"/v1/projects/{project_id}/credentials", body, key=str(number)))


async def test_a_key_and_a_small_body_are_required(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    path = f"/v1/projects/{project_id}/credentials"
    closed(refused(await owner.post(path, CI), 400, "idempotency_key_required"))
    closed(refused(await owner.post(path, {**CI, "name": "x" * 16384}, key="k"), 413, "payload_too_large"))
    for key in ("x" * 256, "a b"):
        closed(refused(await owner.post(path, CI, key=key), 400, "invalid_payload"))


async def test_revoking_is_final_and_the_first_reason_counts(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    made = await owner.create_credential(project_id, "k")
    path = f"/v1/project-credentials/{made['id']}/revoke"
    assert (await deploy(world, made["credential"])).status_code == 202
    for body in ({"reason": ""}, {"reason": "x" * 501}, {"reason": None}, {"more": 1}):
        closed(refused(await owner.post(path, body), 400, "invalid_payload"))
    ended = ok(await owner.post(path, {"reason": "leaked"}))
    assert set(ended) == METADATA | {"next_action"}
    assert (ended["active"], ended["revoke_reason"]) == (False, "leaked")
    refused(await deploy(world, made["credential"]), 401, "unauthenticated")
    await world.wait(5)
    again = ok(await owner.post(path, {"reason": "another"}))
    assert (again["revoked_at"], again["revoke_reason"]) == (ended["revoked_at"], "leaked")
    silent = await owner.create_credential(project_id, "k2")
    assert ok(await owner.post(f"/v1/project-credentials/{silent['id']}/revoke"))["revoke_reason"] is None
    answers = await at_once(8, lambda n: owner.post(path, {"reason": f"r{n}"}))
    assert {ok(answer)["revoke_reason"] for answer in answers} == {"leaked"}


async def test_expiry_ends_a_credential_by_the_clock(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    made = await owner.create_credential(project_id, "k", expires_in_seconds=300)
    await world.wait(290)
    assert (await deploy(world, made["credential"])).status_code == 202
    await world.wait(10)
    refused(await deploy(world, made["credential"]), 401, "unauthenticated")
    item = (await listed(owner, project_id))[made["id"]]
    assert (item["active"], item["revoked_at"]) == (False, None)
    ended = ok(await owner.post(f"/v1/project-credentials/{made['id']}/revoke"))
    assert ended["revoked_at"] >= made["expires_at"]
    refused(await deploy(world, made["credential"]), 401, "unauthenticated")


async def test_use_shows_in_the_list(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    made = await owner.create_credential(project_id, "k")
    assert (await listed(owner, project_id))[made["id"]]["last_used_at"] is None
    assert (await deploy(world, made["credential"])).status_code == 202
    used = (await listed(owner, project_id))[made["id"]]["last_used_at"]
    assert made["created_at"] <= used <= made["created_at"] + 60


async def test_nothing_done_with_a_credential_is_committed_after_its_end(world: World):
    """Six pipelines record deploys in a tight loop; none of theirs commits once the revocation was answered."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    for turn in range(4):
        made = await owner.create_credential(project_id, f"k{turn}")
        accepted = 0

        async def report(secret=made["credential"]) -> None:
            nonlocal accepted
            while (answer := await deploy(world, secret)).status_code == 202:
                accepted += 1
            refused(answer, 401, "unauthenticated")

        reporters = [asyncio.create_task(report()) for _ in range(6)]
        await asyncio.sleep(0.1)
        ok(await owner.post(f"/v1/project-credentials/{made['id']}/revoke"))
        query = "select count(*) from events where project_id = %s and topic like 'deploy.%%' and actor_id = %s"
        [[before]] = await world.sql(query, project_id, made["id"])
        await asyncio.gather(*reporters)
        [[after]] = await world.sql(query, project_id, made["id"])
        assert after == before
        assert after == accepted > 0


async def test_who_may_administer_credentials(world: World):
    owner, member, stranger = await world.sign_in(), await world.sign_in(), await world.sign_in()
    project = await owner.create_project()
    await world.operate(lambda store: admin.set_member(store, project["id"], member.user_id, Role.MEMBER))
    made = await owner.create_credential(project["id"], "k")
    runner = await owner.create_credential(project["id"], "r", **RUNNER)
    routes = [
        ("POST", "/v1/projects/{}/credentials", CI, "project_not_found"),
        ("GET", "/v1/projects/{}/credentials", None, "project_not_found"),
        ("POST", "/v1/project-credentials/{}/revoke", {}, "credential_not_found"),
    ]
    for method, template, body, missing in routes:
        own, absent = (
            (project["id"], new_id("proj")) if missing == "project_not_found" else (made["id"], new_id("cred"))
        )

        async def call(caller, name, method=method, template=template, body=body) -> Any:
            key = "x" if template.endswith("credentials") and method == "POST" else None
            return await caller.call(method, template.format(name), body, key=key)

        closed(refused(await call(member, own), 403, "owner_required"))
        foreign, none = await call(stranger, own), await call(stranger, absent)
        closed(refused(foreign, 404, missing))
        assert without_request_id(foreign) == without_request_id(none)
        closed(refused(await call(world, own), 401, "unauthenticated"))
        for secret in (
            project["dsn"],
            made["credential"],
            runner["credential"],
            world.server.internal_token,
            world.server.test_token,
        ):
            closed(refused(await call(world.having(secret), own), 403, "principal_not_allowed"))
    assert len(await listed(owner, project["id"])) == 2
    assert (await deploy(world, made["credential"])).status_code == 202


async def test_a_credential_opens_its_own_project_only(world: World):
    owner = await world.sign_in()
    mine, other = await owner.create_project(), await owner.create_project()
    runner = await owner.create_credential(mine["id"], "r", **RUNNER)
    ci = await owner.create_credential(mine["id"], "c")
    refused(await deploy(world, runner["credential"]), 403, "principal_not_allowed")
    ok(await deploy(world, ci["credential"]), 202)
    rows = await world.sql("select project_id from events where actor_id = %s", ci["id"])
    assert rows == [(mine["id"],)]
    assert await listed(owner, other["id"]) == {}


async def test_an_end_in_one_process_holds_in_the_others(server_factory: Any):
    """Two processes serve; whichever answers next, what has ended is nobody's, to reads and to commands."""
    server = server_factory(env={"SERVICE_WORKERS": "2"})
    async with seen.async_client(server.base_url, timeout=30) as client:
        world = World(client, server)
        for turn in range(5):
            owner, helper = await world.sign_in(f"owner-{turn}"), await world.sign_in(f"owner-{turn}")
            project = await owner.create_project()
            ci = await owner.create_credential(project["id"], "k")
            secrets = (ci["credential"], project["dsn"], helper.secret)
            work = {secret: ("/v1/deploys/", {"version": "1"}) for secret in secrets[:2]}
            work[helper.secret] = ("/v1/projects", {"name": "x"})
            for secret in secrets:  # every process has seen every secret
                for answer in await at_once(8, lambda _, s=secret, w=work[secret]: world.having(s).post(*w)):
                    assert answer.status_code in {201, 202}
            keys = ok(await owner.get("/v1/keys"))["keys"]
            [helpers] = [key["id"] for key in keys if key["key_prefix"] == helper.secret[:16]]
            ok(await owner.post(f"/v1/project-credentials/{ci['id']}/revoke"))
            ok(await owner.post(f"/v1/projects/{project['id']}/dsn/rotate"))
            ok(await owner.post(f"/v1/keys/{helpers}/revoke"))
            for secret in secrets:
                for answer in await at_once(8, lambda _, s=secret, w=work[secret]: world.having(s).post(*w)):
                    refused(answer, 401, "unauthenticated")
                for answer in await at_once(8, lambda _, s=secret: world.having(s).get("/v1/projects")):
                    refused(answer, 401, "unauthenticated")
