"""Many records in one body over HTTP: each is taken as if it had come alone (G-143)."""

from __future__ import annotations

import gzip
import json
from typing import Any

import brotli
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.http.cases.test_ingest import BODIES, EVENT, LOG, figures, stored
from tests.service.http.cases.test_ingest import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414

pytestmark = pytest.mark.shares_server

AS_JSON = {"content-type": "application/json"}
AS_LINES = {"content-type": "application/x-ndjson"}


def lines(items: list[Any]) -> bytes:
    return b"\n".join(json.dumps(item).encode() for item in items)


async def send(caller: Any, path: str, items: list[Any], form: str, **more: Any) -> dict[str, Any]:
    """Send a batch in one of its forms; returns the answer, in which every item has its place."""
    raw, headers = (json.dumps(items).encode(), AS_JSON) if form == "array" else (lines(items), AS_LINES)
    answer = ok(await caller.post(path, content=raw, headers=headers, **more), 202)
    assert set(answer) == {"items", "accepted", "refused", "next_action"}
    assert [item["index"] for item in answer["items"]] == list(range(len(items)))
    assert answer["accepted"] + answer["refused"] == len(items)
    assert answer["accepted"] == [item["status"] for item in answer["items"]].count(202)
    return answer


@pytest.mark.parametrize("form", ["array", "lines"])
@pytest.mark.parametrize("path", BODIES)
async def test_every_item_is_stored_or_refused_by_itself(world: World, project, path, form):
    """A refusal names the field at fault; the others are stored all the same, and counted exactly."""
    owner, made, dsn = project
    before = await figures(world)
    answer = await send(dsn, path, [BODIES[path], {"x": 1}, 7, BODIES[path]], form)
    first, nothing, number, last = answer["items"]
    assert (first["status"], last["status"]) == (202, 202)
    assert first["id"] != last["id"]
    assert nothing["error"]["code"] == number["error"]["code"] == "invalid_payload"
    assert nothing["error"]["details"]["missing_fields"]
    assert "request_body_schema" not in nothing["error"]["details"]
    kind = "logs" if path == "/v1/logs/" else "analytics"
    assert await stored(world, made["id"]) == ((2, 0) if kind == "logs" else (0, 2))
    if kind == "logs":
        assert first["case_id"] == last["case_id"]
        assert ok(await owner.get(f"/v1/cases/{first['case_id']}"))["event_count"] == 2
    usage = await world.sql("select errors + analytics from usage_days where project_id = %s", made["id"])
    assert usage == [(2,)]
    after = await figures(world)
    grown = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert grown == {f'kind="{kind}",outcome="accepted"': 2, f'kind="{kind}",outcome="malformed"': 2}


@pytest.mark.parametrize(
    "raw", [b'[{"message": "a"}, {"message": 01}, {"message": "b"}]', b'{"message": "a"}\n{"mess\n\n{"message": "b"}\n']
)
async def test_an_item_that_is_no_json_is_refused_alone(world: World, project, raw):
    _, _, dsn = project
    headers = AS_JSON if raw.startswith(b"[") else AS_LINES
    answer = ok(await dsn.post("/v1/logs/", content=raw, headers=headers), 202)
    assert [item["status"] for item in answer["items"]] == [202, 400, 202]


async def test_what_is_odd_in_an_item_is_adjusted_in_it(world: World, project):
    """Deeper than any decoder goes, numbers out of range, NUL: the item says how many places were changed (G-133)."""
    _, made, dsn = project
    deep = '{"message": "deep", "extra": {"a": ' + "[" * 5_000 + "]" * 5_000 + "}}"
    raw = f'[{deep}, {{"message": "a\\u0000b", "extra": {{"n": 9007199254740993}}}}, {{"message": "c"}}]'
    answer = ok(await dsn.post("/v1/logs/", content=raw.encode(), headers=AS_JSON), 202)
    assert [item.get("adjusted") for item in answer["items"]] == [1, 2, None]
    rows = await world.sql("select message, adjusted from log_events where project_id = %s order by 1", made["id"])
    assert [row[0] for row in rows] == ["a\ufffdb", "c", "deep"]
    assert rows[0][1] == ["message", "extra.n"]


@pytest.mark.parametrize(
    ("raw", "headers", "status", "limit"),
    [
        (b"[]", AS_JSON, 400, {}),
        (b"\n \n", AS_LINES, 400, {}),
        (b'[{"message": "m"}', AS_JSON, 400, {}),
        (b'[{"message": "m"}]]', AS_JSON, 400, {}),
        (b'[{"message": "m"}] 1', AS_JSON, 400, {}),
        (b"[" + b"{}," * 1000 + b"{}]", AS_JSON, 413, {"max_items": 1000}),
        (b"{}\n" * 1001, AS_LINES, 413, {"max_items": 1000}),
        (b"[" + b"0," * 500_000 + b"0]", AS_JSON, 413, {"max_items": 1000}),
        (b'["' + b"x" * 1048576 + b'"]', AS_JSON, 413, {"max_bytes": 1048576}),
        (b"x" * 1048577, AS_LINES, 413, {"max_bytes": 1048576}),
        (b'{"message": "' + b"x" * 262144 + b'"}', AS_JSON, 413, {"max_bytes": 262144}),
    ],
)
async def test_what_is_no_batch_changes_nothing(world: World, project, raw, headers, status, limit):
    """The refusal shows the schema: that of one record in an array."""
    _, made, dsn = project
    code = "invalid_payload" if status == 400 else "payload_too_large"
    error = refused(await dsn.post("/v1/logs/", content=raw, headers=headers), status, code)
    if limit:
        assert error["details"] == limit
        [unit] = limit
        assert unit.removeprefix("max_") in error["next_action"], "of items not their bytes"
    else:
        alone = refused(await dsn.post("/v1/logs/", content=b"{", headers=AS_JSON), 400, "invalid_payload")
        item = alone["details"]["request_body_schema"]
        many = {"type": "array", "minItems": 1, "maxItems": 1000, "items": item}
        assert error["details"]["request_body_schema"] == many
    assert await stored(world, made["id"]) == (0, 0)


@pytest.mark.parametrize("path", BODIES)
async def test_an_item_is_known_by_its_id(world: World, project, path):
    """In one batch, in the next, and alone under the same key: once; with another content it is refused."""
    _, made, dsn = project
    one, two = {**BODIES[path], "id": "a-1"}, {**BODIES[path], "id": "a-2"}
    first = await send(dsn, path, [one, one, two], "array")
    assert [item.get("replayed", False) for item in first["items"]] == [False, True, False]
    assert first["items"][0]["id"] == first["items"][1]["id"]
    again = await send(dsn, path, [two, one, BODIES[path]], "lines")
    assert [item.get("replayed", False) for item in again["items"]] == [True, True, False]
    assert again["items"][1]["id"] == first["items"][0]["id"]
    alone = ok(await dsn.post(path, BODIES[path], key="a-1"), 202)
    assert alone["id"] == first["items"][0]["id"]
    field = "message" if path == "/v1/logs/" else "event"
    bad = await send(dsn, path, [{**one, field: "other"}, {**one, "id": 7}, {**one, "id": "x" * 256}], "array")
    assert [item["error"]["code"] for item in bad["items"]] == ["idempotency_key_reused", *["invalid_payload"] * 2]
    told = bad["items"][0]["error"]
    assert told["message"] == "The id of this item was used for a different item."
    assert "Key" not in told["next_action"], "nobody has sent one"
    assert sum(await stored(world, made["id"])) == 3


async def test_the_key_of_a_batch_is_that_of_its_items(world: World, project):
    """Items without ids of their own are known by their places under it."""
    _, made, dsn = project
    items = [LOG, {**LOG, "id": "own"}, {**LOG, "message": "another"}]
    first = await send(dsn, "/v1/logs/", items, "array", key="batch-1")
    again = await send(dsn, "/v1/logs/", items, "array", key="batch-1")
    assert [item["id"] for item in again["items"]] == [item["id"] for item in first["items"]]
    assert await stored(world, made["id"]) == (3, 0)


async def test_a_thousand_items_are_one_case(world: World, project):
    owner, made, dsn = project
    items = [{**LOG, "message": f"Payment {number} failed"} for number in range(1000)]
    answer = await send(dsn, "/v1/logs/", items, "lines")
    assert (answer["accepted"], await stored(world, made["id"])) == (1000, (1000, 0))
    [case_id] = {item["case_id"] for item in answer["items"]}
    assert ok(await owner.get(f"/v1/cases/{case_id}"))["event_count"] == 1000


async def test_a_fenced_project_takes_no_batch(world: World, project):
    _, made, dsn = project
    body = json.dumps([LOG, LOG]).encode()
    await world.sql("update projects set status = 'fenced' where project_id = %s", made["id"])
    refused(await dsn.post("/v1/logs/", content=body, headers=AS_JSON), 409, "project_deletion_in_progress")
    refused(await world.post("/v1/logs/", content=body, headers=AS_JSON), 401, "unauthenticated")
    assert await stored(world, made["id"]) == (0, 0)


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("br", brotli.compress)])
@pytest.mark.parametrize("headers", [AS_JSON, AS_LINES])
async def test_a_batch_may_be_packed(project, headers, coding, pack):
    """Its limits are those of what is unpacked (threat 20)."""
    _, _, dsn = project
    packed = {**headers, "content-encoding": coding}
    raw = lines([LOG] * 2) if headers is AS_LINES else json.dumps([LOG] * 2).encode()
    assert ok(await dsn.post("/v1/logs/", content=pack(raw), headers=packed), 202)["accepted"] == 2
    bomb = pack(b"[" + b" " * 2_000_000 + b"{}]")
    refused(await dsn.post("/v1/logs/", content=bomb, headers=packed), 413, "payload_too_large")
    refused(await dsn.post("/v1/logs/", content=raw, headers=packed), 400, "invalid_payload")


async def test_a_batch_says_that_it_is_json_in_utf_8(project):
    _, _, dsn = project
    latin = {"content-type": "application/json; charset=latin-1"}
    refused(await dsn.post("/v1/logs/", content=b"[{}]", headers=latin), 415, "unsupported_media_type")
    refused(
        await dsn.post("/v1/logs/", content=b"{}", headers={"content-type": "text/csv"}), 415, "unsupported_media_type"
    )


RECORDS = st.one_of(
    st.builds(
        lambda message, level, user: {"message": message, "level": level, **({"user": {"id": user}} if user else {})},
        st.sampled_from(["one failed", "two failed at 17", "odd \x00 text", ""]),
        st.sampled_from(["error", "fatal", "info", "loud"]),
        st.sampled_from(["", "u1", "u2"]),
    ),
    st.sampled_from([{}, 7, None, {"message": "far", "extra": {"n": 2**60}}]),
)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items=st.lists(RECORDS, min_size=1, max_size=12), form=st.sampled_from(["array", "lines"]))
async def test_a_batch_is_what_its_items_are_one_by_one(world: World, items, form):
    """The same rows, cases and counts."""
    owner = await world.sign_in()
    sides = [await owner.create_project() for _ in range(2)]
    together, alone = (world.having(made["dsn"]) for made in sides)
    answer = await send(together, "/v1/logs/", items, form)
    singly = [await alone.post("/v1/logs/", content=json.dumps(item).encode(), headers=AS_JSON) for item in items]
    assert [item["status"] for item in answer["items"]] == [one.status_code for one in singly]
    queries = (
        "select level, message, user_id, extra, fingerprint, adjusted from log_events where project_id = %s",
        (
            "select fingerprint, title, event_count, users_affected from case_stats join cases using (project_id, id) "
            "where project_id = %s order by fingerprint"
        ),
        "select errors, analytics, suppressed from usage_days where project_id = %s",
    )
    for query in queries:
        left, right = [sorted(await world.sql(query, made["id"]), key=repr) for made in sides]
        assert left == right


async def test_events_of_many_people(world: World, project):
    _, made, dsn = project
    items = [{**EVENT, "distinct_id": f"u{number}"} for number in range(300)]
    answer = await send(dsn, "/v1/analytics/", items, "array")
    assert len({item["id"] for item in answer["items"]}) == 300
    assert await stored(world, made["id"]) == (0, 300)
