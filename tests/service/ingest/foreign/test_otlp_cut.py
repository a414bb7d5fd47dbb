"""An export is cut without copying it, however many parts it has (G-142, P25)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from service.ingest.foreign import otlp_json, otlp_protobuf
from service.ingest.foreign.otlp import MAX_RECORD, MalformedExport, TooManyRecords, check_size
from service.ingest.foreign.otlp_json import MOST_PARTS
from tests.support.protobuf import field

MOST = 10_000
MEGABYTE = 1_000_000
READERS: dict[str, Any] = {"protobuf": otlp_protobuf, "json": otlp_json}


def _export(form: str, record: bytes, records: int, resources: int = 1) -> bytes:
    """An export of resources of a hundred bytes, each with so many records of one scope."""
    if form == "protobuf":
        logs = field(1, b"r" * 100) + field(2, field(1, b"") + field(2, record) * records)
        return field(1, logs) * resources
    listed = b",".join([b'"' + record + b'"'] * records)
    logs = b'{"resource":"' + b"r" * 98 + b'","scopeLogs":[{"logRecords":[' + listed + b"]}]}"
    return b'{"resourceLogs":[' + b",".join([logs] * resources) + b"]}"


def memory_of(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes that the result of some work takes, and the most that were taken meanwhile."""
    tracemalloc.start()
    try:
        result = work()
        held, most = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return held, most


@pytest.mark.parametrize("form", READERS)
def test_the_most_records_take_little_beside_their_body(form: str):
    raw = _export(form, b"x" * 400, MOST)
    held, most = memory_of(lambda: READERS[form].cut(raw, MOST))
    assert held < MEGABYTE
    assert most < 1.5 * MEGABYTE


@pytest.mark.parametrize("form", READERS)
def test_the_most_resources_take_no_more_than_they_have(form: str):
    raw = _export(form, b"", 1, MOST)
    held, _ = memory_of(lambda: READERS[form].cut(raw, MOST))
    assert held < MOST * 100 + MEGABYTE


def _fails(reader: Any, raw: bytes) -> None:
    with pytest.raises(TooManyRecords):
        reader.cut(raw, MOST)


@pytest.mark.parametrize("wanted", ["records", "scopes", "resources"])
@pytest.mark.parametrize("form", READERS)
def test_far_too_many_parts_take_little(form: str, wanted: str):
    """They are too many, whatever they are; JSON is looked over before anything is made of it."""
    parts = b"{}," * 999_999 + b"{}" if form == "json" else field(1 if wanted == "resources" else 2, b"") * 200_000
    if form == "json":
        scopes = b'{"logRecords":[' + parts + b"]}" if wanted == "records" else parts
        logs = parts if wanted == "resources" else b'{"scopeLogs":[' + scopes + b"]}"
        raw = b'{"resourceLogs":[' + logs + b"]}"
    else:
        raw = field(2, parts) if wanted == "records" else parts
        raw = raw if wanted == "resources" else field(1, raw)
    assert memory_of(lambda: _fails(READERS[form], raw))[1] < 10 * MEGABYTE


def test_a_text_of_many_commas_is_one_part():
    text = ",".join(["1"] * 2 * MOST_PARTS) + '\\",\\\\'
    raw = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"' + text.encode() + b'"}}]}]}]}'
    assert len(otlp_json.cut(raw, MOST)) == 1


def test_texts_and_parts_in_turn_are_told_apart_in_little_memory():
    raw = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b'",\\\\",[],"\\"",' * (MOST_PARTS // 3 + 1) + b"{}]}]}]}"
    assert memory_of(lambda: _fails(otlp_json, raw))[1] < 15 * MEGABYTE


def test_no_more_parts_than_are_allowed_take_what_is_in_bounds():
    raw = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + b"{}," * MOST_PARTS + b"{}]}]}]}"
    assert memory_of(lambda: _fails(otlp_json, raw))[1] < 25 * MEGABYTE


def test_a_message_in_very_many_pieces_is_merged_where_it_is():
    raw = field(1, field(1, b"x") * 200_000)
    _, most = memory_of(lambda: otlp_protobuf.cut(raw, MOST))
    assert most < MEGABYTE
    assert otlp_protobuf.cut(raw, MOST).resources[0] == b"x" * 200_000


@pytest.mark.parametrize("form", READERS)
def test_each_record_is_found_with_its_scope_and_resource(form: str):
    request = ExportLogsServiceRequest()
    for number in range(3):
        logs = request.resource_logs.add()
        logs.resource.attributes.add(key="number").value.int_value = number
        for name in "ab"[:number]:
            scope = logs.scope_logs.add()
            scope.scope.name = f"{name}{number}"
            for at in range(number):
                scope.log_records.add(severity_text=f"{name}{number}{at}")
    raw = request.SerializeToString() if form == "protobuf" else MessageToJson(request).encode()
    reader = READERS[form]
    found = reader.cut(raw, 6)
    seen = []
    for index in range(len(found)):
        scope = found.scope_of(index)
        resource = reader.read_resource(found.resources[found.resource_of(scope)], found.unread)
        text = reader.read_record(found.record(index), found.unread).severity_text
        assert found.sizes[index] == len(found.record(index))
        seen.append((resource["number"], reader.read_scope(found.scopes[scope], found.unread), text))
    assert seen == [(1, "a1", "a10"), *((2, f"{name}2", f"{name}2{at}") for name in "ab" for at in range(2))]
    assert found.unread.sentence == ""
    with pytest.raises(TooManyRecords):
        reader.cut(raw, 4)


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("resources", [3, 4])
def test_resources_are_counted_as_well(form: str, resources: int):
    raw = _export(form, b"", 0, resources)
    if resources == 3:
        assert len(READERS[form].cut(raw, 3)) == 0
        return
    with pytest.raises(TooManyRecords):
        READERS[form].cut(raw, 3)


@pytest.mark.parametrize("end", [1, 2, 5])
def test_a_cut_off_request_is_malformed(end: int):
    with pytest.raises(MalformedExport):
        otlp_protobuf.cut(_export("protobuf", b"xy", 2)[:-end], MOST)


def test_a_part_is_as_large_as_an_event_may_be():
    check_size(b"x" * MAX_RECORD)
    with pytest.raises(MalformedExport):
        check_size(b"x" * (MAX_RECORD + 1))


@pytest.mark.parametrize("form", READERS)
def test_of_very_many_unknown_members_a_few_are_named(form: str):
    """Each by a plain name, whatever a sender calls it, and little is kept of them."""
    if form == "json":
        raw = b'{"resourceLogs":[],' + b",".join(b'"' + b"x%d" % at + b'":1' for at in range(100_000)) + b',"<b>":1}'
    else:
        raw = b"".join(field(number % 12 + 2, b"x") for number in range(100_000))
    found = READERS[form].cut(raw, MOST)
    assert len(found.unread.sentence) < 600
    assert found.unread.sentence.count(",") == 9
    odd = b'{"resourceLogs":[],"<b>":1,"' + b"y" * 61 + b'":1}'
    assert otlp_json.cut(odd, MOST).unread.sentence == "Members that are not read: one without a plain name."


def test_far_too_many_parts_with_an_unknown_member_take_what_is_in_bounds():
    raw = b'{"new":1,"resourceLogs":[' + b"{}," * (MOST_PARTS - 5) + b"{}]}"
    assert memory_of(lambda: _fails(otlp_json, raw))[1] < 40 * MEGABYTE
