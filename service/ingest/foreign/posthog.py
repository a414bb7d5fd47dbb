"""What PostHog's SDKs send, taken apart, and its events as records of ours (G-142). Pure functions.

A body is one event, a list of events, or an object with the events as `batch`; in a form field `data` it comes as
base64. The key of the project is beside the events (`api_key` or `token`), or in the properties of an event that comes
without. Each member counts where it is of the documented type, and is as if absent where it is not.

An `$exception` becomes a log event: of its exceptions the first was reported, those after it are what it was caused by;
of frames the last is the latest call. Everything else is an analytics event, but for recordings, which are not taken.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes
from uuid import UUID

import msgspec

from schemas.analytics import AnalyticsEvent
from schemas.cases.log import MAX_INGEST_BYTES, LogEvent
from service.ingest.foreign import common
from service.ingest.grouping.fingerprint import Before, fingerprint_of
from service.ingest.grouping.first import shown
from service.ingest.outcomes import NO_CLOCK, REACH, SdkClock, seconds_of

PROTOCOL = "posthog"
MAX_KEY = 1000  # characters of a key as JSON writes it; no key is that long
HOLD_KEYS = ("api_key", "token", "properties")  # members of a body
MAX_NAME = 200  # of an event and of a person
MAX_PROPERTIES = 200
MAX_NAMED = 20  # properties left out that are named
ROOM_BESIDE = 8192  # bytes of an analytics event that its properties leave to the rest
LEFT_OUT = "$left_out"
MOST_OFFSET = REACH * 1000  # milliseconds
NO_EVENTS = "the body must be an event, a list of events, or an object with a list as batch"

EXCEPTION = "$exception"
NOT_TAKEN = frozenset({"$snapshot", "$snapshot_items", "$performance_event", "$$heatmap"})
"""Recordings and the like."""

_BLOCK = 16 * 1024  # bytes of a form that are looked at together
_UUID = frozenset({32, 36})  # characters, without and with hyphens
_ABSENT = msgspec.Raw(b"")
_ASIDE = frozenset({"$exception_list", "$exception_level", "$exception_type", "$exception_message"})
_ENVIRONMENTS = ("environment", "$environment")
_RELEASES = ("release", "$release", "$app_version")

_encode = msgspec.json.Encoder().encode


class MalformedEvents(Exception):
    """What is no body of events, or no event; the text says why."""


class Sent(NamedTuple):
    """The texts of the events of a body, and the key that came with them.

    `alone`: it is one event, and no list. `each`: there is nothing beside the events, so each has the key itself.
    `more`: there are more events than are taken. `sent_at`: when they were sent (epoch seconds), as the SDK says.
    """

    key: str | None
    events: Sequence[bytes]
    alone: bool = False
    each: bool = False
    more: bool = False
    sent_at: int | None = None


class PostHogRecord(NamedTuple):
    """A record as it is stored: its kind, its text, and the id, the fingerprint and the time given by its SDK."""

    kind: str
    uuid: str | None
    body: LogEvent | AnalyticsEvent
    raw: bytes
    client: Sequence[str] = ()
    before: Before | None = None
    clock: SdkClock = NO_CLOCK


class _Body(msgspec.Struct):
    """The members that say whose events these are, where they are, and when they were sent."""

    api_key: msgspec.Raw = _ABSENT
    token: msgspec.Raw = _ABSENT
    properties: msgspec.Raw = _ABSENT
    batch: msgspec.Raw = _ABSENT
    sent_at: msgspec.Raw = _ABSENT
    sent_by_python: msgspec.Raw = msgspec.field(default=_ABSENT, name="sentAt")


_body_of = msgspec.json.Decoder(_Body).decode
_text_of = msgspec.json.Decoder(str).decode
_any_of = msgspec.json.Decoder().decode
_json = msgspec.json.Decoder(msgspec.Raw).decode


def key_of(raw: bytes) -> str | None:
    """The key that a body carries, None for none. Its events are not cut apart for it.

    Raises MalformedEvents for a body that is no JSON (G-175). Other JSON than a body of events has no key.
    """
    try:
        return _open(raw, 1).key
    except MalformedEvents:
        _check_json(_out_of_form(raw))
        return None


def beside(members: Mapping[str, bytes], *, alone: bool = False) -> Sent:
    """What stands beside the events of a body, by the texts of those members that may say it.

    Without a key: none is there, or two that differ.
    """
    sent_at = _time_in(members.get("sent_at") or members.get("sentAt") or b"")
    try:
        key = _key_in(_Body(**{name: msgspec.Raw(members[name]) for name in HOLD_KEYS if name in members}))
    except common.FAULTS:
        key = None
    return Sent(key, (), alone=alone, each=alone, sent_at=sent_at)


def name_of(text: bytes | None) -> str:
    """The name of a member as its text has it. Empty for a text too long or malformed."""
    try:
        return "" if text is None else _text_of(text)
    except common.FAULTS:
        return ""


def open_alone(text: bytes) -> Sent:
    """One event with the key in it. Raises MalformedEvents."""
    try:
        return common.decode_any(_open_object, text)
    except common.FAULTS:
        raise MalformedEvents(NO_EVENTS) from None


def _open_object(text: bytes, body: _Body | None = None) -> Sent:
    body = _body_of(text) if body is None else body
    return Sent(_key_in(body), [text], alone=True, each=True, sent_at=_sent_at(body))


def _check_json(text: bytes) -> None:
    try:
        common.decode_any(_json, text)
    except common.FAULTS:
        raise MalformedEvents("the body must be JSON") from None


def cut(raw: bytes, most: int) -> Sent:
    """Cut a body into its events, of which at most `most` are taken. Raises MalformedEvents."""
    sent = _open(raw, most + 1)
    return sent._replace(events=sent.events[:most], more=len(sent.events) > most)


def _open(raw: bytes, most: int) -> Sent:
    """A body with at most so many of its events. Raises MalformedEvents."""
    try:
        return common.decode_any(partial(_open_text, most=most), _out_of_form(raw).strip())
    except common.FAULTS:
        raise MalformedEvents(NO_EVENTS) from None


def _open_text(text: bytes, most: int) -> Sent:
    """The same for its JSON text. Raises ValueError and RecursionError."""
    if text.startswith(b"["):
        listed = common.first_items(text, most)
        return Sent(_key_in(_body_of(listed[0])) if listed else None, listed, each=True)
    body = _body_of(text)
    if body.batch == _ABSENT:
        return _open_object(text, body)
    return Sent(_key_in(body), common.first_items(bytes(body.batch), most), sent_at=_sent_at(body))


def _out_of_form(raw: bytes) -> bytes:
    """The JSON text of a body, which browsers may send as a form with one field, in base64 or as it is."""
    if not raw.startswith(b"data="):
        return raw
    value = _unescaped(raw.removeprefix(b"data=").partition(b"&")[0].replace(b"+", b" "))
    if value.lstrip()[:1] in {b"{", b"["}:
        return value
    plain = value.replace(b" ", b"+")  # which is what a sender meant that did not escape it
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        raise MalformedEvents("the field data must hold base64") from None


def _unescaped(value: bytes) -> bytes:
    """A value without its escapes, a block at a time: while it is at it, each escape takes a hundred bytes."""
    plain = bytearray()
    begin = 0
    while begin < len(value):
        end = begin + _BLOCK
        if (escape := value.find(b"%", end - 2, end)) >= 0:
            end = escape  # it stays in one piece
        plain += unquote_to_bytes(value[begin:end])
        begin = end
    return bytes(plain)


def _key_in(body: _Body) -> str | None:
    """The one key beside the events, else that among the properties; of two that differ, none."""
    told = {key for key in (_key(body.api_key), _key(body.token)) if key}
    if not told and body.properties != _ABSENT and bytes(body.properties).startswith(b"{"):
        told = {key for key in (_key(_body_of(body.properties).token),) if key}
    return told.pop() if len(told) == 1 else None


def _sent_at(body: _Body) -> int | None:
    return _time_in(bytes(body.sent_at) or bytes(body.sent_by_python))


def _time_in(text: bytes) -> int | None:
    """The time (epoch seconds) in the text of a member."""
    try:
        return seconds_of(_any_of(text)) if 0 < len(text) <= MAX_KEY else None
    except common.FAULTS:
        return None


def _key(raw: msgspec.Raw) -> str | None:
    """A key as its event has it once it is adjusted."""
    text = bytes(raw)
    return _text_of(text).replace("\0", "\ufffd") if text.startswith(b'"') and len(text) <= MAX_KEY else None


def to_record(payload: Any, sent: Sent, *, variables: bool = False) -> PostHogRecord | str:
    """Read an event of a body; the name of one not taken. Frames may keep `variables`. Raises MalformedEvents."""
    if not isinstance(payload, dict) or not (name := common.text_of(payload.get("event"))):
        raise MalformedEvents("an event must be an object with its name as event")
    if name in NOT_TAKEN:
        return name
    properties = dict(common.object_of(payload.get("properties")))
    _check_key(payload, properties, sent)
    uuid = _uuid(payload.get("uuid"))
    known = next((found for found in _known(payload, properties) if found), None)
    clock = _clock(payload, properties, sent)
    if name == EXCEPTION:
        log = common.to_log(_to_event(payload, properties, uuid, known), variables=variables)
        return PostHogRecord("logs", uuid, log.body, log.raw, log.client, log.before, clock)
    if known is None:
        raise MalformedEvents("an event must say of whom it is as distinct_id")
    said = {name: payload[name] for name in ("$set", "$set_once") if isinstance(payload.get(name), dict)}
    at = {"$timestamp": payload["timestamp"]} if common.text_of(payload.get("timestamp")) else {}
    body = AnalyticsEvent(name[:MAX_NAME], known[:MAX_NAME], _fitting({**properties, **said, **at}))
    return PostHogRecord("analytics", uuid, body, _encode(body), clock=clock)


def _clock(payload: Mapping[str, Any], properties: Mapping[str, Any], sent: Sent) -> SdkClock:
    """When an event happened: at its timestamp, else as long before it was sent as its offset says (milliseconds)."""
    happened = seconds_of(payload.get("timestamp"))
    if happened is not None:
        return SdkClock(happened, None if properties.get("$ignore_sent_at") is True else sent.sent_at)
    offset = payload.get("offset")
    if isinstance(offset, bool) or not isinstance(offset, int | float) or not 0 <= offset <= MOST_OFFSET:
        return NO_CLOCK
    return SdkClock(-int(offset // 1000), 0)  # by a clock that was at 0 when it was sent


def _check_key(payload: Mapping[str, Any], properties: dict[str, Any], sent: Sent) -> None:
    """Take the key, which is a credential, out of the properties. Raises MalformedEvents for an event with another."""
    if sent.each:
        held = (payload.get("api_key"), payload.get("token"), properties.get("token"))
        first = next((key for key in held if isinstance(key, str) and key), sent.key)
        if sent.key is not None and first != sent.key:
            raise MalformedEvents("an event must be of the same project as the first")
    if sent.key is not None and properties.get("token") == sent.key:
        del properties["token"]


def _uuid(value: Any) -> str | None:
    """An id in its one spelling; None for what is none."""
    if not isinstance(value, str) or len(value) not in _UUID:
        return None
    try:
        return str(UUID(value))
    except ValueError:
        return None


def _known(payload: Mapping[str, Any], properties: Mapping[str, Any]) -> Iterator[str | None]:
    """Where the name of a person may be."""
    for holder in (payload, properties):
        for name in ("distinct_id", "$distinct_id"):
            value = holder.get(name)
            yield str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _fitting(properties: Mapping[str, Any]) -> dict[str, Any]:
    """As many properties as an analytics event has room for, in their order; `$left_out` names some of the others."""
    room = MAX_INGEST_BYTES - ROOM_BESIDE
    first = dict(islice(properties.items(), MAX_PROPERTIES - 1))
    if len(_encode(first)) + len(first) <= room:  # Each has room when it is its turn.
        others = islice(properties, len(first), len(first) + MAX_NAMED)
        left_out = [name[:MAX_NAME] for name in others]
        return {**first, LEFT_OUT: left_out} if left_out else first
    return _one_by_one(properties, room)


def _one_by_one(properties: Mapping[str, Any], room: int) -> dict[str, Any]:
    """The same, each property measured by itself."""
    kept: dict[str, Any] = {}
    left_out: list[str] = []
    for name, value in properties.items():
        if len(kept) >= MAX_PROPERTIES - 1 or (size := len(_encode({name: value}))) > room:
            left_out.append(name[:MAX_NAME])
            continue
        kept[name] = value
        room -= size
    return {**kept, LEFT_OUT: left_out[:MAX_NAMED]} if left_out else kept


def _to_event(
    payload: Mapping[str, Any], properties: Mapping[str, Any], uuid: str | None, known: str | None
) -> common.ForeignEvent:
    """The exception that an event tells of. Properties of the product's own are its tags."""
    listed = properties.get("$exception_list")
    told = [value for value in listed if isinstance(value, dict)] if isinstance(listed, list) else []
    errors = [common.error_of(value) for value in told]
    older: tuple[str | None, common.ForeignError | None] | None = None
    if told and not isinstance(told[0].get("value"), str | None):
        older = None, errors[0]._replace(value=None)
    if not errors:  # as older SDKs tell it
        said = properties.get("$exception_message")
        errors = [common.ForeignError(common.text_of(properties.get("$exception_type")), common.text_of(said))]
        if said is not None and not isinstance(said, str):
            older = None, errors[0]
            errors = [errors[0]._replace(value=shown(said))]
    # A process without a person makes a name up for each event: that is nobody who could be affected twice.
    nobody = properties.get("$process_person_profile") is False and "$device_id" not in properties
    rest = {name: value for name, value in properties.items() if name not in _ASIDE}
    sdk = {
        "event_id": uuid,
        "name": common.text_of(rest.get("$lib")),
        "version": common.text_of(rest.get("$lib_version")),
    }
    more = {
        "sdk": {"protocol": PROTOCOL, **{name: text for name, text in sdk.items() if text}},
        "timestamp": common.text_of(payload.get("timestamp")),
        "properties": rest or None,
    }
    return common.ForeignEvent(
        level=common.text_of(properties.get("$exception_level")) or "error",
        errors=errors,
        environment=next((text for name in _ENVIRONMENTS if (text := common.text_of(rest.get(name)))), None),
        release=next((text for name in _RELEASES if (text := common.text_of(rest.get(name)))), None),
        user=None if nobody or known is None else {"id": known},
        tags={name: value for name, value in rest.items() if name[:1] != "$" and isinstance(value, str | int | float)},
        more=more,
        fingerprint=fingerprint_of(properties.get("$exception_fingerprint")),
        older=older,
    )
