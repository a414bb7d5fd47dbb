"""Export requests of OpenTelemetry in protobuf: cut into records here, each of which the library reads alone (G-142).

The library reads a message as a whole, and a small one may hold millions of empty parts. So the few levels above the
records are walked by their lengths, which costs a step a record and makes nothing, and a record that is malformed is a
matter of that record. The library is loaded with the first request: many a service never gets one.
"""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterator
from functools import cache
from typing import Any

from service.ingest.foreign.otlp import OtlpRecord, plain_number
from service.ingest.foreign.otlp_cut import MAX_RESOURCE, Cut, MalformedExport, Texts, check_size

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIRST, _SECOND = 1, 2
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
    for number, begin, size in _fields(raw, 0, len(raw)):
        if number == _FIRST:
            scopes = _level(raw, begin, size, found.resources, most)
            found.end_resource()
            for scope in zip(*scopes, strict=True):
                found.add(*_level(raw, *scope, found.scopes, most))
    return found


def _level(raw: bytes, begin: int, size: int, first: Texts, most: int) -> tuple[array[int], array[int]]:
    """Write the first field of a message to `first`; returns where the second ones begin, and their sizes.

    Messages that come twice are merged. No more places are returned than are too many. Raises MalformedExport.
    """
    begins, sizes = array("I"), array("I")
    for number, at, length in _fields(raw, begin, begin + size):
        if number == _SECOND and len(begins) <= most:
            begins.append(at)
            sizes.append(length)
        elif number == _FIRST:
            first.write(raw[at : at + length])
    return begins, sizes


def _fields(raw: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The length-delimited fields of a message: their numbers, where they begin, and their sizes. Raises as `cut`."""
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
        elif kind == _VARINT:
            _, at = _varint(raw, at)
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise MalformedExport
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
def _messages() -> tuple[Any, Any, Any, type[Exception]]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped] # noqa: PLC0415 - see above
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope  # noqa: PLC0415
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord  # noqa: PLC0415
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource  # noqa: PLC0415

    return LogRecord, Resource, InstrumentationScope, DecodeError


def read_resource(raw: bytes) -> dict[str, Any]:
    """Read the attributes of a resource. Raises MalformedExport."""
    _, resource_type, _, error = _messages()
    try:
        check_size(raw)
        return _members(resource_type.FromString(raw).attributes[:MAX_RESOURCE])
    except (error, RecursionError):
        raise MalformedExport from None


def read_scope(raw: bytes) -> str:
    """Read the name of a scope. Raises MalformedExport."""
    _, _, scope_type, error = _messages()
    try:
        check_size(raw)
        return str(scope_type.FromString(raw).name)
    except (error, RecursionError):
        raise MalformedExport from None


def read_record(raw: bytes) -> OtlpRecord:
    """Read a record. Raises MalformedExport, also for one that nests deeper than the library goes, or is too large."""
    record_type, _, _, error = _messages()
    try:
        check_size(raw)
        found = record_type.FromString(raw)
    except (error, RecursionError):
        raise MalformedExport from None
    return OtlpRecord(
        found.time_unix_nano,
        found.observed_time_unix_nano,
        found.severity_number,
        found.severity_text,
        _value(found.body),
        _members(found.attributes),
        found.trace_id.hex(),
        found.span_id.hex(),
        found.event_name,
    )


def _members(attributes: Any) -> dict[str, Any]:
    return {member.key: _value(member.value) for member in attributes}


def _value(value: Any) -> Any:
    if text := value.string_value:  # as nearly all are; of any other kind it is empty
        return text
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    held = getattr(value, kind)
    if kind == "array_value":
        return [_value(item) for item in held.values]
    if kind == "kvlist_value":
        return _members(held.values)
    if kind == "bytes_value":
        return base64.b64encode(held).decode()
    return plain_number(held) if kind == "double_value" else held
