"""What Sentry's SDKs send over HTTP: taken, answered in their way, deduplicated, refused (G-142)."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import zlib
from typing import Any
from uuid import uuid4

import brotli
import httpx2
import pytest

from service.auth.refusals import InvalidPayload
from service.auth.secrets import alias_of
from service.http.body.adjusting import MOST_READ
from service.http.body.gate import Odd
from service.http.cases.intake import sentry
from service.ingest.foreign.envelope import MAX_ITEMS
from service.packing import zstd
from tests.service.http.body.test_unpacking import PACKERS
from tests.service.ingest.foreign.test_otlp_cut import memory_of
from tests.support.api import World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.sentry import NATIVE_LOG, PYTHON_EVENT, envelope, of_event

pytestmark = pytest.mark.shares_server


class Sdk:
    """An SDK of one project: its DSN, as it was pasted, and what it sends."""

    def __init__(self, world: World, owner: Any, made: dict[str, Any]) -> None:
        self.world, self.owner, self.made = world, owner, made
        self.dsn = httpx2.URL(made["sdks"]["sentry_dsn"])
        self.auth = {"x-sentry-auth": f"Sentry sentry_key={self.dsn.username}, sentry_version=7, sentry_client=x/1"}

    async def send(self, body: bytes, *, path: str = "", auth: bool = True, **headers: str) -> httpx2.Response:
        """Post an envelope with the header of the SDK for Python."""
        said = {**(self.auth if auth else {}), **{name.replace("_", "-"): value for name, value in headers.items()}}
        target = path or f"/api{self.dsn.path}/envelope/"
        return await self.world.call("POST", target, content=body, headers=said)

    async def rows(self) -> list[tuple[Any, ...]]:
        """What is stored of the project, oldest first."""
        query = "select level, message, case_id, extra, adjusted from log_events where project_id = %s order by id"
        return await self.world.sql(query, self.made["id"])


@pytest.fixture
async def sdk(world: World) -> Sdk:
    owner = await world.sign_in()
    return Sdk(world, owner, await owner.create_project())


def event(**members: Any) -> dict[str, Any]:
    return {**PYTHON_EVENT, "event_id": uuid4().hex, **members}


async def test_what_to_paste(world: World, sdk: Sdk) -> None:
    """Every answer about a project has its number, and the DSN for SDKs wherever it has the DSN."""
    project_id, alias = sdk.made["id"], sdk.made["alias"]
    assert (alias, sdk.dsn.path) == (alias_of(project_id), f"/{alias}")
    assert sdk.dsn.username in sdk.made["dsn"]
    [listed] = ok(await sdk.owner.get("/v1/projects"))["projects"]
    assert (listed["alias"], "sdks" in listed) == (alias, False)
    rotated = ok(await sdk.owner.post(f"/v1/projects/{project_id}/dsn/rotate"))
    assert rotated["sdks"]["sentry_dsn"].endswith(f"/{alias}")
    assert rotated["sdks"]["sentry_dsn"] != sdk.made["sdks"]["sentry_dsn"]
    refused(await sdk.send(of_event(event())), 401, "unauthenticated")


async def test_an_event_is_stored_and_in_the_case_of_its_like(sdk: Sdk) -> None:
    """The same exception, reported by hand, is the same case."""
    sent = event()
    assert ok(await sdk.send(of_event(sent))) == {"id": sent["event_id"]}
    [[level, message, case_id, extra, _]] = await sdk.rows()
    assert (level, message, extra["sdk"]["event_id"]) == ("error", "Card 17 refused", sent["event_id"])
    assert "4111111111111111" not in json.dumps(extra)
    native = ok(await sdk.world.having(sdk.made["dsn"]).post("/v1/logs/", NATIVE_LOG), 202)
    assert native["case_id"] == case_id
    case = ok(await sdk.owner.get(f"/v1/cases/{case_id}"))
    assert (case["event_count"], case["title"]) == (2, "PaymentError: Card 17 refused")


@pytest.mark.parametrize("packed", ["gzip", "brotli", "zstd", "zlib"])
@pytest.mark.parametrize("way", ["header", "authorization", "query", "envelope", "bearer"])
async def test_where_the_key_may_be(sdk: Sdk, way: str, packed: str) -> None:
    """In X-Sentry-Auth, in Authorization, in the query, or in the DSN of an envelope; packed and in chunks too."""
    key, place = sdk.dsn.username, f"/api{sdk.dsn.path}/envelope/"
    headers = {
        "header": sdk.auth,
        "authorization": {"authorization": sdk.auth["x-sentry-auth"]},
        "bearer": {"authorization": f"Bearer {sdk.made['dsn']}"},
    }.get(way, {})
    path = (
        f"{place}?sentry_version=7&sentry_key={key}&sentry_client=sentry.javascript.node" if way == "query" else place
    )
    sent = event()
    coding, pack = PACKERS[packed]
    body = pack(of_event(sent, **({"dsn": str(sdk.dsn)} if way == "envelope" else {})))

    async def chunks() -> Any:
        yield body[:100]
        yield body[100:]

    headers = {**headers, "content-encoding": coding, "content-type": "text/plain;charset=UTF-8"}
    answer = await sdk.world.call("POST", path, content=chunks(), headers=headers)
    assert ok(answer) == {"id": sent["event_id"]}
    assert len(await sdk.rows()) == 1


async def test_who_is_refused(world: World, sdk: Sdk) -> None:
    """No key, a wrong one, another project's number, another kind: nothing is stored, nothing is told apart."""
    other = Sdk(world, sdk.owner, await sdk.owner.create_project())
    body = of_event(event())
    place = f"/api{sdk.dsn.path}/envelope/"
    for answer in (
        await sdk.send(body, auth=False),
        await sdk.send(of_event(event(), dsn="http://nobody@x/1"), auth=False),
        await sdk.send(b"\x00\xff", auth=False),
        await sdk.send(body, path=f"/api{other.dsn.path}/envelope/"),
        await sdk.send(body, path="/api/1/envelope/"),
        await sdk.send(body, path=f"{place}?sentry_key={other.dsn.username}"),
        await other.send(body, path=place),
    ):
        refused(answer, 401, "unauthenticated")
        assert answer.headers["x-sentry-error"]
    refused(await sdk.owner.call("POST", place, content=body), 403, "principal_not_allowed")
    assert await sdk.rows() == await other.rows() == []


async def test_an_event_that_comes_again_is_the_one_that_is_stored(sdk: Sdk) -> None:
    """Many times at once, by either route, changed or not: one record, for 24 hours (G-143)."""
    sent = event()
    bodies = [of_event(sent), of_event({**sent, "message": "changed"}), of_event(sent, sent_at="later")]
    answers = await at_once(9, lambda turn: sdk.send(bodies[turn % 3]))
    stored = f"/api{sdk.dsn.path}/store/"
    answers.append(await sdk.send(json.dumps(sent).encode(), path=stored, content_type="application/json"))
    assert [ok(answer) for answer in answers] == [{"id": sent["event_id"]}] * 10
    assert len(await sdk.rows()) == 1


async def test_an_event_without_an_id_is_given_one(sdk: Sdk) -> None:
    """By the envelope, else by the service; two of them are two."""
    nameless = {name: value for name, value in PYTHON_EVENT.items() if name != "event_id"}
    named = uuid4().hex
    assert ok(await sdk.send(of_event(nameless, event_id=named))) == {"id": named}
    ids = {ok(await sdk.send(of_event(nameless)))["id"] for _ in range(2)}
    assert len(ids | {named}) == len(await sdk.rows()) == 3


async def test_items_that_are_not_taken_are_counted(sdk: Sdk) -> None:
    """Answered 200 like any other; so are client reports, and what they say is counted."""
    before = await figures(sdk.world)
    report = b'{"discarded_events":[{"reason":"queue_overflow","category":"error","quantity":7}]}'
    items = [({"type": kind}, b"{}") for kind in ("transaction", "session", "replay_event", "made_up")]
    items += [({"type": "attachment"}, b"\x00\n\xff"), ({"type": "client_report"}, report)]
    assert ok(await sdk.send(envelope(*items))) == {}
    assert await sdk.rows() == []
    added = {name: value - before.get(name, 0) for name, value in (await figures(sdk.world)).items()}
    for kind in ("transaction", "session", "replay_event", "attachment", "client_report", "other"):
        assert added[f'service_sdk_items_total{{protocol="sentry",type="{kind}"}}'] == 1
    drops = 'service_sdk_discarded_total{category="error",protocol="sentry",reason="queue_overflow"}'
    assert added[drops] == 7


async def figures(world: World) -> dict[str, float]:
    """The counters of SDKs; of whichever process is asked, after all have refreshed theirs."""
    await asyncio.sleep(1.2)
    lines = (await world.client.get("/metrics")).text.splitlines()
    told = [line.rpartition(" ") for line in lines if line.startswith("service_sdk_")]
    return {name: float(value) for name, _, value in told}


DEEP = b'{"message":' + b"[" * 200 + b"]" * 200 + b"}"
ATTACHED = b'{}\n{"type":"attachment"}\n'
HOSTILE: list[tuple[str, bytes, str, int]] = [
    ("empty", b"", "", 400),
    ("no envelope", b"hello", "", 400),
    ("cut short", of_event(PYTHON_EVENT)[:-40], "", 400),
    ("wrong length", envelope(({"type": "event", "length": 9}, b"{}")), "", 400),
    ("negative length", envelope(({"type": "event", "length": -1}, b"{}")), "", 400),
    ("event is no JSON", envelope(({"type": "event"}, b"{nope}")), "", 400),
    ("event is no object", envelope(({"type": "event"}, b"[1]")), "", 400),
    ("a member twice", envelope(({"type": "event"}, b'{"a":1,"a":2}')), "", 400),
    ("two events", envelope(({"type": "event"}, b"{}"), ({"type": "event"}, b"{}")), "", 400),
    ("a million items", b"{}\n" + b'{"type":"a"}\n\n' * 70_000, "", 413),
    ("a million items, packed", gzip.compress(b"{}\n" + b'{"type":"a"}\n\n' * 250_000, mtime=0), "gzip", 413),
    ("one item too many", envelope(*[({"type": "a"}, b"")] * (MAX_ITEMS + 1)), "", 413),
    ("an event too large", envelope(({"type": "event"}, b" " * (1024 * 1024 + 1))), "", 413),
    ("a bomb", gzip.compress(ATTACHED + b" " * 50_000_000, mtime=0), "gzip", 413),
    ("a bomb of zstd", zstd.compress(ATTACHED + b" " * 50_000_000), "zstd", 413),
    ("packed and cut short", gzip.compress(of_event(PYTHON_EVENT), mtime=0)[:-9], "gzip", 400),
    ("a length past the end", envelope(({"type": "event", "length": 2**60}, b"{}")), "", 400),
    ("not what it says", b"{}", "gzip", 400),
    ("a bomb of brotli", brotli.compress(ATTACHED + b" " * 50_000_000, quality=1), "br", 413),
    ("brotli cut short", brotli.compress(of_event(PYTHON_EVENT))[:-9], "br", 400),
    ("brotli with more behind it", brotli.compress(of_event(PYTHON_EVENT)) + b"{}", "br", 400),
    ("no brotli", of_event(PYTHON_EVENT), "br", 400),
    ("packed twice", gzip.compress(brotli.compress(of_event(PYTHON_EVENT))), "br, gzip", 415),
    ("another coding", b"{}", "compress", 415),
    ("deep headers", b'{"trace":' + b"[" * 5000 + b"]" * 5000 + b"}", "", 400),
]


@pytest.mark.parametrize(("what", "body", "coding", "status"), HOSTILE, ids=[row[0] for row in HOSTILE])
async def test_hostile_envelopes(sdk: Sdk, what: str, body: bytes, coding: str, status: int) -> None:
    """Get a clear answer and change nothing, whether their sender is known by the head or would be by the body."""
    answer = await sdk.send(body, content_encoding=coding)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["next_action"]
    unknown = await sdk.send(body, auth=False, content_encoding=coding)
    assert unknown.status_code in {401, 413, 415, 400}, unknown.text
    assert await sdk.world.telemetry(sdk.made["id"]) == 0


async def test_what_is_odd_is_adjusted(sdk: Sdk) -> None:
    """Numbers, characters and depth of an event cost nobody the event, and the record names the places (G-133)."""
    raw = b'{"message":"a\\u0000b","level":"error","extra":{"n":12345678901234567890,"deep":' + DEEP + b"}}"
    ok(await sdk.send(envelope(({"type": "event"}, raw))))
    [[_, message, case_id, extra, adjusted]] = await sdk.rows()
    assert (message, extra["extra"]["n"], case_id is not None) == ("a\ufffdb", "12345678901234567890", True)
    assert {"message", "extra.n"} <= set(adjusted)


async def test_messages_are_logs(sdk: Sdk) -> None:
    """Below error level there is no case."""
    ok(await sdk.send(of_event({"message": "started", "level": "info"})))
    [[level, message, case_id, _, _]] = await sdk.rows()
    assert (level, message, case_id) == ("info", "started", None)


async def test_browsers_may_ask_first(world: World, sdk: Sdk) -> None:
    """A preflight lets an SDK's header through, and its answers are readable from any page."""
    for route in ("envelope", "store"):
        asked = await world.client.options(f"/api{sdk.dsn.path}/{route}/", headers={"origin": "https://shop.example"})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
        assert "x-sentry-auth" in asked.headers["access-control-allow-headers"]
    answer = await sdk.send(of_event(event()), origin="https://shop.example")
    assert "x-sentry-rate-limits" in answer.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"extra":[' + b"[]," * 1_000_000 + b"0]}",
        b'{"extra":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}",
        b"[" * 4_000_000,
        b'{"extra":[' + b'{"a":1},' * 500_000 + b"0]}",
        b'{"extra":[' + b'"","",' * 600_000 + b"0]}",
        b'"["[]' * 200_000,
    ],
    ids=["empty", "deep", "open", "objects", "quotes", "no JSON"],
)
def test_values_of_an_event_are_counted_before_they_are_read(raw: bytes) -> None:
    """Of one that holds next to nothing else each would take up to fifty times its bytes, some 300 MB."""

    def read() -> None:
        with pytest.raises(Odd):
            sentry.read_text(raw, None, variables=False)
        with pytest.raises(InvalidPayload):
            sentry.read_adjusted(raw, None, variables=False)

    _, most = memory_of(read)
    assert most < 4 * len(raw)


async def test_an_event_of_too_many_values_is_refused(sdk: Sdk) -> None:
    """One of as many as are read is cut down to what a record may hold; more are an error of the sender."""
    for number, status in ((MOST_READ - 100, 200), (MOST_READ + 100, 400)):
        event = {**PYTHON_EVENT, "event_id": uuid4().hex, "extra": {"zeros": [0] * number}}
        answer = await sdk.send(gzip.compress(of_event(event)), content_encoding="gzip")
        assert answer.status_code == status, answer.text


ATTACHMENT = {"type": "attachment", "filename": "core.dmp", "content_type": "application/x-dmp"}
MINIDUMP = {**ATTACHMENT, "attachment_type": "event.minidump"}


def padding(size: int) -> bytes:
    """What packs to a third, without a line end."""
    return random.Random(7).randbytes(size // 3).replace(b"\n", b" ") + b"x" * (size - size // 3)


async def skipped(sdk: Sdk) -> float:
    counts = (await sdk.world.get("/metrics")).text
    name = 'service_sdk_items_total{protocol="sentry",type="attachment"}'
    return sum(float(line.rpartition(" ")[2]) for line in counts.splitlines() if line.startswith(name))


@pytest.mark.parametrize("place", ["before", "behind"])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("packed", ["none", "gzip", "raw deflate", "zstd", "quick brotli"])
async def test_an_attachment_costs_no_error(sdk: Sdk, packed: str, sized: bool, place: str) -> None:
    """Of any size within the bounds, in any coding, with a length and without: it is passed over, and counted."""
    coding, pack = PACKERS[packed]
    sent = event()
    content = padding(6_000_000)
    attached = ATTACHMENT | ({} if sized else {"length": None})
    items = [(attached, content), ({"type": "event"}, json.dumps(sent).encode()), (ATTACHMENT, b"a log")]
    if place == "behind":
        items[:2] = reversed(items[:2])
    counted = await skipped(sdk)
    body = pack(envelope(*items))
    assert ok(await sdk.send(body, content_encoding=coding)) == {"id": sent["event_id"]}
    assert len(await sdk.rows()) == 1
    assert await skipped(sdk) == counted + 2


async def test_an_envelope_of_any_size_within_the_bounds(sdk: Sdk) -> None:
    """20 MB as it is sent, and 40 MB unpacked."""
    for size, packed in ((20_000_000, "none"), (40_000_000, "zstd")):
        coding, pack = PACKERS[packed]
        sent = event()
        body = pack(envelope((MINIDUMP, padding(size)), ({"type": "event"}, json.dumps(sent).encode())))
        assert ok(await sdk.send(body, content_encoding=coding)) == {"id": sent["event_id"]}
    assert len(await sdk.rows()) == 2


async def test_an_envelope_that_comes_in_chunks(sdk: Sdk) -> None:
    """Without a length of the whole, from a sender known by its envelope alone."""
    sent = event()
    items = (ATTACHMENT, padding(3_000_000)), ({"type": "event"}, json.dumps(sent).encode())
    body = envelope(*items, header={"dsn": str(sdk.dsn)})

    async def chunks() -> Any:
        for at in range(0, len(body), 100_000):
            yield body[at : at + 100_000]
            await asyncio.sleep(0)

    answer = await sdk.world.call("POST", f"/api{sdk.dsn.path}/envelope/", content=chunks(), headers={})
    assert ok(answer) == {"id": sent["event_id"]}
    assert len(await sdk.rows()) == 1


@pytest.mark.parametrize("fault", ["ends early", "goes on", "cut short", "too many", "too large"])
async def test_an_error_before_a_fault_stays(sdk: Sdk, fault: str) -> None:
    """The answer tells the fault, and the error that was there whole is stored."""
    begin = envelope(({"type": "event"}, json.dumps(event()).encode()))
    attached, coding = padding(2_000_000), ""
    status = 413 if fault.startswith("too") else 400
    body = {
        "ends early": begin + b'{"type":"attachment","length":2000001}\n' + attached,
        "goes on": begin + b'{"type":"attachment","length":1999999}\n' + attached,
        "cut short": begin + b'{"type":"attachment","length":2000000}\n' + attached,
        "too many": begin + b'{"type":"session"}\n{}\n' * MAX_ITEMS,
        "too large": begin + b'{"type":"attachment"}\n' + b"x" * 50_000_000,
    }[fault]
    if fault in {"cut short", "too large"}:
        body, coding = gzip.compress(body), "gzip"
    answer = await sdk.send(body[:-9] if fault == "cut short" else body, content_encoding=coding)
    assert answer.status_code == status, answer.text
    assert answer.headers["x-sentry-error"]
    assert len(await sdk.rows()) == 1


async def test_an_error_before_the_connection_breaks_stays(sdk: Sdk) -> None:
    """Nobody hears the answer; the error is stored all the same."""
    begin = envelope(({"type": "event"}, json.dumps(event()).encode())) + b'{"type":"attachment"}\n'
    url = httpx2.URL(sdk.world.server.base_url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST /api{sdk.dsn.path}/envelope/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n"
    writer.write(head.encode() + f"X-Sentry-Auth: {sdk.auth['x-sentry-auth']}\r\n\r\n".encode())
    writer.write(begin + padding(2_000_000))
    await writer.drain()
    writer.close()
    async with asyncio.timeout(30):
        while not await sdk.rows():  # noqa: ASYNC110 - what is waited for is in the database
            await asyncio.sleep(0.05)


def lines_of(text: bytes) -> bytes:
    """Base64 as the SDK for Ruby once wrote it, in lines."""
    return base64.encodebytes(text)


OLD_PACKINGS = {
    "python": lambda text: base64.b64encode(zlib.compress(text)),
    "php": lambda text: base64.b64encode(zlib.compress(text, 9)),
    "node": lambda text: base64.b64encode(zlib.compress(text, 1)) + b"\n",
    "ruby": lambda text: lines_of(zlib.compress(text)),
    "go": base64.b64encode,
    "no base64": lambda text: b" \n" + text,
}


@pytest.mark.parametrize("language", OLD_PACKINGS)
async def test_an_event_in_base64_of_an_old_sdk_is_stored(sdk: Sdk, language: str) -> None:
    """Packed at any level, in lines or not, and with the coding of a proxy around it."""
    stored = f"/api{sdk.dsn.path}/store/"
    for coding, pack in (PACKERS["none"], PACKERS["gzip"]):
        sent = event()
        body = pack(OLD_PACKINGS[language](json.dumps(sent).encode()))
        headers = {"content_type": "application/octet-stream", "content_encoding": coding}
        assert ok(await sdk.send(body, path=stored, **headers)) == {"id": sent["event_id"]}
    assert [message for _, message, *_ in await sdk.rows()] == ["Card 17 refused"] * 2


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (base64.b64encode(zlib.compress(b"{" + b" " * 50_000_000)), 413, "payload_too_large"),
        (base64.b64encode(zlib.compress(b" " * (2**20 + 1))), 413, "payload_too_large"),
        (base64.b64encode(zlib.compress(b"{}")[:-3]), 400, "invalid_payload"),
        (base64.b64encode(zlib.compress(b"[1]")), 400, "invalid_payload"),
        (base64.b64encode(zlib.compress(zlib.compress(b"{}"))), 400, "invalid_payload"),
        (base64.b64encode(b"\x78\xbb\0\0\0\0junk"), 400, "invalid_payload"),
        (b"eJyr=", 400, "invalid_payload"),
        (b"=" * 1000, 400, "invalid_payload"),
    ],
)
async def test_a_bad_event_in_base64_is_refused(sdk: Sdk, body: bytes, status: int, code: str) -> None:
    """Within the bounds of any other packing, and in little memory."""
    refused(await sdk.send(body, path=f"/api{sdk.dsn.path}/store/"), status, code)
    if status == 413:
        assert memory_of(lambda: _too_large(body))[1] < 4_000_000
    assert await sdk.rows() == []


def _too_large(body: bytes) -> None:
    with pytest.raises(sentry.PayloadTooLarge):
        sentry._unwrapped(body)
