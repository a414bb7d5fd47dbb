"""`POST /api/{alias}/envelope/` and `/store/`: what Sentry's SDKs send, stored like any other log event (G-142).

The answer comes when the event is stored and in its case, and an event that comes again within 24 hours is the one
that is stored already: SDKs, and what stands between, may repeat what they sent. Items of other kinds are answered like
those that are taken, and counted, so that no SDK repeats or reports them.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from schemas.cases.foreign.sentry import MAX_ENVELOPE_BYTES, MAX_UNPACKED_BYTES, SentryAccepted
from service.auth.refusals import InvalidPayload
from service.auth.sdk_keys import SENTRY
from service.eventstore.declare.commands import Answer
from service.http.cases.intake import sdks
from service.http.cases.intake.sdk_route import sdk_route
from service.http.edge.answer.errors import TooManyItems
from service.http.edge.body.adjusting import adjust
from service.http.edge.body.gate import Odd, check_body, check_values
from service.http.edge.declare.call import Call
from service.ingest.foreign import envelope, sentry_event
from service.ingest.foreign.common import TakenLog, to_log
from service.ingest.foreign.members import FRAMES
from service.ingest.foreign.reports import known_type, read_report
from service.ingest.queue.items import AS_SENT, Adjustments, Item

OPERATION = "Sentry event"
"""How idempotency records call it: an event is the same one, whichever of the routes it takes."""

_EVENT = "event"
_REPORT = "client_report"
_TAKEN = 202  # as a log event is answered that comes alone
_route = partial(sdk_route, sdks.SENTRY, max_body=MAX_ENVELOPE_BYTES, unpacked=MAX_UNPACKED_BYTES)


class Opened(NamedTuple):
    """What is in an envelope: the text of the event, if it holds one, and what there is to count."""

    event: bytes | None
    event_id: str | None
    types: Counter[str]
    reports: tuple[bytes, ...]


class ReadEvent(NamedTuple):
    """An event that is ready for the intake; `own_id`: the SDK has given it the id."""

    event_id: str
    own_id: bool
    log: TakenLog
    adjustments: Adjustments


@_route("/api/{alias}/envelope/", "record_sentry_envelope", "Record an envelope of a Sentry SDK", SentryAccepted)
async def record_sentry_envelope(call: Call[bytes, None]) -> Answer:
    """Store the event of an envelope and count its other items (G-142)."""
    opened = await call.work_on_body(partial(open_envelope, call.body))
    event_id = None
    if opened.event is not None:
        event_id = await _record(call, opened.event, opened.event_id)
    call.records = Counter({("logs", _TAKEN): opened.types[_EVENT]})
    counts = call.services.intake.sdks
    counts.items.update({(SENTRY, known_type(kind)): count for kind, count in opened.types.items()})
    for report in opened.reports:
        counts.discarded.update({(SENTRY, *what): count for what, count in read_report(report).items()})
    return Answer(200, SentryAccepted() if event_id is None else SentryAccepted(event_id))


@_route("/api/{alias}/store/", "record_sentry_event", "Record an event of an old Sentry SDK", SentryAccepted)
async def record_sentry_event(call: Call[bytes, None]) -> Answer:
    """Store an event that comes without an envelope (G-142)."""
    event_id = await _record(call, call.body, None)
    call.records = Counter({("logs", _TAKEN): 1})
    call.services.intake.sdks.items[SENTRY, _EVENT] += 1
    return Answer(200, SentryAccepted(event_id))


def open_envelope(raw: bytes) -> Opened:
    """Take an envelope apart. Raises InvalidPayload, and TooManyItems for too many items. Pure."""
    try:
        header, items = envelope.parse(raw)
    except envelope.MalformedEnvelope as fault:
        raise _unacceptable(str(fault)) from None
    except envelope.TooManyEnvelopeItems:
        raise TooManyItems(envelope.MAX_ITEMS) from None
    events = [item.payload for item in items if item.type == _EVENT]
    if len(events) > 1:
        raise _unacceptable("an envelope must hold at most one event")
    reports = tuple(item.payload for item in items if item.type == _REPORT)
    return Opened(events[0] if events else None, header.event_id, Counter(item.type for item in items), reports)


async def _record(call: Call[bytes, None], text: bytes, envelope_id: str | None) -> str:
    """Store an event, and return its id. Raises InvalidPayload, and as the intake's `submit`."""
    try:
        read = await call.work_on_body(partial(_read, text, envelope_id))
    except Odd:
        read = await call.work_apart(partial(_read_adjusted, text, envelope_id))
    sender = call.sender
    if read.own_id:
        sender = sender._replace(key=read.event_id, request_hash=read.event_id)
    item = Item(OPERATION, sender, read.log.body, read.log.raw, read.adjustments, client=read.log.client)
    await call.services.intake.submit(item)
    return read.event_id


def _read(text: bytes, envelope_id: str | None, adjustments: Adjustments = AS_SENT) -> ReadEvent:
    """Read an event. Raises Odd when it has to be adjusted first, and InvalidPayload. Pure but for a fresh id."""
    check_values(text)  # first, for a text of many is dear
    payload = check_body(text)
    if not isinstance(payload, dict):
        raise _unacceptable("an event must be a JSON object")
    own = sentry_event.event_id_of(payload.get("event_id"), envelope_id)
    event_id = own or uuid4().hex
    return ReadEvent(event_id, own is not None, to_log(sentry_event.read_event(payload, event_id)), adjustments)


def _read_adjusted(text: bytes, envelope_id: str | None) -> ReadEvent:
    adjusted = adjust(text, FRAMES)
    return _read(adjusted.raw, envelope_id, adjusted.adjustments)


def _unacceptable(reason: str) -> InvalidPayload:
    details: list[Any] = [("", reason)]
    return InvalidPayload("The body does not follow Sentry's protocol.", invalid=details)


ENDPOINTS = [record_sentry_envelope, record_sentry_event]
