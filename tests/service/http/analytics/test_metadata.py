"""Which events and properties a project sends, over HTTP (R-QRY-05, G-064, G-155)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.http.projects.test_project import fence
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server


@pytest.fixture
async def project(world: World) -> Any:
    """A project of a fresh owner: (owner, project id, its DSN as a caller)."""
    owner = await world.sign_in()
    made = await owner.create_project()
    return owner, made["id"], world.having(made["dsn"])


async def send(dsn: Any, event: str, person: str = "u1", **properties: Any) -> dict[str, Any]:
    body = {"event": event, "distinct_id": person, "properties": properties}
    return ok(await dsn.post("/v1/analytics/", body), 202)


async def test_names_of_events(world: World, project: Any):
    owner, project_id, dsn = project
    path = f"/v1/projects/{project_id}/event-names"
    empty = ok(await owner.get(path))
    assert (empty["analytics_events"], empty["count"], empty["window_days"], empty["complete"]) == ([], 0, 30, True)
    first = await send(dsn, "paid", amount=1)
    await send(dsn, "paid", "u2")
    last = await send(dsn, "seen")
    shown = ok(await owner.get(path))
    assert shown["analytics_events"] == [
        {
            "event": "paid",
            "row_count": 2,
            "unique_users": 2,
            "first_seen_at": first["received_at"],
            "last_seen_at": shown["analytics_events"][0]["last_seen_at"],
        },
        {
            "event": "seen",
            "row_count": 1,
            "unique_users": 1,
            "first_seen_at": last["received_at"],
            "last_seen_at": last["received_at"],
        },
    ]
    assert {**shown, "analytics_events": [], "counted_from": 0, "next_action": ""} == {
        "project_id": project_id,
        "window_days": 30,
        "analytics_events": [],
        "count": 2,
        "counted_from": 0,
        "complete": True,
        "next_action": "",
    }
    assert "event-property-keys" in shown["next_action"]
    one = ok(await owner.get(path, params={"limit": 1, "days": 90}))
    assert ([e["event"] for e in one["analytics_events"]], one["count"], one["window_days"]) == (["paid"], 1, 90)
    assert "limit" in one["next_action"]


async def test_keys_of_properties_and_never_a_value(world: World, project: Any):
    owner, project_id, dsn = project
    path = f"/v1/projects/{project_id}/event-property-keys"
    await send(dsn, "paid", amount=1, currency="canary-value", service_onboarding_proof="canary-marker")
    await send(dsn, "paid", amount=None)
    await send(dsn, "a,b", x=[])
    await send(dsn, "seen", x={"inner": "canary-value"})
    answer = await owner.get(path)
    assert "canary" not in answer.text
    assert "inner" not in answer.text
    shown = ok(answer)
    keys = [
        {"event": "paid", "key": "amount", "row_count": 2, "types": ["null", "number"]},
        {"event": "a,b", "key": "x", "row_count": 1, "types": ["array"]},
        {"event": "paid", "key": "currency", "row_count": 1, "types": ["string"]},
        {"event": "seen", "key": "x", "row_count": 1, "types": ["object"]},
    ]
    assert (shown["keys"], shown["count"], shown["events"], shown["complete"]) == (keys, 4, None, True)
    some = ok(await owner.get(path, params={"events": "paid,nobody,paid", "limit": 2}))
    assert (some["events"], some["keys"]) == (["paid", "nobody"], [keys[0], keys[2]])
    # A name with a comma is two names.
    assert ok(await owner.get(path, params={"events": "a,b"}))["keys"] == []
    many = ",".join(f"e{n}" for n in range(20))
    assert ok(await owner.get(path, params={"events": many}))["count"] == 0


async def test_faulty_queries(project: Any):
    owner, project_id, _ = project
    for read in ("event-names", "event-property-keys"):
        path = f"/v1/projects/{project_id}/{read}"
        for query in ({"days": 0}, {"days": 91}, {"limit": 0}, {"limit": 1001}, {"days": "x"}, {"limit": "1.5"}):
            refused(await owner.get(path, params=query), 400, "invalid_payload")
    keys = f"/v1/projects/{project_id}/event-property-keys"
    for events in (",".join(f"e{n}" for n in range(21)), "", "a,,b", ",a", "a,", "x" * 4020):
        error = refused(await owner.get(keys, params={"events": events}), 400, "invalid_payload")
        assert "events" in str(error["details"])
    assert ok(await owner.get(keys, params={"events": "'; drop table x --"}))["keys"] == []


async def test_whose_project_it_is_not_sees_none(world: World, project: Any):
    owner, project_id, dsn = project
    await send(dsn, "paid", amount=1)
    stranger = await world.sign_in()
    for read in ("event-names", "event-property-keys"):
        refused(await world.get(f"/v1/projects/{project_id}/{read}"), 401, "unauthenticated")
        refused(await dsn.get(f"/v1/projects/{project_id}/{read}"), 403, "principal_not_allowed")
        theirs = await stranger.get(f"/v1/projects/{project_id}/{read}")
        nobody = await stranger.get(f"/v1/projects/proj_{'0' * 26}/{read}")
        refused(theirs, 404, "project_not_found")
        assert without_request_id(theirs) == without_request_id(nobody)
        assert ok(await owner.get(f"/v1/projects/{project_id}/{read}"))["count"] == 1


async def test_a_fenced_project_is_read(world: World, project: Any):
    owner, project_id, dsn = project
    await send(dsn, "paid", amount=1)
    await fence(world, project_id)
    for read in ("event-names", "event-property-keys"):
        assert ok(await owner.get(f"/v1/projects/{project_id}/{read}"))["count"] == 1


async def test_what_is_acknowledged_is_counted(project: Any):
    """Each answer is followed by a read: counters never lag behind."""
    owner, project_id, dsn = project
    for number in range(1, 21):
        await send(dsn, "paid", f"u{number}", amount=number)
        [name] = ok(await owner.get(f"/v1/projects/{project_id}/event-names"))["analytics_events"]
        assert (name["row_count"], name["unique_users"]) == (number, number)
        [key] = ok(await owner.get(f"/v1/projects/{project_id}/event-property-keys"))["keys"]
        assert key["row_count"] == number
