"""Who met errors, over HTTP: of a case, of a project, and one person (R-CASE-05 to R-CASE-07, G-051, G-055)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from service.cases import people
from service.ids import new_id
from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_case import log
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

DAY = 86400


def named(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(user["user_id"], user["error_count"], user["distinct_fingerprints"]) for user in answer["users"]]


async def test_the_users_of_a_case_and_of_those_merged_into_it(world: World, project):
    owner, _, dsn = project
    a = await log(dsn, "alpha", user={"id": "u1", "email": "u1@example.com"})
    await log(dsn, "alpha", user={"id": "u1"})
    b = await log(dsn, "beta", user={"id": "u2"})
    await log(dsn, "beta", user={"id": "u0"})
    last = await log(dsn, "beta", user={"id": "u1", "email": "new@example.com"})
    await log(dsn, "beta")
    alone = ok(await owner.get(f"/v1/cases/{a['case_id']}/users"))
    assert (named(alone), alone["complete"], alone["case_id"]) == ([("u1", 2, 1)], True, a["case_id"])
    assert alone["users"][0]["user_email"] == "u1@example.com"
    await act(owner, a["case_id"], "merge", 1, into_case_id=b["case_id"])
    both = ok(await owner.get(f"/v1/cases/{b['case_id']}/users"))
    assert named(both) == [("u1", 3, 2), ("u0", 1, 1), ("u2", 1, 1)]
    assert both["users"][0]["last_seen_at"] == last["received_at"]
    record = ok(await owner.get(f"/v1/cases/{b['case_id']}"))
    assert record["users_affected"] == 3
    nobody = await log(dsn, "gamma")
    assert ok(await owner.get(f"/v1/cases/{nobody['case_id']}/users"))["users"] == []


async def test_the_users_of_a_project_within_a_window(world: World, project):
    owner, project_id, dsn = project
    path = f"/v1/projects/{project_id}/users"
    empty = ok(await owner.get(path))
    assert (empty["users"], empty["unique_users"], empty["total_events"], empty["window_days"]) == ([], 0, 0, 7)
    old = await log(dsn, "alpha", user={"id": "u9"})
    await world.sql(
        "update log_events set received_at = received_at - %s, occurred_at = null where project_id = %s and id = %s",
        8 * DAY, project_id, old["id"],
    )  # fmt: skip
    for text in ("alpha", "beta", "alpha"):
        await log(dsn, text, user={"id": "u1", "email": "u1@example.com"})
    await log(dsn, "alpha", user={"id": "u2"})
    await log(dsn, "alpha", user={"id": "u0"})
    await log(dsn, "alpha")
    await log(dsn, "only told", level="info", user={"id": "u3"})
    week = ok(await owner.get(path))
    assert named(week) == [("u1", 3, 2), ("u0", 1, 1), ("u2", 1, 1)]
    assert (week["unique_users"], week["total_events"], week["complete"]) == (3, 6, True)
    assert week["users"][0]["user_email"] == "u1@example.com"
    assert [user["user_id"] for user in ok(await owner.get(path, params={"limit": 1}))["users"]] == ["u1"]
    month = ok(await owner.get(path, params={"days": 30}))
    assert (month["unique_users"], month["total_events"], month["window_days"]) == (4, 7, 30)
    for query in ({"days": 0}, {"days": 91}, {"limit": 0}, {"limit": 501}, {"days": "x"}):
        refused(await owner.get(path, params=query), 400, "invalid_payload")


async def test_a_read_that_stops_looking_says_so(world: World, project, monkeypatch):
    _, project_id, dsn = project
    answers = []
    for number in range(4):
        answers.append(await log(dsn, "alpha", user={"id": f"u{number}"}))
        await world.wait(2)
    monkeypatch.setattr(people, "MOST_ERRORS", 2)
    monkeypatch.setattr(people, "MOST_OF_CASE", 2)
    found = await world.operate(lambda store: people.users_of_project(store, project_id, 7, 50))
    assert (found.unique_users, found.total_events, found.complete) == (2, 2, False)
    assert found.counted_from == answers[2]["received_at"]
    part = await world.operate(lambda store: people.users_of_case(store, project_id, answers[0]["case_id"]))
    assert (len(part.users), part.complete) == (2, False)


@pytest.mark.parametrize("distinct_id", ["u1", "a b|c?d#e", "ü✓", "%", "x" * 200])
async def test_a_dossier_shows_what_is_kept(world: World, project, distinct_id: str):
    owner, project_id, dsn = project
    path = f"/v1/projects/{project_id}/users/{quote(distinct_id, safe='')}/summary"
    unknown = ok(await owner.get(path))
    assert (unknown["distinct_id"], "person" in unknown, unknown["recent_events"]) == (distinct_id, False, [])
    assert unknown["event_stats"] == {
        "total_events": 0, "error_count": 0, "first_seen_at": None, "last_seen_at": None, "first_occurred_at": None,
        "last_occurred_at": None, "counted_to": 10000,
    }  # fmt: skip
    first = await log(dsn, "boom", user={"id": distinct_id, "email": "u@example.com"}, release="1.0")
    await world.wait(1)
    ok(await dsn.post("/v1/analytics/", {"event": "signup", "distinct_id": distinct_id}), 202)
    await world.wait(1)
    told = await log(dsn, "told", level="info", user={"id": distinct_id})
    known = ok(await owner.get(path))
    assert known["person"] == {
        "distinct_id": distinct_id, "email": "u@example.com", "names": [distinct_id], "identified": False,
        "properties": {}, "links_refused": 0,
    }  # fmt: skip
    stats = known["event_stats"]
    assert (stats["total_events"], stats["error_count"]) == (3, 1)
    assert (stats["first_seen_at"], stats["last_seen_at"]) == (first["received_at"], told["received_at"])
    assert [event["name"] for event in known["recent_events"]] == ["told", "signup", "boom"]
    assert known["recent_events"][2] == {
        "id": first["id"], "kind": "log", "name": "boom", "level": "error", "environment": "production",
        "release": "1.0", "case_id": first["case_id"], "received_at": first["received_at"],
        "occurred_at": first["received_at"], "adjusted": [],
    }  # fmt: skip
    assert known["recent_recordings"] == []


async def test_people_are_shown_to_members_only(world: World, project):
    owner, project_id, dsn = project
    case_id = (await log(dsn, "boom", user={"id": "u1"}))["case_id"]
    stranger = await world.sign_in()
    for path, other, code in (
        (f"/v1/cases/{case_id}/users", f"/v1/cases/{new_id('case')}/users", "case_not_found"),
        (f"/v1/projects/{project_id}/users", f"/v1/projects/{new_id('proj')}/users", "project_not_found"),
        (
            f"/v1/projects/{project_id}/users/u1/summary",
            f"/v1/projects/{new_id('proj')}/users/u1/summary",
            "project_not_found",
        ),
    ):
        foreign = await stranger.get(path)
        refused(foreign, 404, code)
        assert without_request_id(foreign) == without_request_id(await stranger.get(other))
        refused(await dsn.get(path), 403, "principal_not_allowed")
        refused(await world.get(path), 401, "unauthenticated")
    nul = await owner.get(f"/v1/projects/{project_id}/users/%00/summary")
    assert nul.status_code in {400, 404}
