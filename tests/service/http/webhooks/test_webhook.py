"""Webhooks over HTTP: registered, listed, changed, tested, deleted (R-WEB, G-090, G-159)."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from service.ids import new_id
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.listening import Arrived, Listener, listening, never, respond

pytestmark = pytest.mark.shares_server


@pytest.fixture
async def shop(world: World):
    """A fresh owner and the path of the webhooks of their project."""
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    return owner, project_id, f"/v1/projects/{project_id}/webhooks"


@pytest.fixture
async def listener():
    async with listening() as one:
        yield one


async def register(owner: Any, path: str, url: str = "https://127.0.0.1:9/x", events: Any = ("*",)) -> dict[str, Any]:
    return ok(await owner.post(path, {"url": url, "events": list(events)}), 201)


async def test_a_webhook_from_its_registration_to_its_end(world: World, shop):
    owner, project_id, path = shop
    body = {"url": "https://127.0.0.1:9/hook?token=t", "events": ["case.created"], "description": "Chat."}
    made = ok(await owner.post(path, body), 201)
    secret = made.pop("secret")
    assert secret.startswith("whsec_")
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
    assert secret.startswith(made["secret_prefix"])
    assert len(made["secret_prefix"]) == 12
    made.pop("next_action")
    assert (made["project_id"], made["url"], made["events"]) == (project_id, body["url"], body["events"])
    assert (made["status"], made["enabled"], made["description"]) == ("registered", True, "Chat.")
    assert [made[f"last_{name}"] for name in ("status", "error", "delivered_at")] == [None, None, None]

    second = await register(owner, path)
    listed = ok(await owner.get(path))
    assert [one["id"] for one in listed["webhooks"]] == [second["id"], made["id"]]
    assert listed["count"] == 2
    assert listed["webhooks"][1] == made
    one = ok(await owner.get(f"{path}/{made['id']}"))
    assert {name: one[name] for name in made} == made
    assert secret not in json.dumps([listed, one])

    health = ok(await owner.get(f"/v1/projects/{project_id}/health"))["webhooks"]
    assert health == [
        {"id": second["id"], "last_status": None, "last_error": None},
        {"id": made["id"], "last_status": None, "last_error": None},
    ]
    gone = ok(await owner.call("DELETE", f"{path}/{made['id']}", key="k"))
    assert (gone["id"], gone["status"]) == (made["id"], "deleted")
    assert ok(await owner.call("DELETE", f"{path}/{made['id']}", key="k")) == gone
    refused(await owner.call("DELETE", f"{path}/{made['id']}"), 404, "webhook_not_found")
    refused(await owner.get(f"{path}/{made['id']}"), 404, "webhook_not_found")
    assert [one["id"] for one in ok(await owner.get(path))["webhooks"]] == [second["id"]]
    [[url, sealed]] = await world.sql("select url, secret from webhook_targets where id = %s", made["id"])
    assert (url, sealed) == (None, None)


async def test_address_and_secret_are_sealed_and_not_in_the_log(world: World, shop):
    owner, project_id, path = shop
    made = await register(owner, path, "https://127.0.0.1:9/hook?token=opensesame")
    [[events]] = await world.sql("select json_agg(payload)::text from events where project_id = %s", project_id)
    [[stored]] = await world.sql("select row_to_json(t)::text from webhook_targets t where id = %s", made["id"])
    [[kept]] = await world.sql("select string_agg(i::text, ' ') from idempotency i where project_id = %s", project_id)
    for text in (events, stored, kept or ""):
        assert made["secret"] not in text
        assert "opensesame" not in text or text is kept  # the answer that is kept for a repeat names the address
    assert "https://127.0.0.1:9" in events


async def test_a_repeat_with_its_key_shows_the_webhook_without_its_secret(shop):
    owner, _, path = shop
    body = {"url": "https://127.0.0.1:9/x", "events": ["*"]}
    made = ok(await owner.post(path, body, key="k"), 201)
    assert ok(await owner.post(path, body, key="k"), 201) == {**made, "secret": None}
    refused(await owner.post(path, {**body, "events": ["case.created"]}, key="k"), 422, "idempotency_key_reused")
    assert ok(await owner.get(path))["count"] == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "ftp://example.com"}, "url"),
        ({"url": "http://10.0.0.1/"}, "url"),
        ({"url": "http://nowhere.invalid/"}, "url"),
        ({"url": "https://user@example.com"}, "url"),
        ({"url": "https://example.com/#f"}, "url"),
        ({"url": "https://0x7f000001/"}, "url"),
        ({"url": "https://example.com:0/"}, "url"),
        ({"url": "https://" + "a" * 2000}, "url"),
        ({"url": ""}, "url"),
        ({"url": 7}, "url"),
        ({"events": []}, "events"),
        ({"events": ["case.created", "case.created"]}, "events"),
        ({"events": ["*", "case.created"]}, "events"),
        ({"events": ["webhook.test"]}, "events[0]"),
        ({"events": ["nothing"]}, "events[0]"),
        ({"events": ["case.created"] * 21}, "events"),
        ({"description": "d" * 501}, "description"),
    ],
)
async def test_a_bad_webhook_is_refused(shop, changes: dict[str, Any], field: str):
    owner, _, path = shop
    body = {"url": "https://127.0.0.1:9/x", "events": ["*"], **changes}
    error = refused(await owner.post(path, body), 400, "invalid_payload")
    assert [invalid["field"] for invalid in error["details"]["invalid_fields"]] == [field]
    made = await register(owner, path)
    error = refused(await owner.call("PATCH", f"{path}/{made['id']}", changes), 400, "invalid_payload")
    assert [invalid["field"] for invalid in error["details"]["invalid_fields"]] == [field]
    assert ok(await owner.get(path))["count"] == 1


async def test_bodies_are_strict(shop):
    owner, _, path = shop
    refused(await owner.post(path, {"events": ["*"]}), 400, "invalid_payload")
    refused(await owner.post(path, {"url": "https://a.example", "events": ["*"], "x": 1}), 400, "invalid_payload")
    made = await register(owner, path)
    refused(await owner.post(f"{path}/{made['id']}/test", {"x": 1}), 400, "invalid_payload")


async def test_others_find_nothing(world: World, shop, listener: Listener):
    owner, project_id, path = shop
    made = await register(owner, path, listener.url)
    stranger = await world.sign_in()
    own = f"/v1/projects/{(await stranger.create_project())['id']}/webhooks"
    for method, tail, body in (
        ("GET", "", None),
        ("PATCH", "", {"enabled": False}),
        ("POST", "/test", {}),
        ("DELETE", "", None),
    ):
        absent = await stranger.call(method, f"{own}/{new_id('wh')}{tail}", body)
        refused(absent, 404, "webhook_not_found")
        foreign = await stranger.call(method, f"{own}/{made['id']}{tail}", body)
        assert without_request_id(foreign) == without_request_id(absent)
        refused(await stranger.call(method, f"{path}/{made['id']}{tail}", body), 404, "project_not_found")
        refused(await owner.call(method, f"{path}/x{tail}", body), 404, "webhook_not_found")
        refused(await world.having(None).call(method, f"{path}/{made['id']}{tail}", body), 401, "unauthenticated")
        ci = await owner.create_credential(project_id, f"ci-{method}{tail}")
        answer = await world.having(ci["credential"]).call(method, f"{path}/{made['id']}{tail}", body)
        refused(answer, 403, "principal_not_allowed")
    for method, body in (("GET", None), ("POST", {"url": listener.url, "events": ["*"]})):
        refused(await stranger.call(method, path, body), 404, "project_not_found")
        refused(await world.having(None).call(method, path, body), 401, "unauthenticated")
    assert listener.connections == 0
    assert ok(await owner.get(path))["count"] == 1


async def test_of_many_creators_at_once_twenty_succeed(shop):
    owner, _, path = shop
    body = {"url": "https://127.0.0.1:9/x", "events": ["*"]}
    answers = await at_once(14, lambda _: owner.post(path, body))
    answers += await at_once(14, lambda _: owner.post(path, body))
    assert sorted(answer.status_code for answer in answers) == [201] * 20 + [400] * 8
    assert ok(await owner.get(path))["count"] == 20
    refused(await owner.post(path, body), 400, "invalid_payload")
    [first, *_] = ok(await owner.get(path))["webhooks"]
    ok(await owner.call("DELETE", f"{path}/{first['id']}"))
    await register(owner, path)


async def test_a_webhook_is_changed_stopped_and_started(shop):
    owner, _, path = shop
    made = await register(owner, path)
    one = f"{path}/{made['id']}"
    body = {"url": "https://127.0.0.1:10/y", "events": ["case.merged"], "description": "Now this."}
    changed = ok(await owner.call("PATCH", one, body))
    assert {name: changed[name] for name in body} == body
    assert ok(await owner.get(one)) == {**changed, "recent_deliveries": []}
    assert ok(await owner.call("PATCH", one, {"description": None}))["description"] is None
    stopped = ok(await owner.call("PATCH", one, {"enabled": False}))
    assert (stopped["enabled"], stopped["stop_reason"]) == (False, "member")
    assert stopped["stopped_at"] is not None
    assert ok(await owner.call("PATCH", one, {"enabled": False})) == stopped
    started = ok(await owner.call("PATCH", one, {"enabled": True}))
    assert (started["enabled"], started["stop_reason"], started["stopped_at"]) == (True, None, None)
    assert ok(await owner.call("PATCH", one, {})) == started
    refused(await owner.call("PATCH", f"{path}/{new_id('wh')}", {}), 404, "webhook_not_found")


async def test_a_test_is_signed_delivered_and_told(world: World, shop, listener: Listener):
    owner, project_id, path = shop
    made = await register(owner, path, listener.url, ["case.created"])
    told = ok(await owner.post(f"{path}/{made['id']}/test"))
    [arrived] = listener.arrived
    assert (told["status"], told["delivered"], told["last_status"], told["last_error"]) == ("tested", True, 204, None)
    assert (arrived.event, arrived.id) == ("webhook.test", told["delivery_id"])
    assert arrived.headers["x-service-delivery"] == told["delivery_id"]
    assert arrived.headers["user-agent"] == "service-webhooks/3"
    arrived.verify(made["secret"])
    document = arrived.document
    assert (document["id"], document["event"], document["project_id"]) == (arrived.id, "webhook.test", project_id)
    shown = ok(await owner.get(f"{path}/{made['id']}"))
    assert (shown["status"], shown["last_status"], shown["last_error"]) == ("tested", 204, None)
    assert shown["last_delivered_at"] is not None

    listener.status = 500
    told = ok(await owner.post(f"{path}/{made['id']}/test", {}))
    assert (told["status"], told["delivered"], told["last_status"]) == ("unhealthy", False, 500)
    shown = ok(await owner.get(f"{path}/{made['id']}"))
    assert (shown["status"], shown["last_status"], shown["last_error"]) == ("unhealthy", 500, told["last_error"])
    [health] = ok(await owner.get(f"/v1/projects/{project_id}/health"))["webhooks"]
    assert health == {"id": made["id"], "last_status": 500, "last_error": told["last_error"]}
    assert told["last_error"]


async def test_a_repeated_test_with_its_key_names_one_delivery(shop, listener: Listener):
    owner, _, path = shop
    made = await register(owner, path, listener.url)
    first = ok(await owner.post(f"{path}/{made['id']}/test", {}, key="k"))
    listener.status = 500
    assert ok(await owner.post(f"{path}/{made['id']}/test", {}, key="k")) == first
    assert {one.id for one in listener.arrived} == {first["delivery_id"]}


async def test_redirects_are_not_followed(shop, listener: Listener):
    owner, _, path = shop
    async with listening() as other:

        async def lead_on(_: Arrived, writer: asyncio.StreamWriter) -> None:
            writer.write(f"HTTP/1.1 302 Found\r\nlocation: {other.url}\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()

        listener.answering = lead_on
        made = await register(owner, path, listener.url)
        told = ok(await owner.post(f"{path}/{made['id']}/test"))
        assert (told["delivered"], told["last_status"]) == (False, 302)
        assert other.connections == 0


async def test_nothing_of_the_receiver_is_kept(world: World, shop, listener: Listener):
    owner, _, path = shop

    async def talk(_: Arrived, writer: asyncio.StreamWriter) -> None:
        await respond(writer, 500, b"opensesame" * 100)

    listener.answering = talk
    made = await register(owner, path, listener.url)
    told = ok(await owner.post(f"{path}/{made['id']}/test"))
    [[kept]] = await world.sql("select row_to_json(s)::text from webhook_standings s where id = %s", made["id"])
    assert "opensesame" not in json.dumps(told) + kept


async def test_one_test_of_a_webhook_at_a_time(shop, listener: Listener):
    owner, _, path = shop
    listener.answering = never
    made = await register(owner, path, listener.url)
    first = asyncio.create_task(owner.post(f"{path}/{made['id']}/test"))
    await listener.until_arrived(1)
    answer = await owner.post(f"{path}/{made['id']}/test")
    refused(answer, 429, "rate_limited")
    assert int(answer.headers["retry-after"]) > 0
    told = ok(await first)
    assert (told["delivered"], told["last_status"]) == (False, None)
    assert told["last_error"]
    listener.answering = None
    assert ok(await owner.post(f"{path}/{made['id']}/test"))["delivered"]


async def test_a_test_lifts_the_stop_of_failures_and_not_that_of_a_member(world: World, shop, listener: Listener):
    from service.auth.authority import carry_out
    from service.webhooks.webhook import stop

    owner, project_id, path = shop
    made = await register(owner, path, listener.url)
    one = f"{path}/{made['id']}"
    await world.operate(lambda store: carry_out(store, "test", "stop", stop(project_id, made["id"], "gone")))
    stopped = ok(await owner.get(one))
    assert (stopped["enabled"], stopped["stop_reason"]) == (False, "gone")
    error = refused(await owner.call("PATCH", one, {"enabled": True}), 400, "invalid_payload")
    assert [invalid["field"] for invalid in error["details"]["invalid_fields"]] == ["enabled"]
    listener.status = 410
    ok(await owner.post(f"{one}/test"))
    assert not ok(await owner.get(one))["enabled"]
    listener.status = 200
    ok(await owner.post(f"{one}/test"))
    assert ok(await owner.get(one))["enabled"]
    ok(await owner.call("PATCH", one, {"enabled": False}))
    ok(await owner.post(f"{one}/test"))
    assert not ok(await owner.get(one))["enabled"]


async def test_a_fenced_project_shows_its_webhooks_and_changes_none(world: World, shop, listener: Listener):
    owner, project_id, path = shop
    made = await register(owner, path, listener.url)
    one = f"{path}/{made['id']}"
    await world.sql("update projects set status = 'fenced' where id = %s", project_id)
    assert ok(await owner.get(path))["count"] == 1
    assert ok(await owner.get(one))["id"] == made["id"]
    for method, where, body in (
        ("POST", path, {"url": listener.url, "events": ["*"]}),
        ("PATCH", one, {"enabled": False}),
        ("POST", f"{one}/test", {}),
        ("DELETE", one, None),
    ):
        refused(await owner.call(method, where, body), 409, "project_deletion_in_progress")
    assert listener.connections == 0
