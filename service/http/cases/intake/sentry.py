"""`POST /api/{alias}/envelope/` and `/store/`: what Sentry's SDKs send, stored like any other log event (G-142).

The answer comes when the event is stored and in its case, and an event that comes again within 24 hours is the one
that is stored already: SDKs, and what stands between, may repeat what they sent. Feedback is stored as well. Items of
other kinds are answered like those that are taken, and counted, so that no SDK repeats or reports them.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from litestar.params import RequestBody

from schemas.cases.foreign import MAX_ENVELOPE_BYTES, MAX_EVENT_BYTES, MAX_UNPACKED_BYTES, SentryAccepted
from service.auth.refusals import InvalidPayload
from service.auth.secrets import SENTRY
from service.eventstore.declare.commands import Answer
from service.http.answer.errors import PayloadTooLarge, TooManyItems
from service.http.body.adjusting import adjust
from service.http.body.gate import Odd, check_body, check_values
from service.http.body.unpacking import decompress
from service.http.cases.intake import feedback, sdks
from service.http.cases.intake.sdk_route import sdk_route
from service.http.declare.call import Call
from service.ingest.foreign import envelope, sentry_event
from service.ingest.foreign.common import FRAMES, TakenLog, to_log
from service.ingest.foreign.crash import with_dump
from service.ingest.foreign.feedback import SOURCES, known_type, read_report
from service.ingest.items import AS_SENT, Adjustments, Item
from service.ingest.kept import LOST, NOT_KEPT, REFUSED, Kind

OPERATION = "Sentry event"
"""How idempotency records call it: an event is the same one, whichever of the routes it takes."""

_EVENT = "event"
_REPORT = "client_report"
_TAKEN = 202  # as a log event is answered that comes alone
_BEGIN = 64  # bytes of an event with its first brace
_MOST_KEPT = {_EVENT: 1, _REPORT: 16, envelope.MINIDUMP: 1, **dict.fromkeys(SOURCES, feedback.MOST_ITEMS)}
"""Items of one envelope."""
_MOST_BYTES = {
    _EVENT: MAX_EVENT_BYTES,
    _REPORT: 16 * 1024,
    envelope.MINIDUMP: envelope.MAX_DUMP,
    **dict.fromkeys(SOURCES, feedback.MOST_BYTES),
}
"""Of each of them."""
_route = partial(sdk_route, sdks.SENTRY, max_body=MAX_ENVELOPE_BYTES, unpacked=MAX_UNPACKED_BYTES, piecewise=True)
_store_route = partial(sdk_route, sdks.SENTRY, max_body=MAX_EVENT_BYTES, unpacked=MAX_EVENT_BYTES)


class ArrivingEnvelope:
    """An arriving envelope. The event, its dump, the reports of the SDK and feedback are kept, and nothing else."""

    def __init__(self) -> None:
        self._reader = envelope.EnvelopeReader(partial(_room, dict(_MOST_KEPT)))

    def feed(self, piece: bytes) -> None:
        """Read a piece, an empty one at the end. Raises InvalidPayload, and TooManyItems. Pure."""
        try:
            if piece:
                self._reader.feed(piece)
            else:
                self._reader.end()
        except envelope.MalformedEnvelope as fault:
            raise sdks.unacceptable(str(fault)) from None
        except envelope.TooManyEnvelopeItems:
            raise TooManyItems(envelope.MAX_ITEMS) from None

    def close(self) -> None:
        """Give up the unread rest."""
        self._reader.close()

    @property
    def event_id(self) -> str | None:
        """The id of the event as the headers have it."""
        return self._reader.header.event_id

    @property
    def sent_at(self) -> Any:
        """The time of its sending as the headers have it."""
        return self._reader.header.sent_at

    @property
    def types(self) -> Counter[str]:
        """How many items there are of each type so far."""
        return Counter(item.type for item in self._reader.items)

    @property
    def reports(self) -> Iterator[bytes]:
        """The reports of the SDK."""
        return (item.payload for item in self._reader.items if item.type == _REPORT and item.payload is not None)

    @property
    def dump(self) -> bytearray | None:
        """The begin of the first minidump. None without one."""
        return next((item.begin for item in self._reader.items if item.begin), None)

    @property
    def written(self) -> Iterator[tuple[str, bytes | None]]:
        """Feedback, each item with its type. None for a too large one, or one too many."""
        return ((item.type, item.payload) for item in self._reader.items if item.type in SOURCES)

    @property
    def event(self) -> bytes | None:
        """The event; None without one. Raises InvalidPayload for several, and PayloadTooLarge."""
        events = [item.payload for item in self._reader.items if item.type == _EVENT]
        if len(events) > 1:
            raise sdks.unacceptable("an envelope must hold at most one event")
        if events == [None]:
            raise PayloadTooLarge("The event is larger than this operation accepts.", max_bytes=MAX_EVENT_BYTES)
        return events[0] if events else None


def _room(left: dict[str, int], kind: str) -> int | None:
    """Count an item in. Returns the bytes to keep of it, or None, by how many of each kind are `left` to keep."""
    if not left.get(kind):
        return None
    left[kind] -= 1
    return _MOST_BYTES[kind]


class ReadEvent(NamedTuple):
    """An event that is ready for the intake; `own_id`: the SDK has given it the id."""

    event_id: str
    own_id: bool
    log: TakenLog
    adjustments: Adjustments


@_route("/api/{alias}/envelope/", "record_sentry_envelope", "Record an envelope of a Sentry SDK", SentryAccepted)
async def record_sentry_envelope(call: Call) -> Answer:
    """Store the event and the feedback of an envelope, and count its other items (G-142).

    Both are stored also before the end or the fault of a broken envelope.
    """
    opened, fault, event_id = ArrivingEnvelope(), None, None
    try:
        async for _ in call.work_on_pieces(opened):
            pass
    except (InvalidPayload, PayloadTooLarge) as refused:
        fault = refused
    try:
        event_id = await _event_of(call, opened)
    except (InvalidPayload, PayloadTooLarge) as refused:
        fault = fault or refused
    taken = await feedback.take(call, opened.event_id, opened.written)
    if fault is not None:
        raise fault
    call.records = call.records or Counter()
    read = Counter([_EVENT, *([envelope.MINIDUMP] if event_id is not None and opened.dump else [])])
    _count(call, opened, read + taken.kept, taken.refused)
    if taken.refusal is not None and event_id is None and not taken.kept:
        raise taken.refusal
    return Answer(200, SentryAccepted() if event_id is None else SentryAccepted(event_id))


async def _event_of(call: Call, opened: ArrivingEnvelope) -> str | None:
    """Store the event of an envelope, and return its id. None without one. Raises as `event` and `_record`."""
    if (event := opened.event) is None:
        return None
    event_id = await _record(call, event, opened.event_id, opened.sent_at, opened.dump)
    call.records = Counter({("logs", _TAKEN): 1})
    return event_id


def _count(call: Call, opened: ArrivingEnvelope, read: Counter[str], refused: Counter[str]) -> None:
    """Count the items of an envelope, by name those without a use and refused ones, and the losses of the SDK."""
    intake, project_id = call.services.intake, call.project_id
    for kind, count in opened.types.items():
        name = known_type(kind)
        intake.sdks.items[SENTRY, name] += count
        intake.kinds.note(Kind(project_id, SENTRY, name, NOT_KEPT), count - read[kind] - refused[kind])
        intake.kinds.note(Kind(project_id, SENTRY, name, REFUSED), refused[kind])
    for report in opened.reports:
        for (reason, category), count in read_report(report).items():
            intake.sdks.discarded[SENTRY, reason, category] += count
            intake.kinds.note(Kind(project_id, SENTRY, category, LOST), count)


@_store_route("/api/{alias}/store/", "record_sentry_event", "Record an event of an old Sentry SDK", SentryAccepted)
async def record_sentry_event(call: Call, data: RequestBody[bytes]) -> Answer:
    """Store an event that comes without an envelope (G-142)."""
    if not data[:_BEGIN].lstrip().startswith(b"{"):
        data = await call.work_apart(partial(_unwrapped, data))
    event_id = await _record(call, data, None)
    call.records = Counter({("logs", _TAKEN): 1})
    call.services.intake.sdks.items[SENTRY, _EVENT] += 1
    return Answer(200, SentryAccepted(event_id))


def _unwrapped(text: bytes) -> bytes:
    """The event in a text of base64, as SDKs before envelopes pack it with zlib. Any other text as it is.

    Raises InvalidPayload for anything else in base64, and PayloadTooLarge for a large event. Pure.
    """
    try:
        packed = base64.b64decode(text.translate(None, b" \t\r\n"), validate=True)
    except binascii.Error:
        return text
    if packed.startswith(b"{"):
        return packed
    try:
        return decompress(packed, "deflate", MAX_EVENT_BYTES)
    except InvalidPayload:
        raise sdks.unacceptable("an event in base64 must be JSON, or JSON packed by zlib") from None


async def _record(
    call: Call,
    text: bytes,
    envelope_id: str | None,
    sent_at: Any = None,
    dump: bytearray | None = None,
) -> str:
    """Store an event, and return its id. Raises InvalidPayload, and as the intake's `submit`."""
    variables, size = call.sender.frame_variables, len(text) + len(dump or b"")
    try:
        read = await call.work_on(size, partial(read_text, text, envelope_id, sent_at, variables=variables, dump=dump))
    except Odd:
        work = partial(read_adjusted, text, envelope_id, sent_at, variables=variables, dump=dump)
        read = await call.work_apart(work)
    return await store_event(call, read)


async def store_event(call: Call, read: ReadEvent) -> str:
    """Store an event that is read, once under its own id, and return its id. Raises as the intake's `submit`."""
    sender = call.sender
    if read.own_id:
        sender = sender._replace(key=read.event_id, request_hash=read.event_id)
    log = read.log
    item = Item(
        OPERATION,
        sender,
        log.body,
        log.raw,
        read.adjustments,
        client=log.client,
        before=log.before,
        clock=log.clock,
    )
    await call.services.intake.submit(item)
    return read.event_id


def read_text(
    text: bytes,
    envelope_id: str | None,
    sent_at: Any = None,
    adjustments: Adjustments = AS_SENT,
    *,
    variables: bool,
    dump: bytearray | None = None,
) -> ReadEvent:
    """Read an event, with the facts of its minidump. Pure but for a fresh id.

    Raises Odd when it has to be adjusted first, and InvalidPayload.
    """
    check_values(text)  # first, for a text of many is dear
    payload = check_body(text)
    if not isinstance(payload, dict):
        raise sdks.unacceptable("an event must be a JSON object")
    own = sentry_event.event_id_of(payload.get("event_id"), envelope_id)
    if dump is not None:
        payload = with_dump(payload, dump)
    return read_payload(payload, own, sent_at, adjustments, variables=variables)


def read_payload(
    payload: Mapping[str, Any], own_id: str | None, sent_at: Any, adjustments: Adjustments, *, variables: bool
) -> ReadEvent:
    """Read an event whose text is checked, with the id that its SDK has given it. Pure but for a fresh id."""
    event_id = own_id or uuid4().hex
    log = to_log(sentry_event.read_event(payload, event_id, sent_at), variables=variables)
    return ReadEvent(event_id, own_id is not None, log, adjustments)


def read_adjusted(
    text: bytes, envelope_id: str | None, sent_at: Any = None, *, variables: bool, dump: bytearray | None = None
) -> ReadEvent:
    """Read an event with what is odd in it adjusted. Slow, and pure but for a fresh id. Raises InvalidPayload."""
    adjusted = adjust(text, FRAMES)
    return read_text(adjusted.raw, envelope_id, sent_at, adjusted.adjustments, variables=variables, dump=dump)


ENDPOINTS = [record_sentry_envelope, record_sentry_event]
