"""`POST /v1/logs` as OpenTelemetry's exporters send it: log records that land where every log event does (G-142)."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Outcome
from service.fairness.offload import LARGE
from service.http.answer.errors import PayloadTooLarge, TooManyItems
from service.http.body.gate import Odd, check_written
from service.http.cases.intake.otlp_form import OTLP_PROTOBUF, export_answer
from service.http.cases.intake.several import Parts, groups_of, settle
from service.http.declare.call import Call
from service.ingest.foreign import otlp_json, otlp_protobuf
from service.ingest.foreign.common import to_log
from service.ingest.foreign.otlp import Cut, MalformedExport, OtlpRecord, Scope, TooManyRecords, Unread, to_event
from service.ingest.items import Item, Part, Sender, check_extra
from service.ingest.kept import REFUSED, Kind

T = TypeVar("T")

OPERATION = "OpenTelemetry export"
"""How idempotency records call it."""
PROTOCOL = "opentelemetry"
_UNREADABLE = "malformed_record"
MOST_RECORDS = 10_000
"""Log records of one export: more than a collector puts into one unless it is told to."""

MOST_STORED = 32 * 1024 * 1024
"""Bytes of the records of an export, each with what it keeps of its resource and scope."""


async def record_export(call: Call) -> Outcome:
    """Store the log records of an export; those that cannot be taken are counted, and the others are stored.

    The answer names unread members, and those of an older form (G-206).

    A record is known by its export, byte for byte, and its place in it: an export that is sent again stores nothing
    twice within 24 hours, and what was not stored of it. So whatever passes (no room, no database) is answered as such
    for the whole export, also when a part of it is stored. Raises InvalidPayload, PayloadTooLarge, RateLimited, and
    what the intake raises.
    """
    assert call.form is not None
    form, raw = call.form, call.raw_body
    reader = otlp_protobuf if form is OTLP_PROTOBUF else otlp_json
    found = await call.work_on_body(lambda: _cut(reader, raw))
    await call.work_on_body(lambda: _weigh(reader, found))
    call.take_tokens(max(0, len(found) - 1))
    digest = await call.work_on_body(lambda: hashlib.sha256(raw).hexdigest()[:40])
    call.records = Counter()
    refused, reason = 0, ""
    export = CutExport(reader, found, call.sender, f"{digest}:{len(found)}")
    parts = Parts[str](call, partial(settle, call), foreign=True)
    for group in groups_of(found.sizes):
        await parts.turn(group.size)
        for index in group.indexes:
            try:
                parts.add("logs", await _item_of(call, export, index))
            except (MalformedExport, InvalidPayload, RecursionError):
                refused, reason = refused + 1, "Some records are not of the form of a log record."
                call.records["logs", HTTPStatus.BAD_REQUEST] += 1
    await parts.store()
    refused += parts.refused
    call.services.intake.kinds.note(Kind(call.project_id, PROTOCOL, _UNREADABLE, REFUSED), refused)
    reason = reason or ("Some records could not be stored." if refused else "")
    return export_answer(form, refused, f"{reason} {found.unread.sentence}".strip())


def _cut(reader: Any, raw: bytes) -> Cut:
    try:
        found: Cut = reader.cut(raw, MOST_RECORDS)
    except MalformedExport:
        reason = "the body must be one ExportLogsServiceRequest"
        raise InvalidPayload("The body is not an export of logs.", invalid=[("", reason)]) from None
    except TooManyRecords:
        raise TooManyItems(MOST_RECORDS) from None
    return found


def _weigh(reader: Any, found: Cut) -> None:
    """Raise PayloadTooLarge for an export that would store too much: what is said once is stored with each record."""
    scopes = Scopes(reader, found)
    total = 0
    for index, size in enumerate(found.sizes):
        with suppress(MalformedExport):  # is told of each record
            total += size + scopes.of(index).size
    if total > MOST_STORED:
        raise PayloadTooLarge(
            f"The records of the export, each with what it keeps of its resource, are {total} bytes.",
            max_bytes=MOST_STORED,
        )


class Scopes:
    """The resources and scopes of an export, of which those that were asked for last are kept as they were read.

    Records of one scope stand together, and so do scopes of one resource: each is read once.
    """

    def __init__(self, reader: Any, found: Cut) -> None:
        self._reader = reader
        self._found = found
        self._resource: tuple[int, Mapping[str, Any] | None] = (-1, None)
        self._scope: tuple[int, Scope | None] = (-1, None)

    def of(self, record: int) -> Scope:
        """The scope of a record. Raises MalformedExport, for each of its records, when it or its resource is that."""
        number = self._found.scope_of(record)
        if self._scope[0] != number:
            self._scope = number, self._read(number)
        if (scope := self._scope[1]) is None:
            raise MalformedExport
        return scope

    def _read(self, number: int) -> Scope | None:
        resource = self._read_resource(self._found.resource_of(number))
        name = self._none_if_malformed(self._reader.read_scope, self._found.scopes[number])
        return None if resource is None or name is None else Scope(resource, name)

    def _read_resource(self, number: int) -> Mapping[str, Any] | None:
        if self._resource[0] != number:
            self._resource = number, self._none_if_malformed(self._reader.read_resource, self._found.resources[number])
        return self._resource[1]

    def _none_if_malformed(self, read: Callable[[bytes, Unread], T], raw: bytes) -> T | None:
        try:
            return read(raw, self._found.unread)
        except MalformedExport:
            return None


class CutExport:
    """An export under its key, cut into its records."""

    def __init__(self, reader: Any, found: Cut, sender: Sender, key: str) -> None:
        self._found = found
        self._reader = reader
        self._scopes = Scopes(reader, found)
        self._named = sender._replace(key=key, request_hash="")
        self._nameless = sender._replace(key=None, request_hash="")

    def is_large(self, index: int) -> bool:
        """Whether a record is read apart."""
        return self._found.sizes[index] > LARGE

    def read(self, index: int) -> Item:
        """Read a record as an item of the intake. Raises MalformedExport.

        It is a part of the export, unless it has no time: then nothing tells a repeat of it from another event.
        """
        record: OtlpRecord = self._reader.read_record(self._found.record(index), self._found.unread)
        body, text, _, first, before, clock = to_log(to_event(record, self._scopes.of(index)))
        if record.time or record.observed:
            part = Part(index, len(self._found))
            return Item(OPERATION, self._named, body, text, part=part, first=first, before=before, clock=clock)
        return Item(OPERATION, self._nameless, body, text, first=first, before=before, clock=clock)


async def _item_of(call: Call, export: CutExport, index: int) -> Item:
    """Read a record, a large one apart, and adjust what is odd in it. Raises MalformedExport and InvalidPayload."""
    if export.is_large(index):
        item = await call.work_apart(partial(export.read, index))
    else:
        item = export.read(index)
    try:
        check_written(item.raw)
    except Odd:
        body, _, raw, adjustments = await call.decode_one(item.raw)
        check_extra(body, raw)
        first, before, clock = item.first, item.before, item.clock
        return Item(OPERATION, item.sender, body, raw, adjustments, item.part, first=first, before=before, clock=clock)
    return item
