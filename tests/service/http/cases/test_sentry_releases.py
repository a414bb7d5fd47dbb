"""`sentry-cli releases` and `deploys`, over HTTP, in the order in which the program asks (G-142)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

RELEASES = "/api/0/organizations/any/releases/"


async def credential(owner: Any, project_id: str) -> Any:
    made = await owner.create_credential(project_id, f"ci-{project_id}")
    return owner.having(made["credential"])


async def deploys(owner: Any, project_id: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = ok(await owner.get(f"/v1/projects/{project_id}/deploys"))["deploys"]
    return listed


@pytest.mark.parametrize("version", ["1.4.0", "shop@2.0.0+77", "f" * 40, "Ünïcode 1"])
@pytest.mark.parametrize("who", ["key", "ci"])
async def test_every_step_of_a_release_in_ci_succeeds(world: World, version: str, who: str) -> None:
    """`new`, `set-commits --auto`, `finalize`, then `deploys new`, which is a deploy like any other."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    caller = owner if who == "key" else await credential(owner, project_id)
    place = RELEASES + version.replace("@", "%40").replace("+", "%2B").replace(" ", "%20").replace(
        "Ü", "%C3%9C"
    ).replace("ï", "%C3%AF")
    new = ok(await caller.post(RELEASES, {"version": version, "projects": [project_id], "url": None}), 201)
    assert new["version"] == version
    assert datetime.fromisoformat(new["dateCreated"]).tzinfo is not None
    assert ok(await caller.get("/api/0/organizations/any/repos/")) == []
    assert ok(await caller.get(f"{place}/previous-with-commits/")) == {}
    commit = {"id": "a" * 40, "message": "m", "patch_set": [{"path": "a.py", "type": "M"}]}
    set_commits = {"version": version, "projects": [project_id], "commits": [commit] * 20}
    assert ok(await caller.call("PUT", f"{place}/", set_commits))["version"] == version
    finished = {"projects": [project_id], "dateReleased": "2026-11-28T00:00:00Z"}
    assert ok(await caller.call("PUT", f"{place}/", finished))["dateReleased"] == "2026-11-28T00:00:00Z"
    assert await deploys(owner, project_id) == []
    asked = {"environment": "production", "name": "the third", "projects": [project_id], "dateFinished": None}
    told = ok(await caller.post(f"{place}/deploys/", asked), 201)
    assert (told["environment"], told["name"]) == ("production", "the third")
    [found] = await deploys(owner, project_id)
    shown = {name: found[name] for name in ("version", "environment", "message", "sha", "trusted", "source")}
    expected = {"version": version, "environment": "production", "message": "the third", "sha": None}
    assert shown == {**expected, "trusted": who == "ci", "source": "ci" if who == "ci" else "dsn"}


async def test_a_deploy_counts_for_whoever_pays_for_the_project(world: World) -> None:
    """Also when another member sends it; with a CI credential it needs to name no project."""
    owner, other = await world.sign_in(), await world.sign_in()
    project_id = (await owner.create_project())["id"]
    ci = await credential(owner, project_id)
    ok(await ci.post(f"{RELEASES}1/deploys/", {"environment": "production"}), 201)
    ok(await owner.post(f"{RELEASES}1/deploys/", {"environment": "production", "projects": [project_id]}), 201)
    rows = await world.sql(
        "select count(distinct account_id), count(*) from usage_deploys where project_id = %s", project_id
    )
    assert rows == [(1, 2)]
    for body in (
        {"environment": "e", "projects": [project_id]},
        {"environment": "e", "projects": ["proj_" + "0" * 26]},
    ):
        refused(await other.post(f"{RELEASES}1/deploys/", body), 404, "project_not_found")
    second = (await owner.create_project())["id"]
    refused(
        await ci.post(f"{RELEASES}1/deploys/", {"environment": "e", "projects": [second]}), 404, "project_not_found"
    )
    both = {"environment": "staging", "projects": [project_id, second]}
    ok(await owner.post(f"{RELEASES}2/deploys/", both), 201)
    assert len(await deploys(owner, project_id)) == 3
    assert [one["environment"] for one in await deploys(owner, second)] == ["staging"]
    assert await world.sql("select count(*) from usage_deploys where project_id = %s", second) == [(1,)]


async def test_what_may_not_record_is_refused_and_records_nothing(world: World) -> None:
    """A DSN, nobody, a body that is none, and several projects with one of another person."""
    owner, other = await world.sign_in(), await world.sign_in()
    made, foreign = await owner.create_project(), (await other.create_project())["id"]
    project_id = made["id"]
    body = {"environment": "production", "projects": [project_id]}
    for secret in (made["dsn"], made["public_dsn"]):
        refused(await world.having(secret).post(f"{RELEASES}1/deploys/", body), 403, "principal_not_allowed")
        refused(await world.having(secret).post(RELEASES, {"version": "1"}), 403, "principal_not_allowed")
    refused(await world.post(f"{RELEASES}1/deploys/", body), 401, "unauthenticated")
    for bad in (
        {},
        {"environment": ""},
        {"environment": "e"},
        {**body, "projects": [project_id] * 2},
        {**body, "name": 1},
    ):
        refused(await owner.post(f"{RELEASES}1/deploys/", bad), 400, "invalid_payload")
    refused(await owner.post(f"{RELEASES}{'v' * 201}/deploys/", body), 400, "invalid_payload")
    refused(
        await owner.post(f"{RELEASES}1/deploys/", {**body, "projects": [project_id, foreign]}), 404, "project_not_found"
    )
    refused(await owner.post(RELEASES, {"version": "", "projects": [project_id]}), 400, "invalid_payload")
    refused(await owner.post(RELEASES, {"version": "1", "projects": [foreign]}), 404, "project_not_found")
    refused(await owner.call("PUT", f"{RELEASES}1/", {"projects": ["../x"]}), 404, "project_not_found")
    assert await deploys(owner, project_id) == []
    assert await deploys(other, foreign) == []


async def test_a_secret_in_the_name_of_a_deploy_is_hidden(world: World) -> None:
    """As in every deploy, in the record and in the answer."""
    owner = await world.sign_in()
    made = await owner.create_project()
    body = {"environment": "production", "name": f"by {made['dsn']}", "projects": [made["id"]]}
    answer = await owner.post(f"{RELEASES}1/deploys/", body)
    [found] = await deploys(owner, made["id"])
    assert "service_dsn_" not in answer.text
    assert "service_dsn_" not in found["message"]
