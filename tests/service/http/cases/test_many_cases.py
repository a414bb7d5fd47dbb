"""One act on many cases over HTTP: preview, fences of each case, replay, races, webhooks, and who may not."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from projections.cases import CASE_BATCHES
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from service.ids import new_id
from tests.service.http.cases.test_acting import act, read
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_case import log
from tests.support.api import World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server


def path(project_id: str, step: str = "") -> str:
    return f"/v1/projects/{project_id}/case-batches{step}"


async def preview(owner: Any, project_id: str, action: str, **wanted: Any) -> dict[str, Any]:
    return ok(await owner.post(path(project_id, "/preview"), {"action": action, "filter": wanted}))


def chosen(previewed: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: case[name] for name in ("case_id", "case_revision")} for case in previewed["cases"]]


async def send(owner: Any, project_id: str, key: str, action: str, cases: Any, **members: Any) -> dict[str, Any]:
    return ok(await owner.post(path(project_id), {"action": action, "cases": cases, **members}, key=key))


def outcomes(done: dict[str, Any]) -> dict[str, str]:
    return {part["case_id"]: part["code"] or part["outcome"] for part in done["parts"]}


async def several(dsn: Any, number: int) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return [(await log(dsn, f"fault {letters[n % 26]}{letters[n // 26]}"))["case_id"] for n in range(number)]


async def test_what_was_previewed_moves_and_what_moved_meanwhile_is_told(world: World, project):
    owner, project_id, dsn = project
    moved, ignored, resolved = await several(dsn, 3)
    await act(owner, resolved, "resolve", 1)
    found = await preview(owner, project_id, "resolve", status="all")
    assert (found["count"], found["more"], found["moves"], found["unchanged"], found["refused"]) == (3, False, 2, 1, 0)
    assert {case["case_id"]: case["effect"] for case in found["cases"]}[resolved] == "unchanged"
    await act(owner, ignored, "ignore", 1)
    none = {"action": "resolve", "cases": [*chosen(found), {"case_id": new_id("case"), "case_revision": 1}]}
    refused(await owner.post(path(project_id), none, key="none"), 404, "case_not_found")
    done = await send(owner, project_id, "k", "resolve", chosen(found))
    assert outcomes(done) == {moved: "moved", resolved: "unchanged", ignored: "case_revision_stale"}
    assert (done["moved"], done["unchanged"], done["refused"], done["left"], done["complete"]) == (1, 1, 1, [], True)
    [stale] = [part for part in done["parts"] if part["case_id"] == ignored]
    assert stale["case_revision"] == 2
    assert stale["message"]
    assert [(await read(owner, case_id))["status"] for case_id in (moved, ignored)] == ["resolved", "ignored"]
    assert await send(owner, project_id, "k", "resolve", chosen(found)) == done  # as it was answered
    other = {"action": "ignore", "cases": chosen(found)}
    refused(await owner.post(path(project_id), other, key="k"), 422, "idempotency_key_reused")


async def test_each_case_has_a_command_of_its_own_under_one_correlation_id(world: World, project):
    owner, project_id, dsn = project
    await several(dsn, 60)
    found = await preview(owner, project_id, "ignore")
    done = await send(owner, project_id, "k", "ignore", chosen(found))
    assert (done["moved"], len(done["parts"])) == (60, 60)
    rows = await world.sql(
        "select topic, count(*), count(distinct command_id), count(distinct correlation_id), min(correlation_id) "
        "from events where project_id = %s and topic in ('case.ignored_by_member.v1', 'case_batch.ended.v1') "
        "group by topic order by topic",
        project_id,
    )
    assert rows == [
        ("case.ignored_by_member.v1", 60, 60, 1, done["batch_id"]),
        ("case_batch.ended.v1", 1, 1, 1, done["batch_id"]),
    ]
    live = await world.sql("select to_jsonb(b)::text from case_batches b where project_id = %s", project_id)
    with psycopg.connect(world.server.database_url, autocommit=True) as connection:
        assert list(check_projection(connection, CASE_BATCHES)) == []
    rebuild(world.server.database_url, CASE_BATCHES)
    rows = await world.sql("select to_jsonb(b)::text from case_batches b where project_id = %s", project_id)
    assert rows == live
    assert len(live) == 1


async def test_cases_are_assigned_and_suppressed(world: World, project):
    owner, project_id, dsn = project
    ids = await several(dsn, 3)
    found = chosen(await preview(owner, project_id, "assign"))
    done = await send(owner, project_id, "a", "assign", found, user_id=owner.user_id)
    assert done["moved"] == 3
    assert (await send(owner, project_id, "b", "assign", found, user_id=owner.user_id))["unchanged"] == 3
    assert {(await read(owner, case_id))["assignee"] for case_id in ids} == {owner.user_id}
    stranger = await world.sign_in()
    body = {"action": "assign", "cases": found, "user_id": stranger.user_id}
    refused(await owner.post(path(project_id), body, key="c"), 400, "invalid_payload")

    done = await send(owner, project_id, "s", "suppress", found)
    assert done["moved"] == 3
    rules = ok(await owner.get(f"/v1/projects/{project_id}/suppressions"))["suppressions"]
    assert len(rules) == 3
    for case_id in ids:
        case = await read(owner, case_id)
        assert (case["status"], case["suppression_id"] in {rule["id"] for rule in rules}) == ("ignored", True)
    again = [{**one, "case_revision": 2} for one in found]
    assert (await send(owner, project_id, "t", "suppress", again))["unchanged"] == 3
    assert len(ok(await owner.get(f"/v1/projects/{project_id}/suppressions"))["suppressions"]) == 3


async def test_of_two_batches_at_once_each_case_moves_once(world: World, project):
    owner, project_id, dsn = project
    await several(dsn, 20)
    found = chosen(await preview(owner, project_id, "resolve"))
    actions = ("resolve", "ignore")

    async def race(turn: int) -> dict[str, Any]:
        return await send(owner, project_id, f"race-{turn}", actions[turn % 2], found)

    done = await at_once(4, race)
    assert sum(one["moved"] for one in done) == 20
    assert {part["code"] for one in done for part in one["parts"]} <= {None, "case_revision_stale"}
    [[events]] = await world.sql(
        "select count(*) from events where project_id = %s and topic like 'case.%%_by_member.v1'", project_id
    )
    assert events == 20


async def test_a_repeat_goes_on_with_what_was_left(world: World, project):
    """As after a request that ended early: its commands have records of their own."""
    owner, project_id, dsn = project
    await several(dsn, 4)
    found = chosen(await preview(owner, project_id, "ignore"))
    done = await send(owner, project_id, "k", "ignore", found)
    await world.sql(
        "delete from idempotency where project_id = %s and key like 'k:%%' and key <> 'k:end' and key > %s",
        project_id, f"k:{sorted(one['case_id'] for one in found)[1]}",
    )  # fmt: skip
    again = await send(owner, project_id, "k", "ignore", found)
    assert (again["batch_id"], again["moved"], again["refused"]) == (done["batch_id"], 2, 2)
    [[ended]] = await world.sql(
        "select count(*) from events where project_id = %s and topic = 'case_batch.ended.v1'", project_id
    )
    assert ended == 1


async def test_a_view_is_previewed_by_its_id(world: World, project):
    owner, project_id, dsn = project
    await log(dsn, "card")
    await log(dsn, "cart")
    body = {"name": "Cards", "filter": {"text": "card"}}
    view_id = ok(await owner.post(f"/v1/projects/{project_id}/case-views", body), 201)["view_id"]
    found = ok(await owner.post(path(project_id, "/preview"), {"action": "resolve", "view_id": view_id}))
    assert [case["title"] for case in found["cases"]] == ["card"]
    unknown = {"action": "resolve", "view_id": new_id("view")}
    refused(await owner.post(path(project_id, "/preview"), unknown), 404, "not_found")


async def test_a_batch_is_of_members_of_its_project(world: World, project):
    owner, project_id, dsn = project
    [case_id] = await several(dsn, 1)
    body = {"action": "ignore", "cases": [{"case_id": case_id, "case_revision": 1}]}
    stranger = await world.sign_in()
    foreign = (await stranger.create_project())["id"]
    for who, status, code in (
        (stranger, 404, "project_not_found"),
        (world, 401, "unauthenticated"),
        (dsn, 403, "principal_not_allowed"),
    ):
        refused(await who.post(path(project_id), body, key="k"), status, code)
        refused(await who.post(path(project_id, "/preview"), {"action": "ignore", "filter": {}}), status, code)
    refused(await stranger.post(path(foreign), body, key="k"), 404, "case_not_found")
    assert (await read(owner, case_id))["status"] == "open"
    refused(await owner.post(path(project_id), body), 400, "idempotency_key_required")


CASE = {"case_id": "case_00000000", "case_revision": 1}


@pytest.mark.parametrize(
    "body",
    [
        {"action": "reopen", "cases": [CASE]},
        {"action": "ignore", "cases": []},
        {"action": "ignore", "cases": [CASE, CASE]},
        {"action": "ignore", "cases": [{"case_id": "case_00000000"}]},
        {"action": "ignore", "cases": [{**CASE, "case_revision": 0}]},
        {"action": "ignore", "cases": [{**CASE, "title": "x"}]},
        {"action": "ignore", "cases": [CASE], "user_id": None},
        {"action": "assign", "cases": [CASE]},
        {"action": "ignore", "cases": [{**CASE, "case_id": f"case_{n:08}"} for n in range(1001)]},
        {"cases": [CASE]},
    ],
)
async def test_a_body_is_strict(world: World, project, body: Any):
    owner, project_id, _ = project
    refused(await owner.post(path(project_id), body, key="k"), 400, "invalid_payload")
    for bad in ({"action": "ignore"}, {"action": "ignore", "filter": {}, "view_id": "view_00000000"}):
        refused(await owner.post(path(project_id, "/preview"), bad), 400, "invalid_payload")
