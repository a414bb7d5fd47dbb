"""Export requests of OpenTelemetry in protobuf: cut into records here, each of which the library reads alone (G-142).

The library reads a message as a whole, and a small one may hold millions of empty parts. So the few levels above the
records are walked by their lengths, which costs a step a record and makes nothing, and a record that is malformed is a
matter of that record. The library is loaded with the first request: many a service never gets one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from service.ingest.foreign.otlp import Record, plain_number

MAX_RECORD = 256 * 1024
"""Bytes of one record or resource: as many as a log event may have alone."""
MAX_RESOURCE = 128
"""Attributes of a resource that are read: what an SDK keeps unless it is told otherwise."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIRST, _SECOND = 1, 2


class Malformed(ValueError):
    """Bytes that are no such message."""


class TooMany(ValueError):
    """More records, or parts around them, than a request may have."""


class Piece(NamedTuple):
    """The bytes of a record, and the number of its scope."""

    scope: int
    raw: bytes


class Cut(NamedTuple):
    """A request: its records, of each scope the number of its resource and its bytes, and the bytes of resources."""

    pieces: list[Piece]
    scopes: list[tuple[int, bytes]]
    resources: list[bytes]


def cut(raw: bytes, most: int) -> Cut:
    """Cut a request into at most `most` records, and as many scopes. Raises Malformed and TooMany."""
    found = Cut([], [], [])
    for resource_logs in _parts(raw, _FIRST):
        found.resources.append(b"".join(_parts(resource_logs, _FIRST)))  # Messages that come twice are merged.
        if len(found.resources) > most:
            raise TooMany
        for scope_logs in _parts(resource_logs, _SECOND):
            found.scopes.append((len(found.resources) - 1, b"".join(_parts(scope_logs, _FIRST))))
            if len(found.scopes) > most:
                raise TooMany
            for record in _parts(scope_logs, _SECOND):
                found.pieces.append(Piece(len(found.scopes) - 1, record))
                if len(found.pieces) > most:
                    raise TooMany
    return found


def _parts(raw: bytes, wanted: int) -> Iterator[bytes]:
    """The length-delimited fields of a number in a message; all others are passed over. Raises Malformed."""
    at, end = 0, len(raw)
    while at < end:
        tag, at = _varint(raw, at)
        kind = tag & 7
        if kind == _LENGTH:
            size, at = _varint(raw, at)
            if size > end - at:
                raise Malformed
            if tag >> 3 == wanted:
                yield raw[at : at + size]
            at += size
        elif kind == _VARINT:
            _, at = _varint(raw, at)
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise Malformed
    if at != end:
        raise Malformed


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:  # noqa: PLR2004 - bits of the largest
            raise Malformed
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the mark of a last byte
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
    """Read the attributes of a resource. Raises Malformed."""
    _, resource_type, _, error = _messages()
    try:
        check_size(raw)
        return _members(resource_type.FromString(raw).attributes[:MAX_RESOURCE])
    except (error, RecursionError):
        raise Malformed from None


def read_scope(raw: bytes) -> str:
    """Read the name of a scope. Raises Malformed."""
    _, _, scope_type, error = _messages()
    try:
        check_size(raw)
        return str(scope_type.FromString(raw).name)
    except (error, RecursionError):
        raise Malformed from None


def check_size(raw: bytes) -> None:
    """Raise Malformed for a part that is larger than a log event may be."""
    if len(raw) > MAX_RECORD:
        raise Malformed


def read_record(raw: bytes) -> Record:
    """Read a record. Raises Malformed, also for one that nests deeper than the library goes, or is too large."""
    record_type, _, _, error = _messages()
    try:
        check_size(raw)
        found = record_type.FromString(raw)
    except (error, RecursionError):
        raise Malformed from None
    return Record(
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
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
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
