"""Notifications over HTTP: destinations of owners, rules of members, their fences and bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.ids import new_id
from statemachines.notifications import DESTINATIONS_LIMIT, RULES_LIMIT
from tests.service.http.projects.test_project import add_member
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

URL = "https://127.0.0.1:9/services/T0/B0/opensesame"
WISH = {"kind": "slack", "url": URL, "name": "Our channel"}
RULE = {"events": ["case.created"]}


@pytest.fixture
async def shop(world: World):
    """A fresh owner, and the path of the notifications of their project."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    return owner, project_id, f"/v1/projects/{project_id}/notifications"


async def add(owner: Any, path: str, **wish: Any) -> dict[str, Any]:
    return ok(await owner.post(f"{path}/destinations", WISH | wish), 201)


async def test_a_destination_from_its_beginning_to_its_end(world: World, shop) -> None:
    owner, project_id, path = shop
    made = ok(await owner.post(f"{path}/destinations", WISH, key="k"), 201)
    assert made.pop("url") == URL
    again = ok(await owner.post(f"{path}/destinations", WISH, key="k"), 201)
    assert again.pop("url") is None
    assert again == made
    made.pop("next_action")
    assert (made["kind"], made["name"], made["origin"]) == ("slack", "Our channel", "https://127.0.0.1:9")
    assert (made["status"], made["rule"], made["rule_count"]) == ("active", None, 0)
    second = await add(owner, path, kind="teams")
    listed = ok(await owner.get(path))
    assert [one["id"] for one in listed["destinations"]] == [second["id"], made["id"]]
    assert listed["destinations"][1] == made
    assert "opensesame" not in json.dumps(listed)
    [[sealed]] = await world.sql("select url from webhook_targets where id = %s", made["id"])
    assert "opensesame" not in sealed
    [[events]] = await world.sql("select json_agg(payload)::text from events where project_id = %s", project_id)
    assert "opensesame" not in events
    one = f"{path}/destinations/{made['id']}"
    gone = ok(await owner.call("DELETE", one, key="d"))
    assert (gone["id"], gone["status"]) == (made["id"], "deleted")
    assert ok(await owner.call("DELETE", one, key="d")) == gone
    refused(await owner.call("DELETE", one), 404, "destination_not_found")
    refused(await owner.call("PUT", f"{one}/rule", RULE), 404, "destination_not_found")
    refused(await owner.post(f"{one}/test", {}), 404, "destination_not_found")
    refused(await owner.get(f"{one}/deliveries"), 404, "destination_not_found")
    assert await world.sql("select url from webhook_targets where id = %s", made["id"]) == [(None,)]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (WISH | {"kind": "mail"}, "kind"),
        ({"kind": "mail", "name": "My mail"}, "SERVICE_SMTP_URL"),
        (WISH | {"url": "http://example.com/x"}, "url"),
        (WISH | {"url": "https://user@example.com/"}, "url"),
        (WISH | {"url": "https://example.com\\x/"}, "url"),
        (WISH | {"name": ""}, "name"),
        (WISH | {"name": "a\u202eb"}, "name"),
        (WISH | {"name": "a\u0000b"}, "name"),
        (WISH | {"more": 1}, "more"),
    ],
)
async def test_a_destination_is_strict(shop, body: Any, field: str) -> None:
    owner, _, path = shop
    error = refused(await owner.post(f"{path}/destinations", body), 400, "invalid_payload")
    assert field in json.dumps(error)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"events": []},
        {"events": ["case.created", "case.created"]},
        {"events": ["deploy.recorded"]},
        {"events": ["*"]},
        RULE | {"quiet_hours": {"begins": "24:00", "ends": "07:00", "timezone": "UTC"}},
        RULE | {"quiet_hours": {"begins": "07:00", "ends": "07:00", "timezone": "UTC"}},
        RULE | {"quiet_hours": {"begins": "07:00", "ends": "08:00", "timezone": "Nowhere"}},
        RULE | {"quiet_hours": {"begins": "07:00", "ends": "08:00"}},
        RULE | {"member_id": "usr_1"},
    ],
)
async def test_a_rule_is_strict(shop, body: Any) -> None:
    owner, _, path = shop
    made = await add(owner, path)
    refused(await owner.call("PUT", f"{path}/destinations/{made['id']}/rule", body), 400, "invalid_payload")


async def test_owners_manage_destinations_and_members_their_own_rules(world: World, shop) -> None:
    owner, project_id, path = shop
    made = await add(owner, path)
    one = f"{path}/destinations/{made['id']}"
    member = await add_member(world, project_id, f"ruler-{project_id}".replace("_", "-"))
    for answer in (
        await member.post(f"{path}/destinations", WISH),
        await member.call("DELETE", one),
        await member.post(f"{one}/test", {}),
    ):
        refused(answer, 403, "owner_required")
    quiet = {"begins": "22:00", "ends": "07:00", "timezone": "Europe/Berlin"}
    theirs = ok(await member.call("PUT", f"{one}/rule", RULE | {"quiet_hours": quiet}))
    assert (theirs["rule"]["events"], theirs["rule"]["quiet_hours"]) == (["case.created"], quiet)
    [shown] = ok(await owner.get(path))["destinations"]
    assert (shown["rule"], shown["rule_count"], shown["etag"]) == (None, 1, theirs["etag"])
    refused(await owner.call("DELETE", f"{one}/rule"), 404, "not_found")
    assert ok(await member.call("PUT", f"{one}/rule", RULE | {"quiet_hours": quiet}))["etag"] == theirs["etag"]
    assert ok(await member.call("DELETE", f"{one}/rule"))["rule"] is None
    stranger = await world.sign_in()
    refused(await stranger.get(path), 404, "project_not_found")
    absent = f"{path}/destinations/{new_id('dest')}"
    other = (await stranger.create_project())["id"]
    foreign = f"/v1/projects/{other}/notifications/destinations/{made['id']}"
    for method, end in (("DELETE", ""), ("DELETE", "/rule"), ("GET", "/deliveries")):
        assert without_request_id(await owner.call(method, absent + end)) == without_request_id(
            await stranger.call(method, foreign + end)
        )


async def test_the_id_of_something_else_is_absent(world: World, shop) -> None:
    owner, project_id, path = shop
    made = await add(owner, path)
    hooks = f"/v1/projects/{project_id}/webhooks"
    hook = ok(await owner.post(hooks, {"url": URL, "events": ["*"]}), 201)
    for other in (hook["id"], project_id):
        one = f"{path}/destinations/{other}"
        refused(await owner.call("DELETE", one), 404, "destination_not_found")
        refused(await owner.call("PUT", f"{one}/rule", RULE), 404, "destination_not_found")
        refused(await owner.call("DELETE", f"{one}/rule"), 404, "destination_not_found")
        refused(await owner.post(f"{one}/test", {}, key="t"), 404, "destination_not_found")
    refused(await owner.call("DELETE", f"{hooks}/{made['id']}"), 404, "webhook_not_found")
    refused(await owner.call("PATCH", f"{hooks}/{made['id']}", {"enabled": False}), 404, "webhook_not_found")
    refused(await owner.post(f"{hooks}/{made['id']}/test", {}, key="t"), 404, "webhook_not_found")
    assert ok(await owner.get(path))["destinations"][0]["status"] == "active"
    assert ok(await owner.get(hooks))["webhooks"][0]["enabled"]


async def test_the_tag_is_a_fence_where_it_is_given(shop) -> None:
    owner, _, path = shop
    made = await add(owner, path)
    one = f"{path}/destinations/{made['id']}"
    first = ok(await owner.call("PUT", f"{one}/rule", RULE, headers={"if-match": made["etag"]}))
    assert first["etag"] != made["etag"]
    old = {"if-match": made["etag"]}
    for answer in (
        await owner.call("PUT", f"{one}/rule", {"events": ["run.ended"]}, headers=old),
        await owner.call("DELETE", f"{one}/rule", headers=old),
        await owner.call("DELETE", one, headers=old),
    ):
        assert refused(answer, 412, "precondition_failed")["details"]["current_etag"] == first["etag"]
    rivals = await at_once(
        6,
        lambda number: owner.call(
            "PUT",
            f"{one}/rule",
            {"events": ["run.ended"] if number % 2 else ["alert.triggered"]},
            headers={"if-match": first["etag"]},
        ),
    )
    assert sorted(answer.status_code for answer in rivals) == [200] + [412] * 5
    refused(await owner.call("DELETE", one, headers={"if-match": "*"}), 400, "invalid_if_match")


async def test_a_project_has_so_many_destinations_and_rules(world: World, shop) -> None:
    owner, project_id, path = shop
    for _ in range(DESTINATIONS_LIMIT - 2):
        await add(owner, path)
    answers = await at_once(6, lambda _: owner.post(f"{path}/destinations", WISH))
    assert sorted(answer.status_code for answer in answers) == [201] * 2 + [400] * 4
    ids = [one["id"] for one in ok(await owner.get(path))["destinations"]]
    names = [f"limit-{number}-{project_id}".replace("_", "-") for number in range(RULES_LIMIT // DESTINATIONS_LIMIT)]
    people = [owner, *[await add_member(world, project_id, name) for name in names]]
    wishes = [(person, f"{path}/destinations/{id}/rule") for person in people for id in ids]
    for person, rule in wishes[: RULES_LIMIT - 2]:
        ok(await person.call("PUT", rule, RULE))
    rest = wishes[RULES_LIMIT - 2 :][:6]
    done = await at_once(6, lambda n: rest[n][0].call("PUT", rest[n][1], RULE))
    assert sorted(answer.status_code for answer in done) == [200] * 2 + [400] * 4


async def test_a_test_tells_what_the_chat_answers(shop) -> None:
    owner, _, path = shop
    made = await add(owner, path)
    answer = ok(await owner.post(f"{path}/destinations/{made['id']}/test", {}))
    assert (answer["delivered"], answer["last_status"]) == (False, None)
    assert answer["last_error"]
    [shown] = ok(await owner.get(path))["destinations"]
    assert shown["last_error"] == answer["last_error"]
