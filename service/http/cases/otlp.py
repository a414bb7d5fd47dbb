"""`POST /v1/logs` as OpenTelemetry's exporters send it: log records that land where every log event does (G-142)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

from service.auth.refusals import InvalidPayload
from service.eventstore.commands import Outcome
from service.http.edge.apart import LARGE
from service.http.edge.body_gate import Odd, check_written
from service.http.edge.call import Call
from service.http.edge.errors import PayloadTooLarge
from service.http.edge.otlp import OTLP_PROTOBUF, export_answer
from service.http.edge.several import groups_of, settle
from service.ingest.foreign import otlp_json, otlp_protobuf
from service.ingest.foreign.common import TakenLog, to_log
from service.ingest.foreign.otlp import Record, Scope, to_event
from service.ingest.foreign.otlp_protobuf import Cut, Malformed, Piece, TooMany
from service.ingest.items import AS_SENT, Item, Part, Sender, check_extra

T = TypeVar("T")

OPERATION = "OpenTelemetry export"
"""How idempotency records call it."""
MOST_RECORDS = 10_000
"""Log records of one export: more than a collector puts into one unless it is told to."""
AT_ONCE = 1000
"""Records that wait for their commit together; the deadline of each begins with them."""


async def record_export(call: Call[Any, None]) -> Outcome:
    """Store the log records of an export; those that cannot be taken are counted, and the others are stored.

    A record is known by its export, byte for byte, and its place in it: an export that is sent again stores nothing
    twice within 24 hours, and what was not stored of it. So whatever passes (no room, no database) is answered as such
    for the whole export, also when a part of it is stored. Raises InvalidPayload, PayloadTooLarge, RateLimited, and
    what the intake raises.
    """
    assert call.form is not None
    form, raw = call.form, call.raw_body
    reader = otlp_protobuf if form is OTLP_PROTOBUF else otlp_json
    found = await call.work_on_body(lambda: _cut(reader, raw))
    call.take_tokens(max(0, len(found.pieces) - 1))
    digest = await call.work_on_body(lambda: hashlib.sha256(raw).hexdigest()[:40])
    call.records = Counter()
    refused, reason = 0, ""
    scopes = Scopes(reader, found)
    count = len(found.pieces)
    senders = Senders(call.sender, f"{digest}:{count}")
    for start in range(0, count, AT_ONCE):
        items: list[Item] = []
        for group in groups_of([piece.raw for piece in found.pieces[start : start + AT_ONCE]], start):
            await call.turn(group.size)
            for index in group.indexes:
                try:
                    taken = await _take(call, reader, found.pieces[index], scopes)
                    items.append(await _item_of(call, taken, senders, Part(index, count)))
                except (Malformed, InvalidPayload, RecursionError):
                    refused, reason = refused + 1, "Some records are not of the form of a log record."
                    call.records["logs", HTTPStatus.BAD_REQUEST] += 1
        results = await call.services.intake.submit_all(items)
        refused += settle(call, ["logs"] * len(results), results)
    return export_answer(form, refused, reason or ("Some records could not be stored." if refused else ""))


def _cut(reader: Any, raw: bytes) -> Cut:
    try:
        found: Cut = reader.cut(raw, MOST_RECORDS)
    except Malformed:
        reason = "the body must be one ExportLogsServiceRequest"
        raise InvalidPayload("The body is not an export of logs.", invalid=[("", reason)]) from None
    except TooMany:
        raise PayloadTooLarge(max_items=MOST_RECORDS) from None
    return found


class Scopes:
    """The resources and scopes of an export, each read once."""

    def __init__(self, reader: Any, found: Cut) -> None:
        self._reader = reader
        self._found = found
        self._resources: dict[int, Mapping[str, Any] | None] = {}
        self._scopes: dict[int, Scope | None] = {}

    def of(self, number: int) -> Scope:
        """The scope of a number. Raises Malformed, for each of its records, when it or its resource is that."""
        if number not in self._scopes:
            resource_number, raw = self._found.scopes[number]
            resource = self._resource(resource_number)
            name = _none_if_malformed(self._reader.read_scope, raw)
            self._scopes[number] = None if resource is None or name is None else Scope(resource, name)
        scope = self._scopes[number]
        if scope is None:
            raise Malformed
        return scope

    def _resource(self, number: int) -> Mapping[str, Any] | None:
        if number not in self._resources:
            self._resources[number] = _none_if_malformed(self._reader.read_resource, self._found.resources[number])
        return self._resources[number]


def _none_if_malformed(read: Callable[[bytes], T], raw: bytes) -> T | None:
    try:
        return read(raw)
    except Malformed:
        return None


class _Taken(NamedTuple):
    """A log event, and whether it has a time: one without says nothing that tells a repeat from another event."""

    log: TakenLog
    has_time: bool


async def _take(call: Call[Any, None], reader: Any, piece: Piece, scopes: Scopes) -> _Taken:
    """Read a record, a large one apart. Raises Malformed."""
    if len(piece.raw) > LARGE:
        return await call.work_apart(partial(_read, reader, piece, scopes))
    return _read(reader, piece, scopes)


def _read(reader: Any, piece: Piece, scopes: Scopes) -> _Taken:
    record: Record = reader.read_record(piece.raw)
    return _Taken(to_log(to_event(record, scopes.of(piece.scope))), bool(record.time or record.observed))


class Senders:
    """The sender of an export: of its records that the export's key names, and of those that nothing does."""

    def __init__(self, sender: Sender, key: str) -> None:
        self.known = sender._replace(key=key, request_hash="")
        self.unknown = sender._replace(key=None, request_hash="")


async def _item_of(call: Call[Any, None], taken: _Taken, senders: Senders, part: Part) -> Item:
    """Make an event an item of the intake, as a part of its export. Raises InvalidPayload."""
    body, raw = taken.log
    adjustments = AS_SENT
    try:
        check_written(raw)
    except Odd:
        body, _, raw, adjustments = await call.decode_one(raw)
        check_extra(body, raw)
    if taken.has_time:
        return Item(OPERATION, senders.known, body, raw, adjustments, part)
    return Item(OPERATION, senders.unknown, body, raw, adjustments)
