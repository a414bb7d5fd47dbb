"""What PostHog's SDKs send over HTTP: taken, answered in their way, deduplicated, refused (G-142)."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import brotli
import httpx2
import pytest

from schemas.cases.foreign import MAX_EVENTS
from service.packing import unpack, zstd
from tests.service.http.cases.test_ingest import figures
from tests.service.http.cases.test_otlp import AS_PROTOBUF, STACK, export
from tests.support.api import World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.posthog import CAPTURED, EXCEPTION, batch, event, form
from tests.support.sentry import NATIVE_LOG, PYTHON_EVENT, of_event

pytestmark = pytest.mark.shares_server

TAKEN = {"status": 1}


class Sdk:
    """An SDK of one project: its key, as it was pasted, and what it sends."""

    def __init__(self, world: World, owner: Any, made: dict[str, Any]) -> None:
        self.world, self.owner, self.made = world, owner, made
        self.key = made["sdks"]["posthog_key"]

    async def send(self, body: bytes, path: str = "/batch/", **headers: str) -> httpx2.Response:
        """Post a body, whose sender it says itself."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.world.call("POST", path, content=body, headers=said)

    async def logs(self) -> list[tuple[Any, ...]]:
        """What is stored of the project's logs, oldest first."""
        query = "select level, message, case_id, extra, user_id from log_events where project_id = %s order by id"
        return await self.world.sql(query, self.made["id"])

    async def events(self) -> list[tuple[Any, ...]]:
        """What is stored of the project's analytics, oldest first."""
        query = "select event, distinct_id, properties, adjusted from analytics_events where project_id = %s"
        return await self.world.sql(f"{query} order by id", self.made["id"])


@pytest.fixture
async def sdk(world: World) -> Sdk:
    owner = await world.sign_in()
    return Sdk(world, owner, await owner.create_project())


async def test_what_to_paste(sdk: Sdk) -> None:
    """Wherever the DSN is shown: one key, in the form that each SDK takes."""
    shown = ok(await sdk.owner.get(f"/v1/projects/{sdk.made['id']}/dsn"))["sdks"]
    assert shown == sdk.made["sdks"]
    assert shown["posthog_key"] in sdk.made["dsn"]
    assert shown["otlp_headers"] == f"authorization=Bearer%20{sdk.key}"
    assert shown["posthog_host"] == shown["otlp_endpoint"]
    assert shown["posthog_host"].split("://")[1] in shown["sentry_dsn"]
    answer = await sdk.world.call(
        "POST", "/v1/logs", {"message": "m"}, headers={"authorization": f"Bearer {shown['posthog_key']}"}
    )
    ok(answer, 202)


async def test_one_exception_is_one_case_through_every_door(sdk: Sdk) -> None:
    """By hand, by Sentry, by PostHog and by OpenTelemetry, over HTTP."""
    dsn = sdk.world.having(sdk.made["dsn"])
    native = ok(await dsn.post("/v1/logs/", NATIVE_LOG), 202)
    alias = sdk.made["alias"]
    ok(await sdk.send(of_event(PYTHON_EVENT, dsn=sdk.made["sdks"]["sentry_dsn"]), f"/api/{alias}/envelope/"))
    assert ok(await sdk.send(batch(sdk.key, event(EXCEPTION)))) == TAKEN
    outer = '  File "/app/lib.py", line 9, in run\n    charge(order)\n'  # The others tell of one own frame.
    stack = STACK.replace(outer, "").replace("/app/a.py", "/srv/app/shop/pay.py").replace("in f", "in charge")
    stack = stack.replace("Payment 18 failed", "Card 17 refused")
    told = {"type": "shop.PaymentError", "message": "Card 17 refused", "stacktrace": stack}
    record = {"severity_number": 17, "attributes": {f"exception.{name}": text for name, text in told.items()}}
    answer = await dsn.post("/v1/logs", content=export(record).SerializeToString(), headers=AS_PROTOBUF)
    assert answer.status_code == 200
    rows = await sdk.logs()
    assert [(level, message, case) for level, message, case, *_ in rows] == [
        ("error", "Card 17 refused", native["case_id"])
    ] * 4
    case = ok(await sdk.owner.get(f"/v1/cases/{native['case_id']}"))
    assert (case["event_count"], case["title"]) == (4, "PaymentError: Card 17 refused")


async def test_a_client_s_fingerprint_decides_at_the_doors_of_sdks_alone(sdk: Sdk) -> None:
    """The same list in one case through Sentry's and PostHog's doors; in a native report it is evidence (G-174)."""
    dsn, alias = sdk.world.having(sdk.made["dsn"]), sdk.made["alias"]
    native = ok(await dsn.post("/v1/logs/", NATIVE_LOG | {"level": "error", "extra": {"fingerprint": ["pay", 7]}}), 202)
    sentry = PYTHON_EVENT | {"fingerprint": ["pay", 7]}
    ok(await sdk.send(of_event(sentry, dsn=sdk.made["sdks"]["sentry_dsn"]), f"/api/{alias}/envelope/"))
    for given in (["pay", "7"], "pay", None, ["{{ default }}", "eu"]):
        properties = EXCEPTION["properties"] | {"$exception_fingerprint": given}
        ok(await sdk.send(batch(sdk.key, event(EXCEPTION | {"properties": properties}))))
    told = "select case_id, grouped_by from log_events where project_id = %s order by received_at, id"
    rows = await sdk.world.sql(told, sdk.made["id"])
    assert [grouped_by for _, grouped_by in rows] == [
        "v3:message",
        "v3:client",
        "v3:client",
        "v3:client",
        "v3:type+frames",
        "v3:client+type+frames",
    ]
    cases = [case for case, _ in rows]
    assert cases[0] == native["case_id"]
    assert cases[1] == cases[2]
    assert len(set(cases)) == 5


async def test_an_exception_is_kept_as_all_are(sdk: Sdk) -> None:
    """Latest call first, its cause beside it; no local variables, and the key nowhere."""
    sent = event(EXCEPTION)
    ok(await sdk.send(batch(sdk.key, sent)))
    [[_, _, _, extra, user]] = await sdk.logs()
    exception = extra["exception"]
    assert [frame["function"] for frame in exception["frames"]] == ["charge", "get"]
    assert exception["causes"] == [{"type": "KeyError", "value": "'card'", "frames": []}]
    assert extra["sdk"] == {
        "protocol": "posthog",
        "event_id": sent["uuid"],
        "name": "posthog-python",
        "version": "7.91.1",
    }
    assert user == "u1"
    told = "select environment, release, tags from log_events where project_id = %s"
    [[environment, release, tags]] = await sdk.world.sql(told, sdk.made["id"])
    assert (environment, release, tags["region"]) == ("staging", "shop@1.2.3", "eu")
    assert "4111111111111111" not in json.dumps(extra)


async def test_an_event_is_an_analytics_event(sdk: Sdk) -> None:
    """Named and dated as it was sent."""
    assert ok(await sdk.send(batch(sdk.key, event(), event(**{"$set": {"plan": "pro"}})))) == TAKEN
    rows = await sdk.events()
    assert [(name, who) for name, who, *_ in rows] == [("order placed", "u1")] * 2
    kept = {**CAPTURED["properties"], "$timestamp": CAPTURED["timestamp"]}
    assert sorted((row[2] for row in rows), key=len) == [kept, {**kept, "$set": {"plan": "pro"}}]
    assert await sdk.logs() == []


def with_token(key: str) -> dict[str, Any]:
    """An event as browsers write it: everything about it is among the properties."""
    sent = event()
    del sent["distinct_id"]
    return {**sent, "properties": {**CAPTURED["properties"], "distinct_id": "u1", "token": key}}


def padded(key: str, size: int) -> bytes:
    """A batch that stays this large when it is packed."""
    return batch(key, event(), padding=random.Random(7).randbytes(size).hex())


WAYS: dict[str, Callable[[str], tuple[str, bytes, dict[str, str]]]] = {
    "batch": lambda key: ("/batch/", batch(key, event()), {}),
    "no slash": lambda key: ("/batch", batch(key, event()), {}),
    "token": lambda key: ("/batch/", json.dumps({"token": key, "batch": [event()]}).encode(), {}),
    "packed with brotli": lambda key: ("/e/", brotli.compress(batch(key, event())), {"content_encoding": "br"}),
    "packed": lambda key: ("/batch/", gzip.compress(batch(key, event())), {"content_encoding": "gzip"}),
    "packed, both say so": lambda key: (
        "/batch/?compression=gzip-js",
        gzip.compress(batch(key, event())),
        {"content_encoding": "gzip"},
    ),
    "capture": lambda key: ("/capture/", json.dumps({"api_key": key, **event()}).encode(), {}),
    "in the properties": lambda key: ("/e", json.dumps(with_token(key)).encode(), {}),
    "a list": lambda key: ("/e/?ip=1&_=17", json.dumps([with_token(key)]).encode(), {"content_type": "text/plain"}),
    "gzip-js": lambda key: ("/i/v0/e/?compression=gzip-js", gzip.compress(json.dumps(with_token(key)).encode()), {}),
    "gzip that nothing names": lambda key: ("/e/", gzip.compress(batch(key, event())), {"content_type": "text/plain"}),
    "gzip that nothing names, large": lambda key: ("/e/", gzip.compress(padded(key, 20_000)), {}),
    "gzip that nothing names, in a file": lambda key: ("/e/", gzip.compress(padded(key, 70_000)), {}),
    "base64": lambda key: (
        "/e/?compression=base64",
        form(with_token(key)),
        {"content_type": "application/x-www-form-urlencoded"},
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_how_an_event_may_come(sdk: Sdk, way: str) -> None:
    """By each route, with the key in each place, packed in each way: stored once, however often; without the key."""
    path, body, headers = WAYS[way](sdk.key)
    for _ in range(2):
        answer = ok(await sdk.send(body, path, **headers))
        assert answer == ({"status": "Ok"} if path.startswith("/i/") else TAKEN)
    [[name, who, properties, _]] = await sdk.events()
    assert (name, who) == ("order placed", "u1")
    assert sdk.key not in json.dumps(properties)


async def test_who_is_refused(world: World, sdk: Sdk) -> None:
    """No key, a wrong one, two that differ, another kind of caller: nothing is stored."""
    other = Sdk(world, sdk.owner, await sdk.owner.create_project())
    sent = event()
    for body in (
        json.dumps({"batch": [sent]}).encode(),
        batch("service_dsn_nobody", sent),
        batch(sdk.key, sent, token=other.key),
    ):
        for path in ("/batch/", "/flags/"):
            error = refused(await sdk.send(body, path), 401, "unauthenticated")
            assert "x-service-dsn" not in error["message"] + error["next_action"], "an SDK sends no such header"
            assert "`posthog_key`" in error["next_action"]
    answer = await sdk.owner.call("POST", "/batch/", content=batch(sdk.key, sent))
    refused(answer, 403, "principal_not_allowed")
    for key in (
        "",
        "a b",
        "\x00",
        "\x7f",
        "\u00fc" * 400,
        "http://x:99999999/1",
        "http://[",
        "x" * 2000,
        7,
        None,
        [],
        {},
    ):
        for body in ({"api_key": key, "batch": [sent]}, [{**sent, "properties": {"token": key}}]):
            error = refused(await sdk.send(json.dumps(body).encode()), 401, "unauthenticated")
            assert "x-service-dsn" not in error["message"] + error["next_action"]
    mixed = [with_token(sdk.key), with_token(other.key)]
    assert ok(await sdk.send(json.dumps(mixed).encode(), "/e/")) == {"status": 1, "refused": 1}
    assert len(await sdk.events()) == 1
    assert await other.events() == await sdk.logs() == []


async def test_a_fenced_project_takes_nothing(sdk: Sdk) -> None:
    """Neither events nor the question for flags (G-131)."""
    await sdk.world.sql("update projects set status = 'fenced' where project_id = %s", sdk.made["id"])
    for path in ("/batch/", "/flags/", "/decide/"):
        refused(await sdk.send(batch(sdk.key, event()), path), 409, "project_deletion_in_progress")


async def test_an_event_that_comes_again_is_the_one_that_is_stored(sdk: Sdk) -> None:
    """Many times at once, by any route, changed or not, alone or beside others."""
    sent = [event(EXCEPTION), event(), event()]
    changed = [{**one, "uuid": one["uuid"].upper(), "timestamp": "later"} for one in sent]
    bodies = [batch(sdk.key, *sent), batch(sdk.key, *changed), batch(sdk.key, *sent, *sent)]
    answers = await at_once(6, lambda turn: sdk.send(bodies[turn % 3]))
    answers.append(await sdk.send(json.dumps({"api_key": sdk.key, **sent[0]}).encode(), "/capture/"))
    assert [ok(answer) for answer in answers] == [TAKEN] * 7
    assert (len(await sdk.logs()), len(await sdk.events())) == (1, 2)


async def test_what_is_no_event_is_counted_and_the_others_are_stored(sdk: Sdk) -> None:
    """Odd values are adjusted (G-133); recordings are answered like what is taken."""
    before = await figures(sdk.world)
    odd = event(properties={"n": 2**60, "text": "a\0b", "many": "x"} | {f"p{n}": n for n in range(300)})
    bad = [7, {}, event(event=""), event(distinct_id=None), event(event={"a": 1})]
    answer = await sdk.send(batch(sdk.key, *bad, odd, event(EXCEPTION), event(event="$snapshot"), event()))
    assert ok(answer) == {"status": 1, "refused": len(bad)}
    rows = await sdk.events()
    assert len(rows) == 2
    [properties] = [row[2] for row in rows if "n" in row[2]]
    assert (properties["n"], properties["text"], len(properties)) == (str(2**60), "a\ufffdb", 200)
    assert properties["$left_out"][0] == "p196"
    assert {"properties.n", "properties.text"} <= {place for row in rows for place in row[3] or ()}
    after = await figures(sdk.world)
    grown = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert grown == {
        'kind="analytics",outcome="accepted"': 2,
        'kind="analytics",outcome="malformed"': len(bad),
        'kind="logs",outcome="accepted"': 1,
    }


@pytest.mark.parametrize("protocol", ["posthog", "sentry"])
async def test_of_a_deep_recursion_the_latest_calls_stay(sdk: Sdk, protocol: str) -> None:
    """More values than a record may hold: the frames that decide on the case are the last ones."""
    frame = {"filename": "pay.py", "abs_path": "/app/pay.py", "module": "pay", "in_app": True, "platform": "python"}
    frames = [{**frame, "function": f"f{number}", "lineno": number} for number in range(900)]
    values = [{"type": "RecursionError", "value": "too deep", "stacktrace": {"type": "raw", "frames": frames}}]
    if protocol == "posthog":
        sent = event(EXCEPTION, properties={**EXCEPTION["properties"], "$exception_list": values})
        ok(await sdk.send(batch(sdk.key, sent)))
    else:
        sent = {**PYTHON_EVENT, "exception": {"values": values}}
        alias = sdk.made["alias"]
        ok(await sdk.send(of_event(sent, dsn=sdk.made["sdks"]["sentry_dsn"]), f"/api/{alias}/envelope/"))
    [[packed, extra]] = await sdk.world.sql(
        "select packed, extra from log_events where project_id = %s", sdk.made["id"]
    )
    kept = (extra if packed is None else unpack(packed))["exception"]["frames"]
    assert [(one["function"], one["lineno"]) for one in kept] == [(f"f{n}", n) for n in range(899, 799, -1)]


HOSTILE: list[tuple[str, Callable[[str], bytes], str, int]] = [
    ("no JSON", lambda key: batch(key, event())[:-3], "", 400),
    ("a number", lambda _: b"7", "", 400),
    ("batch is no list", lambda key: json.dumps({"api_key": key, "batch": 7}).encode(), "", 400),
    ("an event twice named", lambda key: f'{{"api_key":"{key}","event":"a","event":"b"}}'.encode(), "", 400),
    ("an event alone without a name", lambda key: json.dumps({"api_key": key}).encode(), "", 400),
    ("no base64", lambda _: b"data=%25%25%25", "", 400),
    ("deep", lambda _: b'{"batch":' + b"[" * 100_000, "", 400),
    ("too many", lambda key: batch(key, *[{}] * (MAX_EVENTS + 1)), "", 413),
    ("a million", lambda key: gzip.compress(batch(key, *[0] * 1_000_000)), "gzip", 413),
    ("too large", lambda key: batch(key, "x" * 1024 * 1024 + "x"), "", 413),
    ("a bomb", lambda _: gzip.compress(b" " * 50_000_000), "gzip", 413),
    ("a bomb of zstd", lambda _: zstd.compress(b" " * 50_000_000), "zstd", 413),
    ("packed and cut short", lambda key: gzip.compress(batch(key, event()))[:-9], "gzip", 400),
    ("not what it says", lambda _: b"{}", "gzip", 400),
    ("a bomb of brotli", lambda _: brotli.compress(b" " * 50_000_000, quality=1), "br", 413),
    ("brotli cut short", lambda key: brotli.compress(batch(key, event()))[:-9], "br", 400),
    ("brotli with more behind it", lambda key: brotli.compress(batch(key, event())) + b"{}", "br", 400),
    ("no brotli", lambda key: batch(key, event()), "br", 400),
    ("packed twice", lambda key: gzip.compress(brotli.compress(batch(key, event()))), "br, gzip", 415),
    ("another coding", lambda _: b"{}", "compress", 415),
]


@pytest.mark.parametrize(("what", "body", "coding", "status"), HOSTILE, ids=[row[0] for row in HOSTILE])
async def test_hostile_bodies(sdk: Sdk, what: str, body: Callable[[str], bytes], coding: str, status: int) -> None:
    """Get a clear answer and change nothing, whether their sender is known by the head or would be by the body."""
    key = {"authorization": f"Bearer {sdk.key}"}
    answer = await sdk.send(body(sdk.key), content_encoding=coding, **key)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["next_action"]
    unknown = await sdk.send(body(sdk.key), content_encoding=coding)
    assert unknown.status_code in {status, 401}, unknown.text
    assert await sdk.world.telemetry(sdk.made["id"]) == 0


@pytest.mark.parametrize("path", ["/flags/?v=4", "/flags?v=2", "/decide/?v=3"])
async def test_there_are_no_flags(sdk: Sdk, path: str) -> None:
    """Said in a form that SDKs go on with; it stores nothing, and a body packed in their way is read."""
    asked = json.dumps({"token": sdk.key, "distinct_id": "u1", "groups": {}}).encode()
    answer = ok(await sdk.send(asked, path))
    assert (answer["flags"], answer["featureFlags"], answer["sessionRecording"]) == ({}, {}, False)
    assert answer["errorsWhileComputingFlags"] is False
    packed = await sdk.send(gzip.compress(asked), f"{path}&compression=gzip-js")
    assert ok(packed) == answer
    for body in (b"", b"7", b"{"):
        known = {"authorization": f"Bearer {sdk.key}"}
        refused(await sdk.send(body, path, **known), 400, "invalid_payload")
    assert await sdk.events() == []


async def test_browsers_may_ask_first(sdk: Sdk) -> None:
    """Answers are readable from any page."""
    for path in ("/batch/", "/capture/", "/e/", "/i/v0/e/", "/flags/", "/decide/"):
        asked = await sdk.world.client.options(path, headers={"origin": "https://shop.example"})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
    answer = await sdk.send(batch(sdk.key, event()), origin="https://shop.example")
    assert answer.headers["access-control-allow-origin"] == "*"


def large(key: str, count: int, size: int, **first: Any) -> bytes:
    """A batch as posthog-python writes it: the key comes last."""
    events = [event(properties={"text": "lorem ipsum " * (size // 12)}) for _ in range(count)]
    return json.dumps({"batch": events, "historical_migration": False, "api_key": key, **first}).encode()


@pytest.mark.parametrize("coding", ["", "gzip", "br", "zstd", "form", "list", "chunks"])
async def test_a_batch_of_megabytes_is_stored(sdk: Sdk, coding: str) -> None:
    """Uncompressed as posthog-python sends it, packed, as a form, as a list, and in chunks."""
    body = large(sdk.key, 100, 20_400)
    headers: dict[str, str] = {}
    if coding == "form":
        body = b"data=" + base64.b64encode(body)
    elif coding == "list":
        told = {"properties": {**CAPTURED["properties"], "token": sdk.key, "text": "x" * 20_000}}
        body = json.dumps([event(CAPTURED, **told) for _ in range(100)]).encode()
    elif coding in {"gzip", "br", "zstd"}:
        pack = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstd.compress}[coding]
        body, headers = pack(body), {"content_encoding": coding}

    async def chunks() -> Any:
        for at in range(0, len(body), 50_000):
            yield body[at : at + 50_000]

    answer = await sdk.send(chunks() if coding == "chunks" else body, **headers)  # type: ignore[arg-type]
    assert ok(answer) == TAKEN
    assert len(await sdk.events()) == 100
    assert ok(await sdk.send(body, **headers)) == TAKEN
    assert len(await sdk.events()) == 100


async def test_events_too_large_or_too_many(sdk: Sdk) -> None:
    """An event of more than 1 MiB is refused alone, and of too many events the first ones are stored."""
    huge = event(properties={"text": "x" * 1_100_000})
    body = json.dumps({"batch": [event(), huge, event()], "api_key": sdk.key}).encode()
    assert ok(await sdk.send(body)) == {**TAKEN, "refused": 1}
    refused(await sdk.send(json.dumps({"batch": [huge], "api_key": sdk.key}).encode()), 413, "payload_too_large")
    refused(await sdk.send(json.dumps({**huge, "api_key": sdk.key}).encode()), 413, "payload_too_large")
    many = [{"event": "e", "distinct_id": "u", "uuid": str(uuid4())} for _ in range(MAX_EVENTS + 10)]
    answer = await sdk.send(
        gzip.compress(json.dumps({"batch": many, "api_key": sdk.key}).encode()), content_encoding="gzip"
    )
    refused(answer, 413, "payload_too_large")
    assert len(await sdk.events()) == 2 + MAX_EVENTS
