"""Logs and analytics over HTTP: what is taken, from whom, and what is answered (R-ING, G-026, G-030)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from service.packing import unpack
from tests.support import long_after, seen
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.cluster import TestCluster
from tests.support.server import ServerHandle, running_server

pytestmark = pytest.mark.shares_server

LOG: dict[str, Any] = {
    "level": "error",
    "message": "Payment 17 failed",
    "environment": "staging",
    "release": "1.2.3",
    "user": {"id": "u1", "email": "u1@example.com", "plan": "pro"},
    "tags": {"region": "eu"},
    "extra": {"exception": {"type": "PaymentError", "frames": [{"file": "a.py", "function": "f", "in_app": True}]}},
}
EVENT: dict[str, Any] = {"event": "order_placed", "distinct_id": "u1", "properties": {"total": 3}}
BODIES = {"/v1/logs/": LOG, "/v1/analytics/": EVENT}


@pytest.fixture
async def project(world: World):
    """A project of a fresh owner: (owner, project, its DSN as a caller)."""
    owner = await world.sign_in()
    made = await owner.create_project()
    return owner, made, world.having(made["dsn"])


async def stored(world: World, project_id: str) -> tuple[int, int]:
    [[logs, events]] = await world.sql(
        "select (select count(*) from log_events where project_id = %s), "
        "(select count(*) from analytics_events where project_id = %s)",
        project_id,
        project_id,
    )
    return logs, events


async def test_a_log_is_accepted_stored_and_in_its_case(world: World, project):
    owner, made, dsn = project
    answer = ok(await dsn.post("/v1/logs/", LOG), 202)
    assert set(answer) == {
        "ok",
        "accepted",
        "id",
        "project_id",
        "received_at",
        "level",
        "case_id",
        "fingerprint",
        "next_action",
    }
    assert (answer["ok"], answer["accepted"], answer["project_id"], answer["level"]) == (
        True,
        True,
        made["id"],
        "error",
    )
    assert answer["id"].startswith("log_")
    assert len(answer["fingerprint"]) == 32
    case = ok(await owner.get(f"/v1/cases/{answer['case_id']}"))
    assert (case["fingerprint"], case["event_count"], case["latest_event"]["id"]) == (
        answer["fingerprint"],
        1,
        answer["id"],
    )


async def test_below_error_level_there_is_no_case(world: World, project):
    _, _, dsn = project
    answer = ok(await dsn.post("/v1/logs/", {"message": "m", "level": "warn", "unknown": [1]}), 202)
    assert (answer["level"], answer["case_id"], answer["fingerprint"]) == ("warning", None, None)


async def test_an_analytics_event_is_accepted_and_stored(world: World, project):
    _, made, dsn = project
    answer = ok(await dsn.post("/v1/analytics/", EVENT), 202)
    assert set(answer) == {"ok", "accepted", "id", "project_id", "received_at", "event", "next_action"}
    assert (answer["event"], answer["id"][:4]) == ("order_placed", "evt_")
    assert await stored(world, made["id"]) == (0, 1)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/logs/", {}, None),
        ("/v1/logs/", {**LOG, "message": ""}, "message"),
        ("/v1/logs/", {**LOG, "message": "x" * 8193}, "message"),
        ("/v1/logs/", {**LOG, "message": 7}, "message"),
        ("/v1/logs/", {**LOG, "level": "loud"}, "level"),
        ("/v1/logs/", {**LOG, "environment": ""}, "environment"),
        ("/v1/logs/", {**LOG, "release": "x" * 201}, "release"),
        ("/v1/logs/", {**LOG, "user": {"id": ""}}, "user.id"),
        ("/v1/logs/", {**LOG, "user": {"email": "a@b"}}, None),
        ("/v1/logs/", {**LOG, "tags": {"a": 1}}, "tags.a"),
        ("/v1/logs/", {**LOG, "tags": {str(n): "" for n in range(51)}}, "tags"),
        ("/v1/logs/", {**LOG, "extra": []}, "extra"),
        ("/v1/logs/", {**LOG, "extra": {"a": "x" * 66000}}, "extra"),
        ("/v1/analytics/", {}, None),
        ("/v1/analytics/", {**EVENT, "event": ""}, "event"),
        ("/v1/analytics/", {**EVENT, "distinct_id": "x" * 201}, "distinct_id"),
        ("/v1/analytics/", {**EVENT, "properties": {str(n): n for n in range(201)}}, "properties"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_by_name(world: World, project, path, body, field):
    _, made, dsn = project
    error = refused(await dsn.post(path, body), 400, "invalid_payload")
    details = error["details"]
    assert details["request_body_schema"]
    if field is None:
        assert details["missing_fields"]
    else:
        assert [found["field"].split("[")[0] for found in details["invalid_fields"]] == [field]
    assert await stored(world, made["id"]) == (0, 0)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b'{"message": 1e400', b'{"a":1,"a":2}', b"\xff", b"null"])
async def test_what_is_no_json_object_is_refused(world: World, project, path, raw):
    _, _, dsn = project
    refused(await dsn.post(path, content=raw, headers={"content-type": "application/json"}), 400, "invalid_payload")


@pytest.mark.parametrize("path", BODIES)
async def test_a_body_that_is_too_large_is_refused_unread(world: World, project, path):
    _, _, dsn = project
    body = json.dumps({**BODIES[path], "padding": "x" * 262144}).encode()
    error = refused(
        await dsn.post(path, content=body, headers={"content-type": "application/json"}), 413, "payload_too_large"
    )
    assert error["details"]["max_bytes"] == 262144


@pytest.mark.parametrize("path", BODIES)
async def test_a_browser_beacon_is_taken_as_text(world: World, project, path):
    _, made, _ = project
    body = json.dumps(BODIES[path])
    answer = await world.post(
        path, content=body, params={"dsn": made["dsn"]}, headers={"content-type": "text/plain;charset=UTF-8"}
    )
    ok(answer, 202)
    assert answer.headers["access-control-allow-origin"] == "*"
    refused(
        await world.having(made["dsn"]).post(path, content=body, headers={"content-type": "text/xml"}),
        415,
        "unsupported_media_type",
    )


@pytest.mark.parametrize("path", BODIES)
async def test_the_path_without_its_slash_is_the_same_route(world: World, project, path):
    _, _, dsn = project
    first = ok(await dsn.post(path, BODIES[path], key="k"), 202)
    again = await dsn.post(path.rstrip("/"), BODIES[path], key="k")
    assert again.headers["idempotent-replayed"] == "true"
    assert ok(again, 202) == first


@pytest.mark.parametrize("path", BODIES)
async def test_only_a_dsn_of_the_project_gets_in(world: World, project, path):
    owner, made, dsn = project
    ci = (await owner.create_credential(made["id"], "ci"))["credential"]
    runner = (
        await owner.create_credential(made["id"], "runner", kind="automation_runner", automation_id="error-to-draft-pr")
    )["credential"]
    for secret in (owner.secret, ci, runner):
        refused(await world.having(secret).post(path, BODIES[path]), 403, "principal_not_allowed")
    key = made["dsn"].partition("//")[2].partition("@")[0]
    ok(await world.having(key).post(path, BODIES[path]), 202)
    ok(await world.post(path, BODIES[path], headers={"x-service-dsn": made["dsn"]}), 202)
    other = await owner.create_project("other")
    crossed = made["dsn"].rpartition("/")[0] + "/" + other["dsn"].rpartition("/")[2]
    wrong = [
        await world.post(path, BODIES[path]),
        await world.having("service_dsn_" + "A" * 43).post(path, BODIES[path]),
        await world.having(crossed).post(path, BODIES[path]),
        await dsn.post(path, BODIES[path], headers={"x-service-dsn": other["dsn"]}),
    ]
    assert [answer.status_code for answer in wrong] == [401] * 4
    assert len({json.dumps(without_request_id(answer)[1]["code"]) for answer in wrong}) == 1
    assert sum(await stored(world, made["id"])) == 2
    assert await stored(world, other["id"]) == (0, 0)


@pytest.mark.parametrize("path", BODIES)
async def test_a_rotated_dsn_is_dead_at_once(world: World, project, path):
    owner, made, dsn = project
    ok(await dsn.post(path, BODIES[path]), 202)
    fresh = ok(await owner.post(f"/v1/projects/{made['id']}/dsn/rotate", {}))
    refused(await dsn.post(path, BODIES[path]), 401, "unauthenticated")
    ok(await world.having(fresh["dsn"]).post(path, BODIES[path]), 202)
    assert sum(await stored(world, made["id"])) == 2


async def test_nothing_begun_after_a_rotation_is_stored(world: World, project):
    """Under load, again and again: once the rotation is answered the old DSN is dead (R-PROJ-06)."""
    owner, made, dsn = project
    accepted = 0
    for _ in range(4):
        rotated = asyncio.Event()
        late: list[int] = []

        async def client(caller: Any, rotated: asyncio.Event = rotated, late: list[int] = late) -> int:
            count = 0
            while True:
                begun_after = rotated.is_set()
                status = (await caller.post("/v1/logs/", LOG)).status_code
                count += status == 202
                if begun_after:
                    late.append(status)
                    return count

        clients = asyncio.gather(*(client(dsn) for _ in range(12)))
        await asyncio.sleep(0.2)
        fresh = ok(await owner.post(f"/v1/projects/{made['id']}/dsn/rotate", {}))
        rotated.set()
        accepted += sum(await clients)
        assert late == [401] * 12
        dsn = world.having(fresh["dsn"])
    assert accepted > 50
    assert (await stored(world, made["id"]))[0] == accepted


@pytest.mark.parametrize("path", BODIES)
async def test_a_key_is_stored_once(world: World, project, path):
    _, made, dsn = project
    body = BODIES[path]
    first = await dsn.post(path, body, key="event-1")
    reordered = json.dumps(dict(reversed(body.items())), indent=1)
    again = await dsn.post(path, content=reordered, key="event-1", headers={"content-type": "application/json"})
    assert ok(first, 202) == ok(again, 202)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    refused(await dsn.post(path, {**body, "more": 1}, key="event-1"), 422, "idempotency_key_reused")
    refused(await dsn.post(path, body, key="a b"), 400, "invalid_payload")
    twins = await at_once(12, lambda _: dsn.post(path, body, key="event-2"))
    assert len({answer.text for answer in twins}) == 1
    assert sum(await stored(world, made["id"])) == 2


async def test_a_fenced_project_takes_nothing(world: World, project):
    _, made, dsn = project
    await world.sql("update projects set status = 'fenced' where project_id = %s", made["id"])
    for path, body in BODIES.items():
        error = refused(await dsn.post(path, body), 409, "project_deletion_in_progress")
        assert error["retryable"] is False
    refused(await dsn.get("/v1/analytics/browser-config"), 409, "project_deletion_in_progress")
    assert await stored(world, made["id"]) == (0, 0)


async def test_secrets_are_hidden_and_counted(world: World, project):
    _, made, dsn = project
    secret = "service_sk_" + "a1B2" * 10
    body = {
        "level": "error",
        "message": f"leaked {secret}",
        "tags": {"Set-Cookie": "c"},
        "user": {"id": "u", "pass_word": 1},
    }
    ok(await dsn.post("/v1/logs/", body), 202)
    ok(await dsn.post("/v1/analytics/", {**EVENT, "properties": {"a": [secret]}}), 202)
    dump = await world.sql("select row_to_json(e)::text from log_events e where project_id = %s", made["id"])
    dump += await world.sql("select row_to_json(e)::text from analytics_events e where project_id = %s", made["id"])
    dump += await world.sql("select row_to_json(e)::text from case_stats e where project_id = %s", made["id"])
    dump += await world.sql("select row_to_json(e)::text from events e where project_id = %s", made["id"])
    assert len(dump) >= 4
    assert not [text for (text,) in dump if secret in text]
    assert await world.sql("select scrubbed, scrubbed_kinds from usage_days where project_id = %s", made["id"]) == [
        (4, {"name": 2, "service_secret": 2})
    ]


@pytest.mark.parametrize("moves", long_after(1, [8, 20]))
async def test_what_is_sent_after_the_clock_was_moved_has_the_new_time(world: World, project, moves: int):
    """Also while flushes are under way: each takes its time when all that is in it has been sent (G-120)."""
    _, _, dsn = project
    moved = asyncio.Event()

    async def keep_busy(number: int) -> None:
        while not moved.is_set():
            ok(await dsn.post("/v1/logs/", {**LOG, "message": f"kind {'abcd'[number % 4]}"}), 202)

    busy = [asyncio.create_task(keep_busy(number)) for number in range(8)]
    for turn in range(moves):
        told = ok(await world.test_operator.post("/v1/test-clock/advance", {"seconds": 1000}))
        known, new = {**LOG, "message": "kind a"}, {**LOG, "message": f"new kind {'efghijkl'[turn % 8]}"}
        for answer in await asyncio.gather(dsn.post("/v1/logs/", known), dsn.post("/v1/logs/", new)):
            assert ok(answer, 202)["received_at"] >= told["server_time"]
    moved.set()
    await asyncio.gather(*busy)


@pytest.fixture(scope="module")
def adjusted(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """A server with the operator's settings of ingest, and two processes."""
    env = {"SERVICE_SCRUB_NAMES": "card-number,plate", "SERVICE_NEW_CASES_PER_HOUR": "2", "SERVICE_WORKERS": "2"}
    with running_server(tmp_path_factory.mktemp("adjusted"), cluster, env) as handle:
        yield handle


async def test_an_operator_may_hide_more_names(adjusted: ServerHandle):
    async with seen.async_client(adjusted.base_url, timeout=30) as client:
        world = World(client, adjusted)
        made = await (await world.sign_in()).create_project()
        body = {**EVENT, "properties": {"cardNumber": "4111", "number": 1, "License_Plate": "B"}}
        ok(await world.having(made["dsn"]).post("/v1/analytics/", body), 202)
        assert await world.sql("select properties from analytics_events") == [
            ({"cardNumber": "[scrubbed]", "number": 1, "License_Plate": "[scrubbed]"},)
        ]


ODD = (
    r'"wide": 9007199254740993, "far": [1e999], "text": "a\u0000b\ud800", "na\u0000me": 1, "deep": '
    + "[" * 70
    + "]" * 70
)
PLACES = ["wide", "text", "na\ufffdme", "far[0]", "deep" + "[0]" * 62]


@pytest.mark.parametrize(
    ("path", "start", "holder", "table"),
    [
        ("/v1/logs/", '{"message": "m", "level": null, ', "extra", "log_events"),
        ("/v1/analytics/", '{"event": "e", "distinct_id": "d", ', "properties", "analytics_events"),
    ],
)
async def test_what_is_odd_is_adjusted_and_counted(world: World, project, path, start, holder, table):
    """The record says where; the key's fingerprint is that of the adjusted body (G-133)."""
    _, made, dsn = project
    json_type = {"content-type": "application/json"}
    raw = (start + f'"{holder}": {{{ODD}}}}}').encode()
    answer = ok(await dsn.post(path, content=raw, headers=json_type, key="odd"), 202)
    assert answer["adjusted"] == 5
    [(kept, places)] = await world.sql(f"select {holder}, adjusted from {table} where project_id = %s", made["id"])
    assert (kept["wide"], kept["far"], kept["text"], kept["na\ufffdme"]) == (
        "9007199254740993",
        ["1e999"],
        "a\ufffdb\ufffd",
        1,
    )
    assert places == [f"{holder}.{place}" for place in PLACES]
    plain = json.dumps({**json.loads(start + '"x": 1}'), holder: kept}).replace('"x": 1, ', "").encode()
    again = await dsn.post(path, content=plain, headers=json_type, key="odd")
    assert again.json() == answer
    assert "adjusted" not in ok(await dsn.post(path, BODIES[path]), 202)


@pytest.mark.parametrize(("path", "holder"), [("/v1/logs/", "extra"), ("/v1/analytics/", "properties")])
async def test_a_record_of_too_many_values_is_cut(world: World, project, path, holder):
    _, made, dsn = project
    body = {**BODIES[path], holder: {"many": {f"{n:x}": 1 for n in range(7_000)}}}
    answer = ok(await dsn.post(path, body), 202)
    assert answer["adjusted"] == 1
    if holder == "extra":
        [(packed,)] = await world.sql("select packed from log_events where project_id = %s", made["id"])
        kept = unpack(packed)
    else:
        [(kept,)] = await world.sql("select properties from analytics_events where project_id = %s", made["id"])
    assert 4_900 < len(kept["many"]) < 5_000


async def test_what_was_adjusted_is_shown_where_the_record_is(world: World, project):
    """At the case and at the person: whoever reads a value learns that it is not what was sent."""
    owner, made, dsn = project
    odd = b'{"message": "m", "level": "error", "user": {"id": "u"}, "extra": {"n": 9007199254740993}}'
    json_type = {"content-type": "application/json"}
    case_id = ok(await dsn.post("/v1/logs/", content=odd, headers=json_type), 202)["case_id"]
    event = b'{"event": "e", "distinct_id": "u", "properties": {"far": 1e999}}'
    ok(await dsn.post("/v1/analytics/", content=event, headers=json_type), 202)
    case = ok(await owner.get(f"/v1/cases/{case_id}"))
    assert case["latest_event"]["adjusted"] == ["extra.n"]
    assert case["origins"]["/latest_event/adjusted"] == "untrusted_telemetry"
    recent = ok(await owner.get(f"/v1/projects/{made['id']}/users/u/summary"))["recent_events"]
    assert {event["name"]: event["adjusted"] for event in recent} == {"m": ["extra.n"], "e": ["properties.far"]}


async def test_a_refusal_names_the_member_that_is_there_twice(world: World, project):
    _, _, dsn = project
    raw = b'{"level": "error", "message": "m", "extra": {"a": [{"b": 1e400, "c": 1, "c": 2}]}}'
    error = refused(
        await dsn.post("/v1/logs/", content=raw, headers={"content-type": "application/json"}), 400, "invalid_payload"
    )
    assert [fault["field"] for fault in error["details"]["invalid_fields"]] == ["extra.a[0].c"]


async def test_every_door_names_the_member_that_is_there_twice(world: World, project):
    """Also where nothing is adjusted, for an item of several, and in the body of another's SDK."""
    owner, made, dsn = project
    headers = {"content-type": "application/json"}
    twice = b'{"name": "shop", "name": "shop"}'
    strict = refused(await owner.post("/v1/projects", content=twice, headers=headers), 400, "invalid_payload")
    log = b'{"level": "error", "message": "m", "extra": {"a": [{"b": 1, "b": 2}]}}'
    alone = refused(await dsn.post("/v1/logs/", content=log, headers=headers), 400, "invalid_payload")
    items = ok(await dsn.post("/v1/logs/", content=b"[%b, %b]" % (log, log), headers=headers), 202)["items"]
    event = b'{"api_key": "%b", "event": "e", "event": "e"}' % made["sdks"]["posthog_key"].encode()
    sdk = refused(await world.call("POST", "/e/", content=event), 400, "invalid_payload")
    places = [error["details"]["invalid_fields"][0]["field"] for error in (strict, alone, sdk)]
    assert places == ["name", "extra.a[0].b", "event"]
    assert [item["error"]["details"]["invalid_fields"][0]["field"] for item in items] == ["extra.a[0].b"] * 2


async def test_deploys_stay_strict(world: World, project):
    _, _, dsn = project
    raw = b'{"version": "1", "more": 9007199254740993}'
    refused(
        await dsn.post("/v1/deploys/", content=raw, headers={"content-type": "application/json"}),
        400,
        "invalid_payload",
    )


async def test_errors_without_end_are_one_case_of_the_hour(adjusted: ServerHandle):
    """The limit is a setting; the list, the page and the project's health show what it came to (G-136)."""
    async with seen.async_client(adjusted.base_url, timeout=30) as client:
        world = World(client, adjusted)
        owner = await world.sign_in()
        made = await owner.create_project()
        path = f"/v1/projects/{made['id']}"
        dsn = world.having(made["dsn"])
        [[seconds]] = await world.sql("select 3660 - extract(epoch from service_now())::bigint %% 3600")
        await world.wait(seconds)
        answers = await at_once(
            12, lambda n: dsn.post("/v1/logs/", {"level": "error", "message": f"new {'abcdefghijkl'[n]}"})
        )
        cases = [ok(answer, 202)["case_id"] for answer in answers]
        listed = ok(await owner.get(f"{path}/cases"))["cases"]
        [beyond] = [case for case in listed if case.get("overflow")]
        assert sorted(case["event_count"] for case in listed) == [1, 1, 10]
        assert (beyond["status"], cases.count(beyond["id"])) == ("open", 10)
        page = ok(await owner.get(f"/v1/cases/{beyond['id']}"))
        assert page["overflow"]
        assert "reached its limit of new cases" in page["title"]
        assert "in the next hour" in page["next_action"]
        health = ok(await owner.get(f"{path}/health"))
        assert health["new_cases"] == {
            "hour_started_at": health["new_cases"]["hour_started_at"],
            "opened": 2,
            "limit": 2,
            "public_opened": 0,
            "public_limit": 1,
            "overflow_case_id": beyond["id"],
        }
        assert health["open_cases"] == 3
        assert health["new_cases"]["hour_started_at"] % 3600 == 0
        assert "overflow_case_id" in health["next_action"]


async def test_what_is_accepted_counts_once(world: World, project):
    owner, made, dsn = project
    for _ in range(3):
        ok(await dsn.post("/v1/logs/", LOG, key="same"), 202)
    ok(await dsn.post("/v1/logs/", {**LOG, "level": "info"}), 202)
    ok(await dsn.post("/v1/analytics/", EVENT), 202)
    refused(await dsn.post("/v1/analytics/", {}), 400, "invalid_payload")
    rows = await world.sql("select account_id, errors, analytics from usage_days where project_id = %s", made["id"])
    assert rows == [(owner.user_id, 2, 1)]


async def test_the_browser_is_told_that_nothing_is_recorded(world: World, project):
    _, made, dsn = project
    answer = ok(await dsn.get("/v1/analytics/browser-config"))
    assert answer["ok"] is True
    assert answer["replay"]["enabled"] is False
    assert answer["replay"]["provider"]
    assert answer["replay"]["reason"]
    ok(await world.get("/v1/analytics/browser-config", params={"dsn": made["dsn"]}))
    refused(await world.get("/v1/analytics/browser-config"), 401, "unauthenticated")


async def figures(world: World) -> dict[str, float]:
    """The counters of ingest by kind and outcome."""
    text = (await world.get("/metrics")).text
    found = [line for line in text.splitlines() if line.startswith("service_ingest_records_total{")]
    return {line.partition("{")[2].partition("}")[0]: float(line.rpartition(" ")[2]) for line in found}


async def test_outcomes_add_up_to_what_was_received(world: World, project):
    _, made, dsn = project
    before = await figures(world)
    for path, body in BODIES.items():
        ok(await dsn.post(path, body), 202)
        refused(await dsn.post(path, {}), 400, "invalid_payload")
        refused(await dsn.post(path, {"padding": "x" * 262144}), 413, "payload_too_large")
        refused(await world.post(path, body), 401, "unauthenticated")
    await world.sql("update projects set status = 'fenced' where project_id = %s", made["id"])
    refused(await dsn.post("/v1/logs/", LOG), 409, "project_deletion_in_progress")
    after = await figures(world)
    grown = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert grown == {
        'kind="logs",outcome="accepted"': 1,
        'kind="logs",outcome="malformed"': 2,
        'kind="logs",outcome="refused"': 2,
        'kind="analytics",outcome="accepted"': 1,
        'kind="analytics",outcome="malformed"': 2,
        'kind="analytics",outcome="refused"': 1,
    }


async def test_two_processes_open_one_case(world: World, project, server_factory):
    """First errors of one fingerprint reach two API processes at the same moment."""
    _, made, dsn = project
    right = server_factory(database_url=world.server.database_url)
    limits = httpx2.Limits(max_connections=64)
    async with seen.async_client(right.base_url, timeout=30, limits=limits) as other:
        sides = [dsn, World(other, right).having(made["dsn"])]
        for turn in range(12):
            body = {"level": "error", "message": f"race {'abcdefghijkl'[turn]} happened"}
            answers = await asyncio.gather(*(side.post("/v1/logs/", body) for side in sides for _ in range(8)))
            assert len({ok(answer, 202)["case_id"] for answer in answers}) == 1
    rows = await world.sql("select event_count from case_stats where project_id = %s", made["id"])
    assert rows == [(16,)] * 12
    opened = "select count(*) from events where kind = 'case' and project_id = %s"
    assert await world.sql(opened, made["id"]) == [(12,)]
