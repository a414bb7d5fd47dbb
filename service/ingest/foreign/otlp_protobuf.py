"""Export requests of OpenTelemetry in protobuf: cut into records here, each of which the library reads alone (G-142).

The library reads a message as a whole, and a small one may hold millions of empty parts. So the few levels above the
records are walked by their lengths, which costs a step a record and makes nothing, and a record that is malformed is a
matter of that record. The library is loaded with the first request: many a service never gets one.

Fields that are not known are noted, and so are those of an older form, which are read (G-206).
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator
from functools import cache
from typing import Any

from service.ingest.foreign.otlp import MAX_RESOURCE, Cut, MalformedExport, OtlpRecord, Unread, check_size, plain_number

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIRST, _SECOND, _THIRD = 1, 2, 3
_OLDER_SCOPES = 1000
"""The field of the scopes of a resource for a while, when they were called instrumentation libraries."""
_OLDER_NAME = 4
"""The field of the name of a record, before there was one of its event."""
_MORE = 0x80  # of a byte of a number that is not its last one


class _Places(Cut):
    """A request by the places of its records."""

    def __init__(self, raw: bytes, most: int) -> None:
        super().__init__(most)
        self._raw = raw
        self._begins = array("I")

    def record(self, number: int) -> bytes:
        """The bytes of a record: a copy."""
        begin = self._begins[number]
        return self._raw[begin : begin + self.sizes[number]]

    def add(self, begins: array[int], sizes: array[int]) -> None:
        """Add the records of the scope that has begun. Raises TooManyRecords."""
        self.end_scope(len(begins))
        self._begins.extend(begins)
        self.sizes.extend(sizes)


def cut(raw: bytes, most: int) -> Cut:
    """Cut a request into at most `most` records, and as many scopes. Raises MalformedExport and TooManyRecords."""
    found = _Places(raw, most)
    for number, begin, size in _fields(raw, 0, len(raw), "Request", found.unread):
        if number == _FIRST:
            scopes = _level(raw, begin, size, "ResourceLogs", found)
            found.end_resource()
            for scope in zip(*scopes, strict=True):
                found.add(*_level(raw, *scope, "ScopeLogs", found))
        else:
            found.unread.add([f"Request field {number}"])
    return found


def _level(raw: bytes, begin: int, size: int, name: str, found: _Places) -> tuple[array[int], array[int]]:
    """Write the first field of a message to its texts; returns where the second ones begin, and their sizes.

    Messages that come twice are merged. No more places are returned than are too many. Scopes of an older form count
    where there are no others, as their protocol has it. Raises MalformedExport.
    """
    is_resource = name == "ResourceLogs"
    first = found.resources if is_resource else found.scopes
    newer, older = (array("I"), array("I")), (array("I"), array("I"))
    for number, at, length in _fields(raw, begin, begin + size, name, found.unread):
        if number == _SECOND or (number == _OLDER_SCOPES and is_resource):
            begins, sizes = newer if number == _SECOND else older
            if len(begins) <= found.most:
                begins.append(at)
                sizes.append(length)
        elif number == _FIRST:
            first.write(raw[at : at + length])
        elif number != _THIRD:
            found.unread.add([f"{name} field {number}"])
    if older[0] and newer[0]:
        found.unread.add([f"{name} field {_OLDER_SCOPES}"])
    elif older[0]:
        found.unread.add_older("instrumentation_library_logs")
    return newer if newer[0] else older


def _fields(raw: bytes, at: int, end: int, name: str, unread: Unread) -> Iterator[tuple[int, int, int]]:
    """The length-delimited fields of a message: their numbers, where they begin, and their sizes. Raises as `cut`.

    No other field of a message of this `name` is known.
    """
    while at < end:
        tag = raw[at]
        if tag < _MORE:
            at += 1
        else:
            tag, at = _varint(raw, at)
        kind = tag & 7
        if kind == _LENGTH:
            size, at = _varint(raw, at)
            if size > end - at:
                raise MalformedExport
            yield tag >> 3, at, size
            at += size
            continue
        if kind == _VARINT:
            _, at = _varint(raw, at)
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise MalformedExport
        unread.add([f"{name} field {tag >> 3}"])
    if at != end:
        raise MalformedExport


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:  # noqa: PLR2004 - bits of the largest
            raise MalformedExport
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, at
        shift += 7


@cache
def _messages() -> tuple[Any, Any, Any, Any, type[Exception]]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # noqa: PLC0415 - see above
    from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped] # noqa: PLC0415
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope  # noqa: PLC0415
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord  # noqa: PLC0415
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource  # noqa: PLC0415

    return LogRecord, Resource, InstrumentationScope, UnknownFieldSet, DecodeError


def read_resource(raw: bytes, unread: Unread) -> dict[str, Any]:
    """Read the attributes of a resource. Raises MalformedExport."""
    _, resource_type, _, _, _ = _messages()
    return _members(_read(resource_type, raw, unread).attributes[:MAX_RESOURCE], unread)


def read_scope(raw: bytes, unread: Unread) -> str:
    """Read the name of a scope. Raises MalformedExport."""
    _, _, scope_type, _, _ = _messages()
    return str(_read(scope_type, raw, unread).name)


def read_record(raw: bytes, unread: Unread) -> OtlpRecord:
    """Read a record. Raises MalformedExport, also for one that nests deeper than the library goes, or is too large."""
    record_type, *_ = _messages()
    older: dict[int, bytes] = {_OLDER_NAME: b""}
    found = _read(record_type, raw, unread, older)
    return OtlpRecord(
        found.time_unix_nano,
        found.observed_time_unix_nano,
        found.severity_number,
        found.severity_text,
        _value(found.body, unread),
        _members(found.attributes, unread),
        found.trace_id.hex(),
        found.span_id.hex(),
        found.event_name or older[_OLDER_NAME].decode(errors="replace"),
    )


def _read(kind: Any, raw: bytes, unread: Unread, older: dict[int, bytes] | None = None) -> Any:
    """Read a message. Fields that are not known are noted, and their bytes kept of those in `older`.

    Raises MalformedExport.
    """
    *_, unknown, error = _messages()
    try:
        check_size(raw)
        found = kind.FromString(raw)
    except (error, RecursionError):
        raise MalformedExport from None
    for field in unknown(found):
        if older is not None and field.field_number in older and field.wire_type == _LENGTH:
            older[field.field_number] = field.data
            unread.add_older(f"{kind.DESCRIPTOR.name} field {field.field_number}")
        else:
            unread.add([f"{kind.DESCRIPTOR.name} field {field.field_number}"])
    return found


def _members(attributes: Any, unread: Unread) -> dict[str, Any]:
    return {member.key: _value(member.value, unread) for member in attributes}


def _value(value: Any, unread: Unread) -> Any:
    if text := value.string_value:  # as nearly all are; of any other kind it is empty
        return text
    kind = value.WhichOneof("value")
    if kind is None:
        if value.ByteSize():
            unread.add(["AnyValue of an unknown kind"])
        return None
    held = getattr(value, kind)
    if kind == "array_value":
        return [_value(item, unread) for item in held.values]
    if kind == "kvlist_value":
        return _members(held.values, unread)
    if kind == "bytes_value":
        return base64.b64encode(held).decode()
    return plain_number(held) if kind == "double_value" else held
