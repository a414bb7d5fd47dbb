"""`POST /api/{alias}/minidump/`: a crash with its minidump, as native programs upload it (G-142).

The facts of the dump become an error. The dump itself is not kept, and an unreadable one is an error as well. The form
is read a piece at a time: of its parts the dump and the annotations are in memory.
"""

from collections import Counter
from functools import partial
from typing import Any
from uuid import UUID

from schemas.cases.foreign import MAX_ENVELOPE_BYTES, MAX_EVENT_BYTES, MAX_UNPACKED_BYTES
from service.auth.refusals import InvalidPayload
from service.auth.secrets import SENTRY
from service.eventstore.declare.commands import Outcome
from service.http.answer.errors import TooManyItems, UnsupportedMediaType
from service.http.body.adjusting import adjust
from service.http.body.gate import Odd, check_body, check_values
from service.http.cases.intake import sdks
from service.http.cases.intake.sdk_route import sdk_route
from service.http.cases.intake.sentry import ReadEvent, read_payload, store_event
from service.http.declare.call import Call
from service.http.declare.forms import media_of
from service.http.declare.headers import head_of
from service.ingest.foreign import crash, envelope
from service.ingest.foreign.common import FRAMES
from service.ingest.foreign.sentry_event import event_id_of
from service.ingest.items import AS_SENT, Adjustments
from service.ingest.kept import NOT_KEPT, Kind
from service.multipart import FORM, MalformedForm, boundary_of

BARE = ("application/octet-stream", "application/x-dmp")
"""Types of a dump without a form around it."""
PLAIN = "text/plain; charset=utf-8"
_ATTACHMENT = "attachment"


class ArrivingCrash:
    """An arriving form, or a dump without one."""

    def __init__(self, content_type: str) -> None:
        self._fields_left = crash.MAX_FIELDS
        self._rooms: dict[str | None, int] = {
            crash.DUMP: envelope.MAX_DUMP,
            crash.PACKED_EVENT: crash.MAX_PACKED,
            crash.EVENT: MAX_EVENT_BYTES,
        }
        self._bare: bytearray | None = None
        self._reader: envelope.FormReader | None = None
        if content_type.partition(";")[0].strip().lower() in BARE:
            self._bare = bytearray()
            return
        try:
            boundary = boundary_of(content_type)
        except MalformedForm as fault:
            raise sdks.unacceptable(f"the body {fault}") from None
        if boundary is None:
            raise sdks.unacceptable("the Content-Type must name the boundary of the form")
        self._reader = envelope.FormReader(boundary, self._room)

    def feed(self, piece: bytes) -> None:
        """Read a piece, an empty one at the end. Raises InvalidPayload, and TooManyItems. Pure."""
        if self._reader is None:
            assert self._bare is not None
            self._bare += piece[: envelope.MAX_DUMP - len(self._bare)]
            return
        try:
            if piece:
                self._reader.feed(piece)
            else:
                self._reader.end()
        except MalformedForm as fault:
            raise sdks.unacceptable(f"the body {fault}") from None
        except envelope.TooManyParts:
            raise TooManyItems(envelope.MAX_PARTS) from None

    def close(self) -> None:
        """Give up the unread rest."""
        if self._reader is not None:
            self._reader.close()

    @property
    def parts(self) -> list[envelope.FormPart]:
        """The parts of the form so far."""
        if self._reader is None:
            return [envelope.FormPart(crash.DUMP, True, len(self._bare or b""), self._bare)]
        return self._reader.parts

    def _room(self, name: str | None, is_file: bool) -> int | None:
        """The bytes to keep of a part."""
        if name in self._rooms:
            return self._rooms.pop(name)
        if not name or is_file or not self._fields_left:
            return None
        self._fields_left -= 1
        return crash.MAX_FIELD


@sdk_route(
    sdks.SENTRY,
    "/api/{alias}/minidump/",
    "record_minidump",
    "Record a crash with its minidump",
    str,
    max_body=MAX_ENVELOPE_BYTES,
    unpacked=MAX_UNPACKED_BYTES,
    piecewise=True,
    media_type=FORM,
    content_type=PLAIN,
)
async def record_minidump(call: Call) -> Outcome:
    """Store a crash as an error with the facts of its dump, and answer with its id (G-142)."""
    arriving = ArrivingCrash(_content_type(call))
    async for _ in call.work_on_pieces(arriving):
        pass
    form = _form_of(arriving)
    read = await call.work_apart(partial(_read, form, variables=call.sender.frame_variables))
    event_id = await store_event(call, read)
    call.records = Counter({("logs", 202): 1})
    _count(call, arriving)
    return Outcome(200, str(UUID(event_id)).encode(), {"content-type": PLAIN})


def _content_type(call: Call) -> str:
    """The type of the body. Raises UnsupportedMediaType for any that is no upload of a crash."""
    if media_of(head_of(call.scope).headers) not in {FORM, *BARE}:
        raise UnsupportedMediaType(
            "The body is no upload of a crash.",
            next_action="Send it as one of details.media_types.",
            media_types=[FORM, *BARE],
        )
    return call.header("content-type") or ""


def _form_of(arriving: ArrivingCrash) -> crash.CrashForm:
    """The crash in the parts of a form. Of several of a name the first counts. Raises InvalidPayload without a dump."""
    fields: dict[str, str] = {}
    dump = packed = None
    left_out = 0
    for part in arriving.parts:
        if part.name == crash.DUMP:
            dump = part.content if dump is None else dump
        elif part.name == crash.PACKED_EVENT:
            packed = part.whole if packed is None else packed
            left_out += part.whole is None
        elif part.name and not part.is_file:
            name = _plain(part.name)
            if (content := part.whole) is None or name in fields:
                left_out += 1
            else:
                fields[name] = _plain(content.decode(errors="replace"))
    if not dump:
        raise sdks.unacceptable(f"the form must have a file as {crash.DUMP}")
    return crash.CrashForm(fields, packed, dump, left_out)


def _plain(text: str) -> str:
    return text.replace("\0", "\ufffd")


def _read(form: crash.CrashForm, *, variables: bool) -> ReadEvent:
    """Read a crash. Pure but for a fresh id."""
    event, adjustments = _event_in(form)
    payload = crash.to_payload(event or {}, form, unread=event is None)
    return read_payload(payload, event_id_of(payload.get("event_id")), None, adjustments, variables=variables)


def _event_in(form: crash.CrashForm) -> tuple[dict[str, Any] | None, Adjustments]:
    """The event of the annotations, adjusted where it is odd. None for an unreadable one."""
    text = crash.event_text(form)
    if text is None:
        return (None if form.packed is not None else {}), AS_SENT
    adjustments = AS_SENT
    try:
        try:
            check_values(text)
            event = check_body(text)
        except Odd:
            text, adjustments = adjust(text, FRAMES)
            event = check_body(text)
    except InvalidPayload:
        return None, AS_SENT
    return (event if isinstance(event, dict) else None), adjustments


def _count(call: Call, arriving: ArrivingCrash) -> None:
    """Count the dump, and the other files as attachments that are not kept."""
    intake = call.services.intake
    others = sum(part.is_file and part.name not in {crash.DUMP, crash.PACKED_EVENT} for part in arriving.parts)
    intake.sdks.items[SENTRY, envelope.MINIDUMP] += 1
    intake.sdks.items[SENTRY, _ATTACHMENT] += others
    intake.kinds.note(Kind(call.project_id, SENTRY, _ATTACHMENT, NOT_KEPT), others)


ENDPOINTS = [record_minidump]
