"""Export requests of OpenTelemetry in JSON: the protobuf's mapping, but ids in hexadecimal (G-142). Pure functions.

A part with an unknown member is decoded once more without it, and the member is noted. So are members of an older form,
and those in the spelling of protobuf: they are read in the place of the newer ones (G-206).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar, get_args

import msgspec

from service.ingest.foreign import otlp
from service.ingest.foreign.common import FAULTS, decode_any

T = TypeVar("T")

MOST_PARTS = 350_000
"""Commas outside of texts: a request of four megabytes has fewer unless it holds next to nothing, and its parts, which
exist at once before they can be counted, take up to sixty bytes each."""

_EMPTY, _NULL = msgspec.Raw(b"{}"), msgspec.Raw(b"null")
_UNREAD = _NULL
"""Of a member that is known and not kept."""
_OLDER = {
    "instrumentationLibraryLogs": "scopeLogs",
    "instrumentationLibrary": "scope",
    "logs": "logRecords",
    "name": "eventName",
}
"""Members of older forms, with those that took their place."""


class _Value(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None
    array_value: _Values | None = None
    kvlist_value: _Members | None = None
    bytes_value: str | None = None


class _Values(msgspec.Struct, forbid_unknown_fields=True):
    values: list[_Value | None] | None = None


class _Member(msgspec.Struct, forbid_unknown_fields=True):
    key: str = ""
    value: _Value | None = None


class _Members(msgspec.Struct, forbid_unknown_fields=True):
    values: list[_Member] | None = None


class _Resource(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    attributes: list[_Member] | None = None
    dropped_attributes_count: msgspec.Raw = _UNREAD
    entity_refs: msgspec.Raw = _UNREAD


class _Scope(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    name: str | None = None
    version: msgspec.Raw = _UNREAD
    attributes: msgspec.Raw = _UNREAD
    dropped_attributes_count: msgspec.Raw = _UNREAD


class _Record(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    time_unix_nano: int | str | None = None
    observed_time_unix_nano: int | str | None = None
    severity_number: int | str | None = None
    severity_text: str | None = None
    body: _Value | None = None
    attributes: list[_Member] | None = None
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None
    dropped_attributes_count: msgspec.Raw = _UNREAD
    flags: msgspec.Raw = _UNREAD


class _ScopeLogs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    scope: msgspec.Raw = _EMPTY
    log_records: list[msgspec.Raw] | None = None
    schema_url: msgspec.Raw = _UNREAD


class _ResourceLogs(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    resource: msgspec.Raw = _EMPTY
    scope_logs: list[_ScopeLogs] | None = None
    schema_url: msgspec.Raw = _UNREAD


class _Request(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    resource_logs: list[_ResourceLogs] | None = None


_request = msgspec.json.Decoder(_Request).decode
_resource = msgspec.json.Decoder(_Resource | None)
_scope = msgspec.json.Decoder(_Scope | None)
_record = msgspec.json.Decoder(_Record)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_objects = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | None).decode
_texts = msgspec.json.Decoder(list[msgspec.Raw] | None).decode

_NEITHER = bytes(set(range(256)) - {*b'",'})
_AT_ONCE = 64 * 1024


class _Texts(otlp.Cut):
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


def cut(raw: bytes, most: int) -> otlp.Cut:
    """Cut a request into at most `most` records, and as many scopes. Raises MalformedExport and TooManyRecords."""
    _check_parts(raw)
    found = _Texts(most)
    try:
        request = decode_any(partial(_read_request, most=most, unread=found.unread), raw)
    except otlp.TooManyRecords:
        raise
    except FAULTS:
        raise otlp.MalformedExport from None
    for resource_logs in request.resource_logs or ():
        found.resources.write(resource_logs.resource)
        found.end_resource()
        for scope_logs in resource_logs.scope_logs or ():
            found.scopes.write(scope_logs.scope)
            found.add(scope_logs.log_records or [])
    return found


def _read_request(raw: bytes, most: int, unread: otlp.Unread) -> _Request:
    """Decode a request, level by level when a member of one is unknown. Raises as the decoder, and TooManyRecords."""
    try:
        return _request(raw)
    except msgspec.ValidationError:
        top = _renamed(_object(raw), _Request, unread)
    request = _Request([])
    assert request.resource_logs is not None
    for logs in _few(top.get("resourceLogs", _NULL), most):
        told = _renamed(logs, _ResourceLogs, unread)
        scopes = [_renamed(scope, _ScopeLogs, unread) for scope in _few(told.get("scopeLogs", _NULL), most)]
        parts = [_ScopeLogs(one.get("scope", _EMPTY), _texts(one.get("logRecords", _NULL))) for one in scopes]
        request.resource_logs.append(_ResourceLogs(told.get("resource", _EMPTY), parts))
    return request


def _few(raw: msgspec.Raw, most: int) -> Sequence[dict[str, msgspec.Raw]]:
    found = _objects(raw) or ()
    if len(found) > most:
        raise otlp.TooManyRecords
    return found


def _read(decoder: msgspec.json.Decoder[T], raw: bytes, unread: otlp.Unread) -> T:
    """Decode a part, without its unknown members if it has some. Raises as the decoder."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return msgspec.convert(_known(msgspec.json.decode(raw), decoder.type, unread), decoder.type)


def _known(value: Any, kind: Any, unread: otlp.Unread) -> Any:
    """The value without the members that its kind does not have, and without those that are not kept."""
    if isinstance(value, list):
        return [_known(item, kind, unread) for item in value]
    shape = _shape_in(kind)
    if shape is None or not isinstance(value, dict):
        return value
    kinds = _kinds_of(shape)
    told = _renamed(value, shape, unread)
    return {name: _known(held, kinds[name], unread) for name, held in told.items() if kinds[name] is not msgspec.Raw}


def _renamed(members: Mapping[str, T], shape: type[msgspec.Struct], unread: otlp.Unread) -> dict[str, T]:
    """The known members, those of an older form under their newer names. All others are noted."""
    kinds = _kinds_of(shape)
    kept: dict[str, T] = {}
    for name, value in members.items():
        now = name
        if name not in kinds:
            first, *rest = name.split("_")
            camel = first + "".join(map(str.capitalize, rest))
            now = _OLDER.get(camel, camel)
            if now not in kinds or now in members:
                unread.add([name])
                continue
            unread.add_older(name)
        kept[now] = value
    return kept


@cache
def _kinds_of(shape: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(shape)}


def _shape_in(kind: Any) -> type[msgspec.Struct] | None:
    """The shape in a type such as a list of it, or nothing."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for part in get_args(kind) if (found := _shape_in(part)) is not None), None)


def _check_parts(raw: bytes) -> None:
    """Raise TooManyRecords for a request of nothing but parts."""
    if raw.count(b",") > MOST_PARTS and _commas(raw) > MOST_PARTS:
        raise otlp.TooManyRecords


def _commas(raw: bytes) -> int:
    """How many commas a well-formed text has outside of strings; for any other a number that need not mean much."""
    bare = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NEITHER)
    count = inside = 0
    for begin in range(0, len(bare), _AT_ONCE):
        parts = bare[begin : begin + _AT_ONCE].split(b'"')
        count += sum(map(len, parts[inside::2]))
        inside = (inside + len(parts) - 1) % 2
    return count


def read_resource(raw: bytes, unread: otlp.Unread) -> dict[str, Any]:
    """Read the attributes of a resource. Raises MalformedExport."""
    try:
        otlp.check_size(raw)
        found = _read(_resource, raw, unread)
        return _members(found.attributes[: otlp.MAX_RESOURCE] if found and found.attributes else None)
    except FAULTS:
        raise otlp.MalformedExport from None


def read_scope(raw: bytes, unread: otlp.Unread) -> str:
    """Read the name of a scope. Raises MalformedExport."""
    try:
        otlp.check_size(raw)
        found = _read(_scope, raw, unread)
    except FAULTS:
        raise otlp.MalformedExport from None
    return (found.name if found else None) or ""


def read_record(raw: bytes, unread: otlp.Unread) -> otlp.OtlpRecord:
    """Read a record. Raises MalformedExport."""
    try:
        otlp.check_size(raw)
        found = _read(_record, raw, unread)
        return otlp.OtlpRecord(
            _whole(found.time_unix_nano),
            _whole(found.observed_time_unix_nano),
            _severity(found.severity_number, unread),
            found.severity_text or "",
            _value(found.body),
            _members(found.attributes),
            found.trace_id or "",
            found.span_id or "",
            found.event_name or "",
        )
    except FAULTS:
        raise otlp.MalformedExport from None


def _whole(value: int | str | None) -> int:
    """A whole number, which this mapping writes as a text when it is a long one; 0 for what is none of 64 bits."""
    if isinstance(value, str):
        value = int(value) if value.isdecimal() and len(value) <= len(str(2**64)) else 0
    return value if value is not None and 0 <= value < 2**64 else 0


def _severity(value: int | str | None, unread: otlp.Unread) -> int:
    """The number of a severity. Older exporters write its name in protobuf; one without a number is noted."""
    if not isinstance(value, str) or value.isdecimal():
        return _whole(value)
    number = otlp.SEVERITIES.get(value.upper().removeprefix("SEVERITY_NUMBER_"))
    if number is None:
        unread.add(["severityNumber"])
        return 0
    unread.add_older("severityNumber")
    return number


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
        return otlp.plain_number(value.double_value) if isinstance(value.double_value, float) else value.double_value
    return next((held for held in (value.string_value, value.bool_value, value.bytes_value) if held is not None), None)


def _long(text: str) -> int | str:
    """A whole number that came as a text; one that is no such thing stays what it is."""
    return int(text) if len(text) <= 20 and text.lstrip("-").isdecimal() else text[:100]  # noqa: PLR2004 - of 64 bits
