"""The log of deliveries over HTTP: read, resent, replayed; and secrets that are rotated (G-161)."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from service.ids import new_id
from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.listening import Listener

pytestmark = pytest.mark.shares_server

DAY = 86_400


async def deliveries(owner: Any, one: str, **query: Any) -> dict[str, Any]:
    return ok(await owner.get(f"{one}/deliveries", params=query))


async def until_logged(owner: Any, one: str, number: int, **query: Any) -> list[dict[str, Any]]:
    """Wait until the log shows so many deliveries."""
    give_up = time.monotonic() + 20
    while len(found := (await deliveries(owner, one, **query))["deliveries"]) < number:
        assert time.monotonic() < give_up, found
        await asyncio.sleep(0.05)
    return found


async def test_the_log_shows_deliveries_in_the_order_of_the_log(shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    assert (await deliveries(owner, one))["next_after"] is None
    words = ["gull", "heron", "ibis", "jay", "kite"]
    opened = [(await log(dsn, f"{word} failed"))["case_id"] for word in words]
    found = await until_logged(owner, one, 5, status="delivered")
    assert [item["subject_id"] for item in found] == opened
    assert [item["position"] for item in found] == sorted(item["position"] for item in found)
    arrived = {item.id: item for item in listener.arrived}
    for item in found:
        assert (item["event"], item["attempts"], item["last_status"]) == ("case.created", 1, 204)
        assert (item["last_error"], item["next_attempt_at"]) == (None, None)
        assert item["body_sha256"] == hashlib.sha256(arrived[item["delivery_id"]].body).hexdigest()
    page = await deliveries(owner, one, limit=2)
    assert page["deliveries"] == found[:2]
    rest = await deliveries(owner, one, after=page["next_after"], limit=4)
    assert rest["deliveries"] == found[2:]
    assert (rest["next_after"], (await deliveries(owner, one, status="exhausted"))["deliveries"]) == (None, [])
    assert ok(await owner.get(one))["recent_deliveries"] == found[::-1]
    for query in ({"limit": 0}, {"limit": 201}, {"after": -1}, {"status": "x"}):
        refused(await owner.get(f"{one}/deliveries", params=query), 400, "invalid_payload")


async def test_a_failed_delivery_shows_its_next_attempt(shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    listener.status = 500
    await log(dsn, "boom")
    [item] = await until_logged(owner, one, 1, status="failed")
    assert item["last_status"] == 500
    assert item["last_error"]
    assert item["next_attempt_at"] >= time.time()
    ok(await owner.call("PATCH", one, {"enabled": False}))
    [item] = await until_logged(owner, one, 1, status="stopped")
    assert item["next_attempt_at"] is None


async def test_a_delivery_is_resent_with_its_id_and_body(shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    await log(dsn, "boom")
    [item] = await until_logged(owner, one, 1, status="delivered")
    await asyncio.sleep(1)  # another second: another signature
    again = ok(await owner.post(f"{one}/deliveries/{item['delivery_id']}/resend", key="k"))
    assert again["delivery_id"] == item["delivery_id"]
    await listener.until_arrived(2)
    first, second = listener.arrived[:2]
    assert (first.id, first.body) == (second.id, second.body)
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]
    second.verify(made["secret"])
    [item] = await until_logged(owner, one, 1, status="delivered")
    assert item["attempts"] == 2
    refused(await owner.post(f"{one}/deliveries/{new_id('whd')}/resend"), 404, "delivery_not_found")
    other = await register(owner, project_id, "https://127.0.0.1:9/x", "deploy.recorded")
    foreign = f"/v1/projects/{project_id}/webhooks/{other['id']}/deliveries/{item['delivery_id']}/resend"
    refused(await owner.post(foreign), 404, "delivery_not_found")
    ok(await owner.call("PATCH", one, {"enabled": False}))
    ok(await owner.post(f"{one}/deliveries/{item['delivery_id']}/resend"))
    await asyncio.sleep(1)
    assert len(listener.arrived) == 2


async def test_a_range_is_replayed_from_the_registration_on(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    await log(dsn, "earlier gull")
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    for word in ("heron", "ibis", "jay"):
        await log(dsn, f"{word} failed")
    found = await until_logged(owner, one, 3, status="delivered")
    last = found[-1]["position"]
    assert ok(await owner.post(f"{one}/replay", {"after": 0, "until": last}))["queued"] == 3
    await listener.until_arrived(6)
    assert [len({item.body for item in listener.arrived if item.id == one["delivery_id"]}) for one in found] == [1] * 3
    assert len({item.id for item in listener.arrived}) == 3
    within = {"after": found[0]["position"], "until": found[1]["position"]}
    assert ok(await owner.post(f"{one}/replay", within, key="k"))["queued"] == 1
    await listener.until_arrived(7)
    await world.sql("delete from webhook_deliveries where project_id = %s and position = %s", project_id, last)
    assert ok(await owner.post(f"{one}/replay", {"after": last - 1, "until": last}))["queued"] == 1
    await listener.until_arrived(8)
    assert listener.arrived[-1].id == found[-1]["delivery_id"]
    for body in ({"after": 5, "until": 5}, {"after": 0, "until": 10_001}, {"after": -1, "until": 3}, {"after": 1}):
        refused(await owner.post(f"{one}/replay", body), 400, "invalid_payload")
    ok(await owner.call("PATCH", one, {"enabled": False}))
    assert ok(await owner.post(f"{one}/replay", {"after": 0, "until": last}))["queued"] == 0


async def test_both_secrets_sign_for_a_day_the_new_one_first(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    turned = ok(await owner.post(f"{one}/rotate-secret", {}, key="k"))
    secrets = (turned["secret"], made["secret"])
    assert secrets[0] != secrets[1]
    assert secrets[0].startswith(turned["secret_prefix"])
    assert ok(await owner.post(f"{one}/rotate-secret", {}, key="k")) == {**turned, "secret": None}
    ok(await owner.post(f"{one}/test"))
    await log(dsn, "boom")
    await listener.until_arrived(2)
    for arrived in listener.arrived:
        both = arrived.headers["webhook-signature"].split(" ")
        assert len(both) == len(arrived.headers["x-service-signature"].split(",v1=")) - 1 == 2
        for order in (both, both[::-1]):
            headers = {**arrived.headers, "webhook-signature": " ".join(order)}
            for secret in secrets:
                Webhook(secret).verify(arrived.body, headers)
        Webhook(secrets[0]).verify(arrived.body, {**arrived.headers, "webhook-signature": both[0]})
        with pytest.raises(WebhookVerificationError):
            Webhook(secrets[1]).verify(arrived.body, {**arrived.headers, "webhook-signature": both[0]})
    await world.wait(DAY + 1)
    await log(dsn, "bang")
    await listener.until_arrived(3)
    listener.arrived[2].verify(secrets[0])
    with pytest.raises(WebhookVerificationError):
        listener.arrived[2].verify(secrets[1])


async def test_others_find_nothing(world: World, shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    one = f"/v1/projects/{project_id}/webhooks/{made['id']}"
    await log(dsn, "boom")
    [item] = await until_logged(owner, one, 1, status="delivered")
    stranger = await world.sign_in()
    own = f"/v1/projects/{(await stranger.create_project())['id']}/webhooks/{made['id']}"
    for method, tail, body in (
        ("GET", "/deliveries", None),
        ("POST", f"/deliveries/{item['delivery_id']}/resend", {}),
        ("POST", "/replay", {"after": 0, "until": 5}),
        ("POST", "/rotate-secret", {}),
    ):
        refused(await stranger.call(method, f"{own}{tail}", body), 404, "webhook_not_found")
        refused(await stranger.call(method, f"{one}{tail}", body), 404, "project_not_found")
        refused(await world.having(None).call(method, f"{one}{tail}", body), 401, "unauthenticated")
        refused(await world.having(dsn.secret).call(method, f"{one}{tail}", body), 403, "principal_not_allowed")
    await world.sql("update projects set status = 'fenced' where id = %s", project_id)
    assert len((await deliveries(owner, one))["deliveries"]) == 1
    for tail, body in (
        (f"/deliveries/{item['delivery_id']}/resend", {}),
        ("/replay", {"after": 0, "until": item["position"]}),
        ("/rotate-secret", {}),
    ):
        refused(await owner.post(f"{one}{tail}", body), 409, "project_deletion_in_progress")
    await asyncio.sleep(0.5)
    assert len(listener.arrived) == 1
