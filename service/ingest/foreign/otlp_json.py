"""Export requests of OpenTelemetry in JSON: the protobuf's mapping, but ids in hexadecimal (G-142). Pure functions."""

from __future__ import annotations

from typing import Any

import msgspec

from service.ingest.foreign.otlp import OtlpRecord, plain_number
from service.ingest.foreign.otlp_cut import MAX_RESOURCE, Cut, MalformedExport, TooManyRecords, check_size
from service.ingest.foreign.surrogates import FAULTS, decode_any

MOST_PARTS = 350_000
"""Commas outside of texts: a request of four megabytes has fewer unless it holds next to nothing, and its parts, which
exist at once before they can be counted, take up to sixty bytes each."""


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: _Values | None = None
    kvlist_value: _Members | None = None
    bytes_value: str | None = None


class _Values(msgspec.Struct):
    values: list[_Value | None] | None = None


class _Member(msgspec.Struct):
    key: str = ""
    value: _Value | None = None


class _Members(msgspec.Struct):
    values: list[_Member] | None = None


class _Resource(msgspec.Struct):
    attributes: list[_Member] | None = None


class _Scope(msgspec.Struct):
    name: str | None = None


class _Record(msgspec.Struct, rename="camel"):
    time_unix_nano: int | str | None = None
    observed_time_unix_nano: int | str | None = None
    severity_number: int | str | None = None
    severity_text: str | None = None
    body: _Value | None = None
    attributes: list[_Member] | None = None
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None


class _ScopeLogs(msgspec.Struct, rename="camel"):
    scope: msgspec.Raw = msgspec.Raw(b"{}")
    log_records: list[msgspec.Raw] | None = None


class _ResourceLogs(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = msgspec.Raw(b"{}")
    scope_logs: list[_ScopeLogs] | None = None


class _Request(msgspec.Struct, rename="camel"):
    resource_logs: list[_ResourceLogs] | None = None


_request = msgspec.json.Decoder(_Request).decode
_resource = msgspec.json.Decoder(_Resource | None).decode
_scope = msgspec.json.Decoder(_Scope | None).decode
_record = msgspec.json.Decoder(_Record).decode

_NEITHER = bytes(set(range(256)) - {*b'",'})
_AT_ONCE = 64 * 1024


class _Texts(Cut):
    """A request by the texts of its records, none of which is a copy."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._records: list[msgspec.Raw] = []

    def record(self, number: int) -> bytes:
        """The text of a record: a copy."""
        return bytes(self._records[number])

    def add(self, records: list[msgspec.Raw]) -> None:
        """Add the records of the scope that has begun. Raises TooManyRecords."""
        self.end_scope(len(records))
        self._records.extend(records)
        self.sizes.extend(map(len, records))


def cut(raw: bytes, most: int) -> Cut:
    """Cut a request into at most `most` records, and as many scopes. Raises MalformedExport and TooManyRecords."""
    _check_parts(raw)
    try:
        request = decode_any(_request, raw)
    except FAULTS:
        raise MalformedExport from None
    found = _Texts(most)
    for resource_logs in request.resource_logs or ():
        found.resources.write(resource_logs.resource)
        found.end_resource()
        for scope_logs in resource_logs.scope_logs or ():
            found.scopes.write(scope_logs.scope)
            found.add(scope_logs.log_records or [])
    return found


def _check_parts(raw: bytes) -> None:
    """Raise TooManyRecords for a request of nothing but parts."""
    if raw.count(b",") > MOST_PARTS and _commas(raw) > MOST_PARTS:
        raise TooManyRecords


def _commas(raw: bytes) -> int:
    """How many commas a well-formed text has outside of strings; for any other a number that need not mean much."""
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NEITHER)
    count = inside = 0
    for begin in range(0, len(bare), _AT_ONCE):
        parts = bare[begin : begin + _AT_ONCE].split(b'"')
        count += sum(map(len, parts[inside::2]))
        inside = (inside + len(parts) - 1) % 2
    return count


def read_resource(raw: bytes) -> dict[str, Any]:
    """Read the attributes of a resource. Raises MalformedExport."""
    try:
        check_size(raw)
        found = _resource(raw)
        return _members(found.attributes[:MAX_RESOURCE] if found and found.attributes else None)
    except FAULTS:
        raise MalformedExport from None


def read_scope(raw: bytes) -> str:
    """Read the name of a scope. Raises MalformedExport."""
    try:
        check_size(raw)
        found = _scope(raw)
    except FAULTS:
        raise MalformedExport from None
    return (found.name if found else None) or ""


def read_record(raw: bytes) -> OtlpRecord:
    """Read a record. Raises MalformedExport."""
    try:
        check_size(raw)
        found = _record(raw)
        return OtlpRecord(
            _whole(found.time_unix_nano),
            _whole(found.observed_time_unix_nano),
            _whole(found.severity_number),
            found.severity_text or "",
            _value(found.body),
            _members(found.attributes),
            found.trace_id or "",
            found.span_id or "",
            found.event_name or "",
        )
    except FAULTS:
        raise MalformedExport from None


def _whole(value: int | str | None) -> int:
    """A whole number, which this mapping writes as a text when it is a long one; 0 for what is none of 64 bits."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) <= len(str(2**64)) else 0
    return value if value is not None and 0 <= value < 2**64 else 0


def _members(members: list[_Member] | None) -> dict[str, Any]:
    return {member.key: _value(member.value) for member in members or ()}


def _value(value: _Value | None) -> Any:
    if value is None:
        return None
    if value.array_value is not None:
        return [_value(item) for item in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return _members(value.kvlist_value.values)
    if value.int_value is not None:
        return int(value.int_value) if isinstance(value.int_value, int) else _long(value.int_value)
    if value.double_value is not None:
        return plain_number(value.double_value) if isinstance(value.double_value, float) else value.double_value
    return next((held for held in (value.string_value, value.bool_value, value.bytes_value) if held is not None), None)


def _long(text: str) -> int | str:
    """A whole number that came as a text; one that is no such thing stays what it is."""
    return int(text) if len(text) <= 20 and text.lstrip("-").isdecimal() else text[:100]  # noqa: PLR2004 - of 64 bits
