"""Signing in from a device over HTTP: one key, however many ask (R-AUTH-14 to R-AUTH-18, G-020, G-021)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import pytest

from service.accounts import membership as admin
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

ANN = {"provider": "email", "subject": "ann@example.com", "email": "ann@example.com"}
DEVICE, POLL, AUTHORIZE = "/v1/auth/device", "/v1/auth/device/poll", "/v1/auth/device/authorize"
TEST_AUTHORIZE, RESOLVE = "/v1/auth/device/test-authorize", "/v1/auth/identity/resolve"


async def start(world: World, **members: Any) -> dict[str, Any]:
    return ok(await world.post(DEVICE, members))


async def authorize(world: World, user_code: str, identity: dict[str, Any] = ANN) -> dict[str, Any]:
    return ok(await world.hosted_app.post(AUTHORIZE, {"user_code": user_code, "identity": identity}))


async def test_a_sign_in_from_start_to_key(world: World):
    started = ok(await world.post(DEVICE))  # the body may be absent
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", started["user_code"])
    assert len(started["device_code"]) >= 40
    assert (started["expires_in"], started["interval"]) == (900, 5)
    assert started["verification_uri"] == f"{world.server.base_url}/device"
    pending = refused(await world.post(POLL, {"device_code": started["device_code"]}), 400, "authorization_pending")
    assert pending["retryable"] is True
    authorized = await authorize(world, started["user_code"].lower().replace("-", ""))
    assert authorized == {"status": "ok", "user_id": authorized["user_id"]}
    assert await authorize(world, started["user_code"]) == authorized
    key = ok(await world.post(POLL, {"device_code": started["device_code"]}))
    assert (key["status"], key["user_id"], key["env_var"]) == ("authorized", authorized["user_id"], "SERVICE_API_KEY")
    assert key["is_new"] is True
    assert key["api_key"].startswith(key["key_prefix"])
    refused(await world.post(POLL, {"device_code": started["device_code"]}), 400, "expired_token")
    assert await authorize(world, started["user_code"]) == authorized  # it is still the same wish
    assert ok(await world.having(key["api_key"]).get("/v1/projects"))["projects"] == []


async def test_sixteen_polls_at_once_mint_one_key(world: World):
    for _ in range(4):
        started = await start(world)
        user_id = (await authorize(world, started["user_code"]))["user_id"]
        before = len(await world.sql("select 1 from api_keys where project_id = %s", user_id))
        answers = await at_once(16, lambda _, s=started: world.post(POLL, {"device_code": s["device_code"]}))
        assert Counter(answer.status_code for answer in answers) == {200: 1, 400: 15}
        for answer in answers:
            if answer.status_code == 400:
                refused(answer, 400, "expired_token")
        assert len(await world.sql("select 1 from api_keys where project_id = %s", user_id)) == before + 1


async def test_polls_race_with_the_authorisation(world: World):
    """Whatever the order, nobody gets a second key and the key is not lost."""
    for _ in range(4):
        started = await start(world)
        polls = [world.post(POLL, {"device_code": started["device_code"]}) for _ in range(8)]
        *answers, _ = await asyncio.gather(*polls, authorize(world, started["user_code"]))
        won = [answer for answer in answers if answer.status_code == 200]
        codes = {a.json()["error"]["code"] for a in answers if a.status_code == 400}
        assert codes <= {"authorization_pending", "slow_down", "expired_token"}
        if not won:
            won = [await world.post(POLL, {"device_code": started["device_code"]})]
        assert len(won) == 1
        ok(won[0])


async def test_one_identity_authorising_many_codes_at_once_is_one_new_person(world: World):
    identity = {**ANN, "subject": "crowd", "email": "crowd@example.com"}
    started = await at_once(12, lambda _: start(world))
    answers = await at_once(12, lambda n: authorize(world, started[n]["user_code"], identity))
    assert len({answer["user_id"] for answer in answers}) == 1
    keys = await at_once(12, lambda n: world.post(POLL, {"device_code": started[n]["device_code"]}))
    assert Counter(ok(key)["is_new"] for key in keys) == {True: 1, False: 11}


async def test_polling_too_fast_lengthens_the_interval_and_starves_nobody(world: World):
    started = await start(world)
    poll = {"device_code": started["device_code"]}
    assert refused(await world.post(POLL, poll), 400, "authorization_pending")["details"]["interval"] == 5
    for interval in (10, 15):
        slow = refused(await world.post(POLL, poll), 400, "slow_down")
        assert slow["retryable"] is True
        assert slow["details"]["interval"] == interval
    await world.wait(5)  # the pace it was told first: too fast by now
    assert refused(await world.post(POLL, poll), 400, "slow_down")["details"]["interval"] == 20
    await world.wait(20)
    assert refused(await world.post(POLL, poll), 400, "authorization_pending")["details"]["interval"] == 20
    await authorize(world, started["user_code"])
    assert ok(await world.post(POLL, poll))["api_key"]  # at once, though it is early


async def test_polling_at_the_interval_is_never_too_fast(world: World):
    started = await start(world)
    for _ in range(12):
        refused(await world.post(POLL, {"device_code": started["device_code"]}), 400, "authorization_pending")
        await world.wait(started["interval"])


async def test_a_refused_sign_in_is_told_so(world: World):
    started = await start(world, client_name="laptop")
    await world.operate(lambda store: admin.deny_sign_in(store, started["user_code"]))
    error = refused(await world.post(POLL, {"device_code": started["device_code"]}), 400, "access_denied")
    assert error["retryable"] is False
    body = {"user_code": started["user_code"], "identity": ANN}
    refused(await world.hosted_app.post(AUTHORIZE, body), 404, "not_found")


async def test_time_ends_a_sign_in(world: World):
    pending, authorized = await start(world), await start(world)
    await authorize(world, authorized["user_code"])
    await world.wait(900)
    refusals = [
        await world.post(POLL, {"device_code": code})
        for code in (pending["device_code"], authorized["device_code"], "service_device_unknown" * 3, "x")
    ]
    for refusal in refusals:
        refused(refusal, 400, "expired_token")
    for code in (pending["user_code"], authorized["user_code"], "BBBB-BBBB", "nonsense"):
        body = {"user_code": code, "identity": ANN}
        refused(await world.hosted_app.post(AUTHORIZE, body), 404, "not_found")


async def test_another_person_cannot_take_an_authorised_code(world: World):
    started = await start(world)
    await authorize(world, started["user_code"])
    mallory = {"provider": "email", "subject": "mallory@example.com", "email": "mallory@example.com"}
    body = {"user_code": started["user_code"], "identity": mallory}
    refused(await world.hosted_app.post(AUTHORIZE, body), 404, "not_found")
    assert await world.sql("select 1 from people where email = 'mallory@example.com'") == []


async def test_an_idempotency_key_of_nobody_names_nothing(world: World):
    """Two strangers who choose the same key get codes of their own."""
    first, second = [ok(await world.post(DEVICE, {}, key="same")) for _ in range(2)]
    assert first["device_code"] != second["device_code"]
    await authorize(world, first["user_code"])
    ok(await world.post(POLL, {"device_code": first["device_code"]}, key="same"))
    refused(await world.post(POLL, {"device_code": first["device_code"]}, key="same"), 400, "expired_token")
    refused(await world.post(POLL, {"device_code": second["device_code"]}, key="same"), 400, "authorization_pending")


async def test_a_test_run_has_its_own_person(world: World):
    bodies = []
    for _ in range(2):
        started = await start(world)
        body = {"user_code": started["user_code"], "test_run_id": "run_1-A"}
        answer = ok(await world.test_operator.post(TEST_AUTHORIZE, body))
        assert (answer["status"], answer["test_run_id"]) == ("ok", "run_1-A")
        assert answer["email"] == "test+run_1-A@service.invalid"
        assert "api_key" not in answer
        bodies.append(answer)
        key = ok(await world.post(POLL, {"device_code": started["device_code"]}))
        assert (key["user_id"], key["is_new"]) == (answer["user_id"], answer["is_new"])
    assert [body["is_new"] for body in bodies] == [True, False]
    assert bodies[0]["user_id"] == bodies[1]["user_id"]
    # The hosted app reaches the same synthetic person, who stays synthetic.
    identity = {"provider": "email", "subject": bodies[0]["email"], "email": bodies[0]["email"]}
    assert ok(await world.hosted_app.post(RESOLVE, {"identity": identity}))["user_id"] == bodies[0]["user_id"]
    assert await world.sql("select synthetic from people where id = %s", bodies[0]["user_id"]) == [(True,)]


async def test_resolving_an_identity(world: World):
    identity = {"provider": "github", "subject": "77", "email": "gh@example.com", "locale": "ignored", "name": "G"}
    answers = [ok(a) for a in await at_once(12, lambda _: world.hosted_app.post(RESOLVE, {"identity": identity}))]
    assert len({answer["user_id"] for answer in answers}) == 1
    assert Counter(answer["is_new"] for answer in answers) == {True: 1, False: 11}
    moved = {**identity, "email": "moved@example.com"}
    again = ok(await world.hosted_app.post(RESOLVE, {"identity": moved}))
    assert again == {"user_id": answers[0]["user_id"], "is_new": False}
    assert await world.sql("select email from people where id = %s", again["user_id"]) == [("moved@example.com",)]
    other = ok(await world.hosted_app.post(RESOLVE, {"identity": {**identity, "provider": "gitlab"}}))
    assert other["user_id"] != again["user_id"]
    stored = ok(await world.hosted_app.post(RESOLVE, {"identity": {**identity, "subject": "78"}}, key="k"))
    replay = await world.hosted_app.post(RESOLVE, {"identity": {**identity, "subject": "78"}}, key="k")
    assert replay.headers["idempotent-replayed"] == "true"
    assert ok(replay) == stored
    refused(await world.hosted_app.post(RESOLVE, {"identity": identity}, key="k"), 422, "idempotency_key_reused")


async def test_an_identity_without_an_address(world: World):
    """It is one person, whose stand-in is verified for nobody; an address that comes later is theirs."""
    identity = {"provider": "github", "subject": "bare"}
    for sent in (identity, {**identity, "email": None}, {**identity, "email_verified": True}):
        user_id = ok(await world.hosted_app.post(RESOLVE, {"identity": sent}))["user_id"]
        found = await world.sql("select id, email_verified from people where email = %s", f"{user_id}@oidc.invalid")
        assert found == [(user_id, False)]
    started = await start(world)
    assert (await authorize(world, started["user_code"], identity))["user_id"] == user_id
    known = {**identity, "email": "late@example.com"}
    assert ok(await world.hosted_app.post(RESOLVE, {"identity": known}))["user_id"] == user_id
    assert await world.sql("select email from people where id = %s", user_id) == [("late@example.com",)]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (DEVICE, {"client_name": ""}, "invalid"),
        (DEVICE, {"client_name": "x" * 101}, "invalid"),
        (DEVICE, {"more": 1}, "unknown"),
        (POLL, {}, "missing"),
        (POLL, {"device_code": 5}, "invalid"),
        (POLL, {"device_code": "x", "more": 1}, "unknown"),
        (AUTHORIZE, {"user_code": "x"}, "missing"),
        (AUTHORIZE, {"user_code": "x", "identity": "ann"}, "invalid"),
        (AUTHORIZE, {"user_code": "x", "identity": {**ANN, "email": "a"}}, "invalid"),
        (AUTHORIZE, {"user_code": "x", "identity": {**ANN, "provider": "x" * 51}}, "invalid"),
        (AUTHORIZE, {"user_code": "x", "identity": ANN, "more": 1}, "unknown"),
        (TEST_AUTHORIZE, {"user_code": "x", "test_run_id": "a b"}, "invalid"),
        (TEST_AUTHORIZE, {"user_code": "x", "test_run_id": "x" * 65}, "invalid"),
        (TEST_AUTHORIZE, {"user_code": "x", "test_run_id": "x", "identity": ANN}, "unknown"),
        (RESOLVE, {"identity": {"provider": "email"}}, "missing"),
        (RESOLVE, {"identity": ANN, "more": 1}, "unknown"),
    ],
)
async def test_bad_bodies_are_named(world: World, path: str, body: dict[str, Any], field: str):
    caller = {TEST_AUTHORIZE: world.test_operator, AUTHORIZE: world.hosted_app, RESOLVE: world.hosted_app}
    details = refused(await caller.get(path, world).post(path, body), 400, "invalid_payload")["details"]
    assert details[f"{field}_fields"]
    assert details["request_body_schema"]


async def test_operator_routes_take_their_own_token_only(world: World):
    person = await world.sign_in()
    for path in (AUTHORIZE, RESOLVE, TEST_AUTHORIZE):
        anonymous = [
            await world.having(secret).post(path, {})
            for secret in (None, "x", "nonsense", world.server.internal_token + "x", "service_sk_" + "x" * 43)
        ]
        for answer in anonymous:
            refused(answer, 401, "unauthenticated")
        assert all(without_request_id(answer) == without_request_id(anonymous[0]) for answer in anonymous)
        refused(await person.post(path, {}), 403, "principal_not_allowed")
        other = world.hosted_app if path == TEST_AUTHORIZE else world.test_operator
        refused(await other.post(path, {}), 403, "principal_not_allowed")
    for path in ("/v1/projects", "/v1/keys"):
        refused(await world.hosted_app.get(path), 403, "principal_not_allowed")
        refused(await world.test_operator.get(path), 403, "principal_not_allowed")


async def test_the_page_shows_a_code_and_nothing_else_that_was_sent(world: World):
    started = await start(world)
    address = started["verification_uri_complete"]
    shown = await world.get(address)
    assert shown.status_code == 200
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    assert "script-src" not in shown.headers["content-security-policy"]
    assert f"service keys authorize {started['user_code']}" in shown.text
    assert started["device_code"] not in shown.text
    assert world.server.internal_token not in shown.text
    asked = await world.get("/device")
    assert '<form method="get" action="/device">' in asked.text
    assert "form-action 'self'" in asked.headers["content-security-policy"]
    assert (await world.get("/device", params={"user_code": started["user_code"].lower()})).text == shown.text
    again = [
        (await world.get("/device", params={"user_code": text})).text
        for text in ("<script>alert(1)</script>", "AAAA-AAAA", "{base_url}", "BCDFGHJKL")
    ]
    assert set(again) == {again[0]}, "nothing of it is shown"
    assert "A code has eight letters" in again[0]
    assert '<form method="get" action="/device">' in again[0]
    refused(await world.get("/device", params={"user_code": "x" * 41}), 400, "invalid_payload")


async def test_no_secret_reaches_the_database(world: World):
    """Not in a table, not in an event, not in an idempotency record (R-AUTH-20, threat 3)."""
    started = await start(world)
    await authorize(world, started["user_code"])
    key = ok(await world.post(POLL, {"device_code": started["device_code"]}))["api_key"]
    person = world.having(key)
    project = ok(await person.post("/v1/projects", {"name": "p"}, key="one"), 201)
    path = f"/v1/projects/{project['id']}"
    rotated = ok(await person.post(f"{path}/dsn/rotate", {}, key="two"))
    body = {"kind": "automation_runner", "name": "n", "automation_id": "nightly"}
    credential = ok(await person.post(f"{path}/credentials", body, key="three"))["credential"]
    secrets = [started["device_code"], started["user_code"], key, project["dsn"], rotated["dsn"], credential]
    secrets += [dsn.split("//")[1].split("@")[0] for dsn in (project["dsn"], rotated["dsn"])]
    tables = [name for (name,) in await world.sql("select tablename from pg_tables where schemaname = 'public'")]
    assert {"events", "idempotency", "dsn_copies"} <= set(tables)
    for table in tables:
        text = "\n".join(str(row) for row in await world.sql(f'select to_jsonb(t)::text from "{table}" t'))
        for secret in secrets:
            assert secret not in text, table
            assert secret.encode().hex() not in text, table
