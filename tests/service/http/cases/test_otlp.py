"""OpenTelemetry's exporters over HTTP: their records are log events like all others (G-142)."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from typing import Any

import brotli
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from service.http.cases.intake.otlp import Scopes
from service.ingest.foreign import otlp_protobuf
from service.ingest.foreign.otlp import Unread
from service.packing import zstd
from tests.service.http.body.test_unpacking import PACKERS
from tests.service.http.cases.test_ingest import LOG, figures, stored
from tests.service.http.cases.test_ingest import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.protobuf import field
from tests.support.traces import compiled

pytestmark = pytest.mark.shares_server

AS_PROTOBUF = {"content-type": "application/x-protobuf"}
AS_JSON = {"content-type": "application/json"}
STACK = """Traceback (most recent call last):
  File "/app/lib.py", line 9, in run
    charge(order)
  File "/app/a.py", line 3, in f
    raise PaymentError("Payment 18 failed")
shop.PaymentError: Payment 18 failed
"""
RESOURCE = {"service.name": "shop", "service.version": "1.2.3", "deployment.environment.name": "staging"}
go = compiled.TRACES["go: a panic"]
START = 1_800_000_000_000_000_000


def export(*records: dict[str, Any], resource: dict[str, str] = RESOURCE) -> ExportLogsServiceRequest:
    """An export of records, each given by the fields of a log record; attributes as a plain object."""
    request = ExportLogsServiceRequest()
    logs = request.resource_logs.add()
    for name, value in resource.items():
        logs.resource.attributes.add(key=name).value.string_value = value
    scope = logs.scope_logs.add()
    scope.scope.name = "shop.orders"
    for number, fields in enumerate(records):
        plain = {"time_unix_nano": START + number, **fields}
        body, attributes = plain.pop("body", None), plain.pop("attributes", {})
        record = scope.log_records.add(**plain)
        if body is not None:
            record.body.string_value = body
        for name, value in attributes.items():
            record.attributes.add(key=name).value.string_value = value
    return request


ERROR = {
    "body": "charging failed",
    "severity_number": 17,
    "severity_text": "ERROR",
    "trace_id": bytes(range(16)),
    "span_id": bytes(range(8)),
    "attributes": {
        "exception.type": "shop.PaymentError",
        "exception.message": "Payment 18 failed",
        "exception.stacktrace": STACK,
        "user.id": "u1",
        "cart": "full",
    },
}


def written(request: ExportLogsServiceRequest, form: str) -> tuple[bytes, dict[str, str]]:
    """The request as an exporter sends it: in JSON, ids are hexadecimal."""
    if form == "protobuf":
        return request.SerializeToString(), AS_PROTOBUF
    plain = MessageToDict(request, use_integers_for_enums=True)
    for logs in (request.resource_logs,):
        for at, one in enumerate(logs):
            for which, scope in enumerate(one.scope_logs):
                for number, record in enumerate(scope.log_records):
                    found = plain["resourceLogs"][at]["scopeLogs"][which]["logRecords"][number]
                    found |= {
                        name: getattr(record, key).hex()
                        for name, key in (("traceId", "trace_id"), ("spanId", "span_id"))
                        if name in found
                    }
    return json.dumps(plain).encode(), AS_JSON


async def send(caller: Any, request: ExportLogsServiceRequest, form: str, *, packed: str = "none") -> int:
    """Send an export; returns how many records were refused."""
    raw, headers = written(request, form)
    coding, pack = PACKERS[packed]
    raw, headers = pack(raw), {**headers, "content-encoding": coding}
    answer = await caller.post("/v1/logs", content=raw, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == headers["content-type"]
    if form == "protobuf":
        return int(ExportLogsServiceResponse.FromString(answer.content).partial_success.rejected_log_records)
    return int(answer.json().get("partialSuccess", {}).get("rejectedLogRecords", 0))


@pytest.mark.parametrize("packed", ["none", "gzip", "brotli"])
@pytest.mark.parametrize("form", ["protobuf", "json"])
async def test_an_exception_is_in_the_case_of_its_like(world: World, project, form, packed):
    """Whoever reports it: natively, it is the same case; its resource says release and environment."""
    owner, made, dsn = project
    frames = [{"file": "a.py", "function": "f", "in_app": True}, {"file": "lib.py", "function": "run", "in_app": True}]
    told = LOG | {"extra": {"exception": {"type": "PaymentError", "frames": frames}}}
    native = ok(await dsn.post("/v1/logs/", told), 202)
    assert await send(dsn, export(ERROR, {"body": "hello", "severity_number": 9}), form, packed=packed) == 0
    case = ok(await owner.get(f"/v1/cases/{native['case_id']}"))
    assert (case["event_count"], case["users_affected"], case["environments"]) == (2, 1, ["staging"])
    [row] = await world.sql(
        "select level, message, environment, release, user_id, tags, extra, fingerprint from log_events "
        "where project_id = %s and tags ? 'trace_id'",
        made["id"],
    )
    level, message, environment, release, user, tags, extra, fingerprint = row
    assert (level, message, environment, release, user) == ("error", "Payment 18 failed", "staging", "1.2.3", "u1")
    assert fingerprint == native["fingerprint"]
    assert tags["trace_id"] == bytes(range(16)).hex()
    assert (tags["span_id"], tags["logger"], tags["service.name"]) == (bytes(range(8)).hex(), "shop.orders", "shop")
    assert (extra["body"], extra["attributes"]["cart"], extra["time_unix_nano"]) == (
        "charging failed",
        "full",
        str(START),
    )
    assert (
        extra["exception"]["frames"][0] | {"file": "a.py", "function": "f", "in_app": True, "lineno": 3}
        == extra["exception"]["frames"][0]
    )
    plain = "select level, message, case_id from log_events where project_id = %s and message = 'hello'"
    assert await world.sql(plain, made["id"]) == [("info", "hello", None)]


def trace(told: str) -> str:
    return f'Traceback (most recent call last):\n  File "/app/a.py", line 3, in f\n    x\n{told}\n'


@pytest.mark.parametrize(
    ("attributes", "kind", "value"),
    [
        ({"type": "KeyError", "message": "shop", "stacktrace": trace("KeyError: 'shop'")}, "KeyError", "'shop'"),
        ({"type": "shop.E", "message": "13", "stacktrace": trace("shop.E: a\n\nb: c")}, "E", "a\n\nb: c"),
        ({"type": "__main__.Shop.Closed", "stacktrace": trace("Shop.Closed: m")}, "Shop.Closed", "m"),
        ({"type": "Closed", "message": "m", "stacktrace": trace("shop.Shop.Closed")}, "Shop.Closed", None),
        ({"type": "E", "message": "m", "stacktrace": trace("E: cut he")[:-1]}, "E", "m"),
        ({"type": "E", "message": "m", "stacktrace": trace("Other: n")}, "E", "m"),
        ({"type": "E", "stacktrace": trace("Other: n")}, "E", None),
        ({"stacktrace": trace("shop.E: n")}, "E", "n"),
        ({"stacktrace": go.text}, "panic", go.value),
        ({"type": "*errors.errorString", "message": "m", "stacktrace": go.text}, "errorString", "m"),
    ],
)
async def test_the_value_in_the_trace_beats_an_attribute_without_its_quotes(
    world: World, project, attributes, kind, value
):
    """Of Python's whole trace of the same type (G-175); of any other what an attribute lacks."""
    _, made, dsn = project
    record = {"attributes": {f"exception.{name}": text for name, text in attributes.items()}}
    assert await send(dsn, export(record), "protobuf") == 0
    [[message, exception]] = await world.sql(
        "select message, extra->'exception' from log_events where project_id = %s", made["id"]
    )
    assert (message, exception["type"], exception.get("value")) == (value or kind, kind, value)
    assert exception["frames"][0]["in_app"]


@pytest.mark.parametrize("form", ["protobuf", "json"])
async def test_an_export_sent_again_stores_nothing_twice(world: World, project, form):
    """The same bytes are the same export; equal records in it are two, and records without a time are always new."""
    _, made, dsn = project
    request = export(ERROR, ERROR | {"time_unix_nano": START}, {"body": "no time", "time_unix_nano": 0})
    for _ in range(2):
        assert await send(dsn, request, form) == 0
    assert await stored(world, made["id"]) == (4, 0)
    await asyncio.gather(*(send(dsn, export(ERROR, resource={"a": "b"}), form) for _ in range(6)))
    assert await stored(world, made["id"]) == (5, 0)


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"severity_number": number}, level)
        for number, level in zip(range(1, 25, 4), ["debug", "debug", "info", "warning", "error", "fatal"], strict=True)
    ]
    + [
        ({"severity_text": "Notice"}, "info"),
        ({"severity_text": "CRITICAL"}, "fatal"),
        ({}, "info"),
        ({"attributes": {"exception.type": "E"}}, "error"),
    ],
)
async def test_how_grave_a_record_is(world: World, project, fields, level):
    _, made, dsn = project
    assert await send(dsn, export({"body": "m", **fields}), "protobuf") == 0
    assert await world.sql("select level from log_events where project_id = %s", made["id"]) == [(level,)]


async def test_what_is_no_record_is_counted_and_the_others_are_stored(world: World, project):
    """Truncated, too deep, too large: refused alone; wide numbers, NUL, infinities: adjusted (G-133)."""
    _, made, dsn = project
    before = await figures(world)
    request = export(*[{"body": f"m{number}"} for number in range(6)])
    records = request.resource_logs[0].scope_logs[0].log_records
    deep = records[1].body
    for _ in range(90):
        deep = deep.array_value.values.add()
    records[2].body.string_value = "x" * 300_000
    records[3].body.string_value = "a\0b"
    records[3].attributes.add(key="n").value.int_value = 2**60
    records[4].attributes.add(key="far").value.double_value = float("inf")
    records[5].body.kvlist_value.values.add(key="a").value.bytes_value = b"\xff"
    raw = request.SerializeToString().replace(b"m0", b"\xff\xfe")
    answer = await dsn.post("/v1/logs", content=raw, headers=AS_PROTOBUF)
    told = ExportLogsServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, told.rejected_log_records) == (200, 3)
    assert told.error_message
    rows = await world.sql(
        "select message, adjusted, extra->'attributes' from log_events where project_id = %s order by 1", made["id"]
    )
    assert rows == [
        ("a=/w==", None, None),
        ("a\ufffdb", ["message", "extra.attributes.n"], {"n": str(2**60)}),
        ("m4", None, {"far": "inf"}),
    ]
    after = await figures(world)
    grown = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert grown == {'kind="logs",outcome="accepted"': 3, 'kind="logs",outcome="malformed"': 3}


@pytest.mark.parametrize(
    ("raw", "headers", "status"),
    [
        (b"\x0a\xff\xff\xff\xff\x7f", AS_PROTOBUF, 400),
        (b"\x0b", AS_PROTOBUF, 400),
        (export(ERROR).SerializeToString()[:-3], AS_PROTOBUF, 400),
        (b"\x0a\x00" * 10_001, AS_PROTOBUF, 413),
        (b"x" * (4 * 1024 * 1024 + 1), AS_PROTOBUF, 413),
        (gzip.compress(b"\0" * 5_000_000, mtime=0), {**AS_PROTOBUF, "content-encoding": "gzip"}, 413),
        (gzip.compress(b"\0", mtime=0)[:-4], {**AS_PROTOBUF, "content-encoding": "gzip"}, 400),
        (brotli.compress(b"\0" * 50_000_000, quality=1), {**AS_PROTOBUF, "content-encoding": "br"}, 413),
        (brotli.compress(b"\0" * 50)[:-1], {**AS_PROTOBUF, "content-encoding": "br"}, 400),
        (zstd.compress(b"\0" * 50_000_000), {**AS_PROTOBUF, "content-encoding": "zstd"}, 413),
        (b'{"resourceLogs": 7}', AS_JSON, 400),
        (b'{"resourceLogs": ' + b"[" * 5_000, AS_JSON, 400),
        (b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [' + b"{}," * 500_000 + b"{}]}]}]}", AS_JSON, 413),
    ],
)
async def test_what_is_no_export_changes_nothing(world: World, project, raw, headers, status):
    """The error is a Status in the encoding of the request, with a code of gRPC."""
    _, made, dsn = project
    answer = await dsn.post("/v1/logs", content=raw, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == headers["content-type"]
    if headers is AS_JSON:
        assert answer.json()["code"] == {400: 3, 413: 8}[status]
    else:
        assert answer.content[:2] == bytes([0x08, {400: 3, 413: 8}[status]])
    assert await world.telemetry(made["id"]) == 0


async def test_a_million_records_are_too_many(world: World, project):
    _, made, dsn = project
    scope = b"\x12\x00" * 1_000_000
    raw = b""
    for tag in (b"\x12", b"\x0a"):
        size, length = len(scope), b""
        while size:
            length += bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
            size >>= 7
        raw = scope = tag + length + scope
    answer = await dsn.post("/v1/logs", content=raw, headers=AS_PROTOBUF)
    assert (answer.status_code, answer.content[:2]) == (413, b"\x08\x08")
    assert await world.telemetry(made["id"]) == 0


@pytest.mark.parametrize("depth", [40, 100, 250, 5_000])
async def test_a_deep_record_is_cut_or_refused_alone(world: World, project, depth):
    """JSON nests as deep as its sender likes; the record beside it is stored in any case (G-133)."""
    _, made, dsn = project
    deep = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
    odd = f'{{"attributes":[{{"key":"a","value":{deep}}}],"body":{{"stringValue":"deep"}}}}'
    records = f'{odd},{{"body":{{"stringValue":"m"}}}}'
    raw = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{records}]}}]}}]}}'
    answer = await dsn.post("/v1/logs", content=raw.encode(), headers=AS_JSON)
    rows = await world.sql("select message, adjusted from log_events where project_id = %s order by 1", made["id"])
    if depth > 1_000:
        assert (answer.status_code, rows) == (400, [])  # So deep that it is no JSON to anybody.
        return
    refused_records = int(answer.json().get("partialSuccess", {}).get("rejectedLogRecords", 0))
    assert (answer.status_code, refused_records + len(rows), rows[-1]) == (200, 2, ("m", None))
    if len(rows) > 1:
        assert (rows[0][1] is not None) == (depth > 60)


async def test_only_a_dsn_exports_and_errors_are_told_in_kind(world: World, project):
    _, made, dsn = project
    raw = export(ERROR).SerializeToString()
    nobody = await world.post("/v1/logs", content=raw, headers=AS_PROTOBUF)
    assert (nobody.status_code, nobody.content[:2], nobody.headers["content-type"]) == (
        401,
        b"\x08\x10",
        "application/x-protobuf",
    )
    await world.sql("update projects set status = 'fenced' where project_id = %s", made["id"])
    fenced = await dsn.post("/v1/logs", content=raw, headers=AS_PROTOBUF)
    assert (fenced.status_code, fenced.content[:2]) == (409, b"\x08\x09")
    assert b"project_deletion_in_progress: " in fenced.content
    raw, headers = written(export(ERROR), "json")
    assert (
        (await dsn.post("/v1/logs", content=raw, headers=headers))
        .json()["message"]
        .startswith("project_deletion_in_progress: ")
    )
    refused(await world.post("/v1/analytics", content=raw, headers=AS_PROTOBUF), 401, "unauthenticated")


@pytest.mark.parametrize("form", ["protobuf", "json"])
async def test_a_record_keeps_a_bounded_part_of_its_resource(world: World, project, form):
    """It is said once and stored with each record; the first attributes are kept, and what is not is named."""
    _, made, dsn = project
    resource = {**RESOURCE, **{f"k8s.{number}": "v" * 400 for number in range(30)}, "last": "x"}
    request = export({"body": "m"}, resource=resource)
    listed = request.resource_logs[0].resource.attributes.add(key="command.line")
    listed.value.array_value.values.add().string_value = "c" * 9_000
    assert await send(dsn, request, form) == 0
    [[tags, extra, size]] = await world.sql(
        "select tags, extra, length(tags::text) + length(extra::text) from log_events where project_id = %s",
        made["id"],
    )
    kept = [name for name in tags if name.startswith("k8s.")]
    assert kept == [f"k8s.{number}" for number in range(len(kept))]
    assert 15 < len(kept) < 21
    assert (tags["last"], tags["service.name"], tags["logger"]) == ("x", "shop", "shop.orders")
    assert "resource" not in extra
    left_out = [f"resource.k8s.{number}" for number in range(len(kept), 30)] + ["resource.command.line"]
    assert extra["left_out"] == left_out
    assert size < 10_000


async def test_very_many_attributes_are_left_out_by_number(world: World, project):
    """Also more tags than an event has."""
    _, made, dsn = project
    assert await send(dsn, export({"body": "m"}, resource={f"a{number:03}": "v" for number in range(120)}), "json") == 0
    [[tags, extra]] = await world.sql("select tags, extra from log_events where project_id = %s", made["id"])
    assert len(tags) == 47
    assert extra["left_out"] == [f"resource.a{number:03}" for number in range(46, 65)] + ["resource: 55 more"]


async def test_an_export_that_would_store_too_much_is_refused_before_it_is_read(world: World, project):
    """45 KB became 472 MB of rows: the parts are summed before any record is made of them."""
    _, made, dsn = project
    resource = {f"a{number}": "y" * 490 for number in range(16)}
    request = export(*[{"body": "m"}] * 6_000, resource=resource)
    raw = gzip.compress(request.SerializeToString())
    assert len(raw) < 100_000
    headers = {**AS_PROTOBUF, "content-encoding": "gzip"}
    answer = await dsn.post("/v1/logs", content=raw, headers=headers)
    assert (answer.status_code, answer.content[:2]) == (413, b"\x08\x08")
    assert (
        b"payload_too_large: The records of the export, each with what it keeps of its resource, are" in answer.content
    )
    assert await world.telemetry(made["id"]) == 0


class _Reader:
    """Counts the resources that it reads."""

    def __init__(self) -> None:
        self.resources = 0

    def read_resource(self, raw: bytes, unread: Unread) -> Any:
        self.resources += 1
        return otlp_protobuf.read_resource(raw, unread)

    def read_scope(self, raw: bytes, unread: Unread) -> str:
        return otlp_protobuf.read_scope(raw, unread)


def test_of_very_many_resources_the_last_one_is_kept_as_it_was_read():
    """And one that all records share is read once."""
    names = [{f"{name}.{n}": "x" * 10 for n in range(20)} for name in range(500)]
    request = ExportLogsServiceRequest()
    for resource in names:
        request.MergeFrom(export(ERROR, ERROR, resource=resource))
    found = otlp_protobuf.cut(request.SerializeToString(), 10_000)
    reader = _Reader()
    scopes = Scopes(reader, found)
    tracemalloc.start()
    try:
        seen = [len(scopes.of(number).tags) for number in range(len(found))]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (seen, reader.resources) == ([21] * 1000, 500)
    assert held < 100_000


async def test_an_empty_export_is_taken(project):
    _, _, dsn = project
    assert await send(dsn, ExportLogsServiceRequest(), "protobuf") == 0
    answer = await dsn.post("/v1/logs", content=b'{"resourceLogs":[]}', headers=AS_JSON)
    assert (answer.status_code, answer.json()) == (200, {})


async def test_a_native_body_keeps_its_answer(project):
    """Also one that speaks of resourceLogs, and one with an odd name for them."""
    _, _, dsn = project
    ok(await dsn.post("/v1/logs", {"level": "error", "message": "m", "extra": {"resourceLogs": []}}), 202)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(max_size=20), min_size=1, max_size=8),
    severities=st.lists(st.integers(-3, 30), min_size=8, max_size=8),
)
async def test_both_encodings_store_the_same(world: World, texts, severities):
    owner = await world.sign_in()
    request = export(
        *[{"body": text, "severity_number": number} for text, number in zip(texts, severities, strict=False)]
    )
    found = []
    for form in ("protobuf", "json"):
        made = await owner.create_project()
        assert await send(world.having(made["dsn"]), request, form) == 0
        query = "select level, message, tags, extra, adjusted, fingerprint from log_events where project_id = %s"
        found.append(await world.sql(f"{query} order by extra->>'time_unix_nano'", made["id"]))
    assert found[0] == found[1]
    assert len(found[0]) == len(texts)


def _json(logs: dict[str, Any], **beside: Any) -> bytes:
    return json.dumps({"resourceLogs": [logs], **beside}).encode()


OLD_RECORD = {"timeUnixNano": str(START), "severityNumber": "SEVERITY_NUMBER_ERROR2", "name": "checkout.failed"}
NEW_RECORD = {"timeUnixNano": str(START), "severityNumber": 18, "body": {"stringValue": "m"}}
OLDER = [
    # JavaScript's exporter before 1.0.
    _json({"instrumentationLibraryLogs": [{"instrumentationLibrary": {"name": "shop"}, "logs": [OLD_RECORD]}]}),
    # An agent that writes the names of protobuf.
    json.dumps(
        {
            "resource_logs": [
                {
                    "scope_logs": [
                        {
                            "scope": {"name": "shop"},
                            "log_records": [
                                {
                                    "time_unix_nano": str(START),
                                    "severity_number": "ERROR2",
                                    "body": {"string_value": "checkout.failed"},
                                }
                            ],
                        }
                    ]
                }
            ]
        }
    ).encode(),
    # A collector between the two names of a scope: the new one holds all, or the old one.
    field(
        1,
        b"\xc2\x3e"
        + field(
            0,
            field(1, field(1, b"shop"))
            + field(2, b"\x09" + START.to_bytes(8, "little") + b"\x10\x12" + field(4, b"checkout.failed")),
        )[1:],
    ),
]


@pytest.mark.parametrize("raw", OLDER, ids=["libraries", "snake case", "field 1000"])
async def test_an_export_of_an_older_form_is_stored_and_told(world: World, project, raw):
    """Its severity by name and its name of a record, too; the answer says that nothing of it was rejected (G-206)."""
    _, made, dsn = project
    headers = AS_JSON if raw.startswith(b"{") else AS_PROTOBUF
    answer = await dsn.post("/v1/logs", content=raw, headers=headers)
    assert answer.status_code == 200, answer.content
    rejected, message = _partial(answer)
    assert rejected == 0
    assert message.startswith("Members of an older form: ")
    rows = await world.sql("select message, level, tags->>'logger' from log_events where project_id = %s", made["id"])
    assert rows == [("checkout.failed", "error", "shop")]


def _partial(answer: Any) -> tuple[int, str]:
    if answer.headers["content-type"] == AS_JSON["content-type"]:
        told = answer.json()["partialSuccess"]
        return int(told["rejectedLogRecords"]), told["errorMessage"]
    found = ExportLogsServiceResponse.FromString(answer.content).partial_success
    return found.rejected_log_records, found.error_message


_VALUE = {"key": "k", "value": {"dateValue": 7}}
UNKNOWN = {
    "spans beside": (
        _json({"scopeLogs": [{"logRecords": [NEW_RECORD]}]}, resourceSpans=[{"scopeSpans": []}]),
        "resourceSpans",
    ),
    "of a resource's logs": (_json({"scopeLogs": [{"logRecords": [NEW_RECORD]}], "cluster": "a"}), "cluster"),
    "of a scope's logs": (_json({"scopeLogs": [{"logRecords": [NEW_RECORD], "pipeline": {}}]}), "pipeline"),
    "of a resource": (_json({"resource": {"labels": {}}, "scopeLogs": [{"logRecords": [NEW_RECORD]}]}), "labels"),
    "of a scope": (_json({"scopeLogs": [{"scope": {"lang": "go"}, "logRecords": [NEW_RECORD]}]}), "lang"),
    "of a record": (_json({"scopeLogs": [{"logRecords": [{**NEW_RECORD, "stream": "stderr"}]}]}), "stream"),
    "of a value": (_json({"scopeLogs": [{"logRecords": [{**NEW_RECORD, "attributes": [_VALUE]}]}]}), "dateValue"),
    "a severity": (_json({"scopeLogs": [{"logRecords": [{**NEW_RECORD, "severityNumber": "BAD"}]}]}), "severityNumber"),
    "both forms": (
        _json({"scopeLogs": [{"logRecords": [NEW_RECORD]}], "instrumentationLibraryLogs": [{"logs": [OLD_RECORD]}]}),
        "instrumentationLibraryLogs",
    ),
    "field of the request": (export({"body": "m"}).SerializeToString() + field(9, b"x"), "Request field 9"),
    "number of the request": (export({"body": "m"}).SerializeToString() + b"\x48\x01", "Request field 9"),
    "field of a record": (
        field(1, field(2, field(2, field(5, field(1, b"m")) + field(14, b"x")))),
        "LogRecord field 14",
    ),
    "kind of a value": (
        field(1, field(2, field(2, field(5, field(1, b"m")) + field(6, field(1, b"k") + field(2, field(12, b"x")))))),
        "AnyValue of an unknown kind",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
async def test_an_unknown_member_is_told_and_the_rest_is_stored(world: World, project, name):
    """At each level of an export, in both encodings: never a silent 200 (G-206)."""
    _, made, dsn = project
    raw, told = UNKNOWN[name]
    headers = AS_JSON if raw.startswith(b"{") else AS_PROTOBUF
    answer = await dsn.post("/v1/logs", content=raw, headers=headers)
    assert answer.status_code == 200, answer.content
    assert _partial(answer) == (0, f"Members that are not read: {told}.")
    assert await world.sql("select message from log_events where project_id = %s", made["id"]) == [("m",)]


async def test_a_rejected_record_is_told_beside_an_unknown_member(project):
    """Both in one sentence each."""
    _, _, dsn = project
    raw = _json({"scopeLogs": [{"logRecords": [NEW_RECORD, {"body": 7}], "pipeline": 1}]})
    answer = await dsn.post("/v1/logs", content=raw, headers=AS_JSON)
    reason = "Some records are not of the form of a log record."
    assert _partial(answer) == (1, f"{reason} Members that are not read: pipeline.")
    plain = await dsn.post("/v1/logs", content=_json({"scopeLogs": [{"logRecords": [NEW_RECORD]}]}), headers=AS_JSON)
    assert plain.json() == {}
