"""Half an emoji or a NUL in one record costs that record a character, and its neighbours nothing (G-175, G-133)."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support import few_or_many
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.posthog import EXCEPTION, event
from tests.support.sentry import PYTHON_EVENT

pytestmark = pytest.mark.shares_server

PARTY = "party \ud83c"
"""What is left of 'party 🎉' when JavaScript cuts it at seven."""
HEALTHY = {"text": 'a 🎉 \\ud83c \\\\u0000 \n"', "nested": {"n": [1, "é"]}}
"""Escapes that look odd and are not: a pair of surrogates, and backslashes before what no longer is an escape."""

odd_texts = st.sampled_from(
    [PARTY, "\ud83c", "\udf89 x", "\0", "\\\ud83c", "\ud83c\ud83c\udf89", "\udf89\ud83c", "\udbff\0"]
)
few = few_or_many(5, 20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def clean(text: str) -> str:
    """The text as it is stored."""
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\0", "\ufffd")


class Route(NamedTuple):
    """A way to send events of PostHog: the body of a key and its events, and where it goes."""

    path: str
    write: Callable[[str, list[Any]], bytes]
    headers: Mapping[str, str] = {}


def as_batch(key: str, events: list[Any]) -> bytes:
    return json.dumps({"batch": events, "sent_at": "2026-11-22T10:00:01Z", "api_key": key}).encode()


def as_list(key: str, events: list[Any]) -> bytes:
    return json.dumps([{**one, "properties": {**one["properties"], "token": key}} for one in events]).encode()


def as_form(key: str, events: list[Any]) -> bytes:
    return b"data=" + quote(base64.b64encode(as_list(key, events)).decode(), safe="").encode()


FORM = {"content-type": "application/x-www-form-urlencoded"}
ROUTES = {
    "batch": Route("/batch/", as_batch),
    "batch packed": Route("/batch/", lambda *sent: gzip.compress(as_batch(*sent)), {"content-encoding": "gzip"}),
    "capture": Route("/capture/", as_batch),
    "e": Route("/e/", as_list),
    "e as a form": Route("/e/", as_form, FORM),
    "i": Route("/i/v0/e/", as_list),
    "i packed": Route("/i/v0/e/?compression=gzip-js", lambda *sent: gzip.compress(as_list(*sent))),
}


def named(text: str) -> dict[str, Any]:
    return event(event=f"odd {text}", properties={"which": "odd"})


def valued(text: str) -> dict[str, Any]:
    return event(properties={"which": "odd", "value": text})


def keyed(text: str) -> dict[str, Any]:
    return event(properties={"which": "odd", text: 1})


def nested(text: str) -> dict[str, Any]:
    return event(properties={"which": "odd", "deep": [{"list": [[text, {text: text}]]}]})


def identified(text: str) -> dict[str, Any]:
    return event(uuid=f"{event()['uuid']}{text}", properties={"which": "odd"})


def of_person(text: str) -> dict[str, Any]:
    return event(distinct_id=f"u{text}", properties={"which": "odd"})


async def events_of(world: World, project_id: str) -> list[tuple[Any, ...]]:
    query = "select event, distinct_id, properties, adjusted from analytics_events where project_id = %s order by id"
    return await world.sql(query, project_id)


@pytest.mark.parametrize("route", ROUTES)
@few
@given(
    text=odd_texts,
    make=st.sampled_from([named, valued, keyed, nested, identified, of_person]),
    before=st.integers(0, 2),
    after=st.integers(0, 2),
)
async def test_an_event_of_posthog_costs_its_neighbours_nothing(world: World, route, text, make, before, after):
    """By each route, wherever in the event it stands: the others are stored once and as they were sent."""
    made = await (await world.sign_in()).create_project()
    door, key = ROUTES[route], made["sdks"]["posthog_key"]
    healthy = [event(properties={**HEALTHY, "which": n}) for n in range(before + after)]
    odd = make(text)
    body = door.write(key, [*healthy[:before], odd, *healthy[before:]])
    for _ in range(2 if make is not identified else 1):
        ok(await world.call("POST", door.path, content=body, headers=dict(door.headers)))
    rows = await events_of(world, made["id"])
    stored = {row[2]["which"]: row for row in rows}
    assert len(rows) == len(stored) == len(healthy) + 1
    for number, one in enumerate(healthy):
        name, who, properties, adjusted = stored[number]
        assert (name, who, adjusted) == ("order placed", "u1", None)
        assert {**one["properties"], "$timestamp": one["timestamp"]} == properties
    name, who, properties, adjusted = stored["odd"]
    assert adjusted
    assert (name, who) == (clean(odd["event"]), clean(odd["distinct_id"]))
    if make in {named, identified, of_person}:
        assert properties == {"which": "odd", "$timestamp": odd["timestamp"]}
    if make is valued:
        assert (properties["value"], adjusted) == (clean(text), ["properties.value"])
    if make is keyed:
        assert properties[clean(text)] == 1
    if make is nested:
        assert properties["deep"] == [{"list": [[clean(text), {clean(text): clean(text)}]]}]


async def test_an_exception_of_posthog_is_stored_beside_its_neighbours(world: World):
    """The odd text is that of the exception; the case is called after what is stored."""
    made = await (await world.sign_in()).create_project()
    sent = event(EXCEPTION)
    sent["properties"] = {**sent["properties"], "$exception_list": [{"type": "E", "value": PARTY}]}
    body = as_batch(made["sdks"]["posthog_key"], [event(), sent, event()])
    assert ok(await world.call("POST", "/batch/", content=body)) == {"status": 1}
    query = "select message, adjusted from log_events where project_id = %s"
    assert await world.sql(query, made["id"]) == [
        ("party \ufffd", ["properties.$exception_list[0].value"]),
    ]
    assert len(await events_of(world, made["id"])) == 2


@pytest.mark.parametrize("odd", [PARTY, "\0"])
@pytest.mark.parametrize("path", ["/batch/", "/capture/", "/e/", "/i/v0/e/", "/flags/"])
async def test_a_key_is_never_adjusted_into_one(world: World, path, odd):
    """A key with an odd character is none that is known; a sender known by the head has the event stored."""
    made = await (await world.sign_in()).create_project()
    key = made["sdks"]["posthog_key"]
    for body in (
        {"api_key": key + odd, "batch": [event()]},
        {"api_key": key + odd, **event()},
        [event(properties={"token": odd + key})],
    ):
        refused(await world.call("POST", path, content=json.dumps(body).encode()), 401, "unauthenticated")
    assert await world.telemetry(made["id"]) == 0
    body = json.dumps({"api_key": key + odd, **event()}).encode()
    ok(await world.call("POST", path, content=body, headers={"authorization": f"Bearer {key}"}))
    assert len(await events_of(world, made["id"])) == (path != "/flags/")


async def test_an_odd_token_of_one_listed_event_is_that_event_s_matter(world: World):
    """It is of another project than the first, like any other event with another key."""
    made = await (await world.sign_in()).create_project()
    key = made["sdks"]["posthog_key"]
    listed = [event(properties={"token": token}) for token in (key, key + PARTY, key)]
    answer = ok(await world.call("POST", "/e/", content=json.dumps(listed).encode()))
    assert answer == {"status": 1, "refused": 1}
    assert len(await events_of(world, made["id"])) == 2


NO_JSON = [
    b"",
    b"{",
    b"\x00\xff",
    b'{"batch": [{}]',
    b'{"a": "\\ud8"}',
    b'{"a": "\\ud83c"',
    b"data=%25%25",
    b"7 7",
    b"{} {}",
]
NO_KEY = [
    b"{}",
    b"[]",
    b"7",
    b"null",
    b'"a"',
    b'{"batch": 7}',
    b'{"batch": [{}]}',
    b'["\\ud83c"]',
    b"data=e30=",
    b'{"api_key": 7}',
]


@pytest.mark.parametrize("path", ["/batch/", "/capture/", "/e/", "/i/v0/e/", "/flags/", "/decide/"])
async def test_where_the_key_is_in_the_body_alone_no_json_is_400(world: World, path):
    """And JSON without a key is 401; doors with another place for a credential check that first (G-007)."""
    for body in NO_JSON:
        error = refused(await world.call("POST", path, content=body), 400, "invalid_payload")
        assert error["details"]["invalid_fields"]
    for body in NO_KEY:
        refused(await world.call("POST", path, content=body), 401, "unauthenticated")


@pytest.mark.parametrize("path", ["/v1/logs/", "/v1/analytics/", "/api/1/envelope/", "/api/1/store/"])
async def test_other_doors_check_the_credential_first(world: World, path):
    for body in NO_JSON:
        refused(await world.call("POST", path, content=body), 401, "unauthenticated")


AS_JSON = {"content-type": "application/json"}
RECORD = {"timeUnixNano": "1800000000000000000", "severityNumber": 9}


def attribute(name: str, value: str) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": value}}


def in_body(text: str) -> dict[str, Any]:
    return {"body": {"stringValue": text}}


def in_a_value(text: str) -> dict[str, Any]:
    return {"body": {"stringValue": "odd"}, "attributes": [attribute("a", text)]}


def in_a_key(text: str) -> dict[str, Any]:
    return {"body": {"stringValue": "odd"}, "attributes": [attribute(text, "v")]}


def in_a_list(text: str) -> dict[str, Any]:
    members = {"kvlistValue": {"values": [attribute(text, text)]}}
    value = {"arrayValue": {"values": [{"stringValue": text}, members]}}
    return {"body": {"stringValue": "odd"}, "attributes": [{"key": "a", "value": value}]}


def in_an_id(text: str) -> dict[str, Any]:
    return {"body": {"stringValue": "odd"}, "traceId": text, "severityText": text}


def in_an_exception(text: str) -> dict[str, Any]:
    return {"attributes": [attribute("exception.type", "E"), attribute("exception.message", text)]}


@few
@given(
    text=odd_texts,
    make=st.sampled_from([in_body, in_a_value, in_a_key, in_a_list, in_an_id, in_an_exception]),
    before=st.integers(0, 2),
    after=st.integers(0, 2),
    packed=st.booleans(),
)
async def test_a_record_of_an_export_costs_its_neighbours_nothing(world: World, text, make, before, after, packed):
    """In JSON as in protobuf: of each record, whatever its neighbour holds."""
    made = await (await world.sign_in()).create_project()
    dsn = world.having(made["dsn"])
    healthy = [{**RECORD, "body": {"stringValue": f"{n} {HEALTHY['text']}"}} for n in range(before + after)]
    records = [*healthy[:before], {**RECORD, **make(text)}, *healthy[before:]]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    headers = {**AS_JSON, "content-encoding": "gzip" if packed else ""}
    for _ in range(2):
        answer = await dsn.post("/v1/logs", content=gzip.compress(body, mtime=0) if packed else body, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {})
    query = "select message, extra, adjusted from log_events where project_id = %s order by adjusted is null, message"
    [odd, *others] = await world.sql(query, made["id"])
    assert [(message, adjusted) for message, _, adjusted in others] == [
        (f"{n} {HEALTHY['text']}", None) for n in range(before + after)
    ]
    message, extra, adjusted = odd
    assert adjusted
    assert message == (clean(text) if make in {in_body, in_an_exception} else "odd")
    if make is in_a_list:
        assert extra["attributes"] == {"a": [clean(text), {clean(text): clean(text)}]}


@pytest.mark.parametrize("odd", [PARTY, "\0"])
async def test_an_odd_resource_or_scope_costs_no_record(world: World, odd):
    """Each record keeps what its resource says, and says that it was adjusted; those of others stay as sent."""
    made = await (await world.sign_in()).create_project()
    dsn = world.having(made["dsn"])
    names = ("service.name", "service.version", "deployment.environment.name", odd)
    resource = {"attributes": [attribute(name, odd) for name in names]}
    records = [{**RECORD, "body": {"stringValue": f"m{n}"}} for n in range(3)]
    logs = [
        {"resource": resource, "scopeLogs": [{"scope": {"name": odd}, "logRecords": records[:2]}]},
        {"scopeLogs": [{"scope": {"name": "shop"}, "logRecords": records[2:]}]},
    ]
    answer = await dsn.post("/v1/logs", content=json.dumps({"resourceLogs": logs}).encode(), headers=AS_JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    query = "select message, release, environment, tags, adjusted is null from log_events where project_id = %s"
    told = clean(odd)
    assert await world.sql(f"{query} order by message", made["id"]) == [
        ("m0", told, told, {"logger": told, "service.name": told, told: told}, False),
        ("m1", told, told, {"logger": told, "service.name": told, told: told}, False),
        ("m2", None, "production", {"logger": "shop"}, True),
    ]


@pytest.mark.parametrize("odd", [PARTY, "\0"])
@pytest.mark.parametrize("place", ["header", "item header", "event"])
async def test_an_envelope_of_sentry_is_stored_with_half_an_emoji(world: World, place, odd):
    """In the trace of its headers, where a transaction is named, in the name of an attachment, or in the event."""
    made = await (await world.sign_in()).create_project()
    header = {"dsn": made["sdks"]["sentry_dsn"], "trace": {"transaction": odd if place == "header" else "t"}}
    short = {**PYTHON_EVENT, "breadcrumbs": []}  # long ones are packed, and no column of the table
    payload = json.dumps({**short, "transaction": odd if place == "event" else "t"}).encode()
    attachment = {"type": "attachment", "length": 1, "filename": odd if place == "item header" else "f"}
    lines = [json.dumps(header).encode(), json.dumps(attachment).encode(), b"x", b'{"type":"event"}', payload]
    ok(await world.call("POST", f"/api/{made['alias']}/envelope/", content=b"\n".join(lines)))
    query = "select message, adjusted, extra->>'transaction' from log_events where project_id = %s"
    told = ("Card 17 refused", ["transaction"], clean(odd)) if place == "event" else ("Card 17 refused", None, "t")
    assert await world.sql(query, made["id"]) == [told]


@few
@given(text=odd_texts, before=st.integers(0, 2), after=st.integers(0, 2), lines=st.booleans())
async def test_an_item_of_a_batch_costs_its_neighbours_nothing(world: World, text, before, after, lines):
    """Of our own log events, in an array and in lines."""
    made = await (await world.sign_in()).create_project()
    items = [{"level": "info", "message": f"m{n}"} for n in range(before + after)]
    items.insert(before, {"level": "info", "message": f"odd {text}", "tags": {text: text}})
    body = "\n".join(map(json.dumps, items)) if lines else json.dumps(items)
    headers = {"content-type": "application/x-ndjson" if lines else "application/json"}
    answer = ok(await world.having(made["dsn"]).post("/v1/logs/", content=body.encode(), headers=headers), 202)
    assert answer["accepted"] == len(items)
    query = "select message, tags from log_events where project_id = %s order by message"
    expected = [(f"m{n}", {}) for n in range(before + after)] + [(f"odd {clean(text)}", {clean(text): clean(text)})]
    assert await world.sql(query, made["id"]) == expected
