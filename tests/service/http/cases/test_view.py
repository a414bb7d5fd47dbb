"""Filters by tag, path and person, and saved views of cases over HTTP: counts, link, fence and who may not."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from projections.cases import CASE_VIEWS
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_case import listed as listed_cases
from tests.service.http.cases.test_case import log, titles
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

PAY = {"exception": {"type": "PayError", "frames": [{"file": "app/pay.py", "function": "charge", "in_app": True}]}}


def views(project_id: str, view_id: str | None = None) -> str:
    return f"/v1/projects/{project_id}/case-views" + (f"/{view_id}" if view_id else "")


async def save(owner: Any, project_id: str, name: str, **wanted: Any) -> dict[str, Any]:
    return ok(await owner.post(views(project_id), {"name": name, "filter": wanted}), 201)


async def test_cases_are_found_by_tag_path_and_person(world: World, project):
    owner, project_id, dsn = project
    await log(dsn, "card", extra=PAY, tags={"team": "pay", "n": "1"}, user={"id": "u-1"})
    await log(dsn, "cart", tags={"team": "shop"}, user={"id": "u-2"})
    await log(dsn, "plain")
    await log(dsn, "card", extra=PAY, tags={"team": "later"}, user={"id": "u-3"})  # of the same case
    for asked, expected in (
        ({"tag": "team=pay"}, {"PayError: card"}),
        ({"tag": "team=later"}, set()),  # the tags are those of the first error
        ({"path": "app/pay"}, {"PayError: card"}),
        ({"path": "pay"}, set()),
        ({"person": "u-3"}, {"PayError: card"}),
        ({"person": "u-2"}, {"cart"}),
        ({"person": "u-2", "tag": "team=pay"}, set()),
        ({"person": "nobody"}, set()),
        ({"tag": "team=pay", "text": "card", "path": "app/", "person": "u-1"}, {"PayError: card"}),
    ):
        for order in ("newest", "last_seen", "errors", "people"):
            assert set(titles(await listed_cases(owner, project_id, order=order, **asked))) == expected, (asked, order)
    for bad in ({"tag": "team"}, {"tag": "=x"}, {"path": ""}, {"person": "x" * 201}):
        refused(await owner.get(f"/v1/projects/{project_id}/cases", params=bad), 400, "invalid_payload")


async def test_tags_of_somebody_who_is_erased_are_found_no_more(world: World, project):
    owner, project_id, dsn = project
    await log(dsn, "card", tags={"team": "pay"}, user={"id": "u-1"})
    assert titles(await listed_cases(owner, project_id, tag="team=pay")) == ["card"]
    give_up = time.monotonic() + 30
    while (await owner.call("DELETE", f"/v1/projects/{project_id}/users/u-1", key="k")).status_code != 200:
        assert time.monotonic() < give_up
        await asyncio.sleep(0.1)
    assert titles(await listed_cases(owner, project_id)) == ["card"]
    assert titles(await listed_cases(owner, project_id, tag="team=pay")) == []


async def test_a_view_from_its_saving_to_its_end(world: World, project):
    owner, project_id, dsn = project
    await log(dsn, "card", extra=PAY, tags={"team": "pay"})
    await log(dsn, "card", extra=PAY)
    await log(dsn, "cart")
    made = await save(owner, project_id, "Payments", tag="team=pay", seen_within=3600)
    assert made["link"].endswith(f"/console/projects/{project_id}/cases?view={made['view_id']}")
    read = await owner.get(views(project_id, made["view_id"]))
    shown = ok(read)
    assert read.headers["etag"] == shown["etag"] == made["etag"]
    assert shown["counts"] == {"cases": 1, "more": False, "errors": 2}
    assert (shown["filter"]["tag"], shown["filter"]["status"], shown["filter"]["text"]) == ("team=pay", "open", None)
    assert (shown["created_by"], shown["changed_by"]) == (owner.user_id, None)
    other = await save(owner, project_id, "all", status="all", order="errors")
    answer = ok(await owner.get(views(project_id)))
    assert [view["view_id"] for view in answer["views"]] == [other["view_id"], made["view_id"]]
    assert [view["counts"]["cases"] for view in answer["views"]] == [2, 1]

    body = {"name": "Cards", "filter": {"text": "card"}}
    path = views(project_id, made["view_id"])
    changed = await owner.call("PUT", path, body, headers={"if-match": made["etag"]}, key="k")
    assert ok(changed)["etag"] == changed.headers["etag"] != made["etag"]
    assert ok(await owner.call("PUT", path, body, headers={"if-match": made["etag"]}, key="k")) == ok(changed)
    stale = refused(await owner.call("PUT", path, body, headers={"if-match": made["etag"]}), 412, "precondition_failed")
    assert stale["details"]["current_etag"] == ok(changed)["etag"]
    refused(await owner.call("PUT", path, body), 428, "if_match_required")
    refused(await owner.call("DELETE", path, headers={"if-match": made["etag"]}), 412, "precondition_failed")
    gone = ok(await owner.call("DELETE", path, key="d"))
    assert ok(await owner.call("DELETE", path, key="d")) == gone
    for method in ("GET", "DELETE"):
        refused(await owner.call(method, path), 404, "not_found")


async def test_of_changes_at_once_one_wins(world: World, project):
    owner, project_id, _ = project
    made = await save(owner, project_id, "Cards", text="card")

    async def change(turn: int) -> int:
        body = {"name": f"Name {turn}", "filter": {}}
        path = views(project_id, made["view_id"])
        answer = await owner.call("PUT", path, body, headers={"if-match": made["etag"]})
        return answer.status_code

    assert sorted(await at_once(8, change)) == [200, *[412] * 7]


async def test_a_view_is_of_its_project_and_of_members(world: World, project):
    owner, project_id, dsn = project
    made = await save(owner, project_id, "Cards", text="card")
    stranger = await world.sign_in()
    foreign = (await stranger.create_project())["id"]
    body = {"name": "x", "filter": {}}
    for who, status, code in ((stranger, 404, "project_not_found"), (world, 401, "unauthenticated")):
        refused(await who.get(views(project_id)), status, code)
        refused(await who.post(views(project_id), body), status, code)
        refused(await who.call("PUT", views(project_id, made["view_id"]), body), status, code)
        refused(await who.call("DELETE", views(project_id, made["view_id"])), status, code)
    refused(await dsn.post(views(project_id), body), 403, "principal_not_allowed")
    never = without_request_id(await stranger.get(views(foreign, "view_none")))
    assert without_request_id(await stranger.get(views(foreign, made["view_id"]))) == never


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "", "filter": {}},
        {"name": "\u202e", "filter": {}},
        {"name": "x" * 101, "filter": {}},
        {"name": "x", "filter": {"tags": "a=b"}},
        {"name": "x", "filter": {"tag": "team"}},
        {"name": "x", "filter": {"text": "..."}},
        {"name": "x", "filter": {"seen_within": 0}},
        {"name": "x", "filter": {"status": "merged"}},
        {"name": "x", "filter": {"person": "a\x00b"}},
        {"name": "x", "filter": []},
    ],
)
async def test_a_body_is_strict(world: World, project, body: Any):
    owner, project_id, _ = project
    refused(await owner.post(views(project_id), body), 400, "invalid_payload")
    assert ok(await owner.get(views(project_id)))["views"] == []


async def test_a_project_has_so_many_views(world: World, project):
    owner, project_id, _ = project
    for number in range(50):
        await save(owner, project_id, f"View {number}")
    error = refused(await owner.post(views(project_id), {"name": "x", "filter": {}}), 400, "invalid_payload")
    assert "50" in error["message"]


async def test_a_rebuild_makes_the_row_again(world: World, project):
    owner, project_id, _ = project
    made = await save(owner, project_id, "Cards", text="card")
    await save(owner, project_id, "Rest", status="all")
    ok(await owner.call("DELETE", views(project_id, made["view_id"])))
    rows = "select to_jsonb(v)::text from case_views v where project_id = %s"
    live = await world.sql(rows, project_id)
    with psycopg.connect(world.server.database_url, autocommit=True) as connection:
        assert list(check_projection(connection, CASE_VIEWS)) == []
    rebuild(world.server.database_url, CASE_VIEWS)
    assert await world.sql(rows, project_id) == live
