"""The bounds of an event in bytes of JSON, and its tidying before it is scrubbed (G-033, G-135). Pure.

A member beyond its bound is cut, from its end, and named in `left_out` of the event.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from service.ingest.stacks.reading import read_trace
from statemachines.kernel.telling import CARD, CARD_DIGITS, MAY_BE_CARD, URL, FormBudget, SecretForm

# The bounds of an event in bytes of JSON: of each member, of the variables of a frame, and of all of it. Pure.

MOST_OF_EVENT = 256 * 1024
"""Bytes of an event as it is stored, without what the service itself adds."""
MOST_OF_MEMBER = 32 * 1024
"""Bytes of a member of what an SDK sends."""
MOST_OF_TEXT = 2 * 1024
"""Bytes of a text among them, but for the message."""
MOST_SAID = 16 * 1024
"""Bytes of a message beside an exception."""
MOST_OF_TAGS = 64 * 1024
MOST_VARIABLES = 4096
"""Bytes of the variables of a frame."""
MOST_VARIABLE = 1024
"""Bytes of one of them."""
SURELY_FITS = MOST_OF_EVENT // 2
"""Bytes of a record that is surely within MOST_OF_EVENT after its scrubbing."""
_SAID = frozenset({"message", "body"})
_LEVELS = 3
"""Levels of a member to cut. Large values further down are left out."""
_LEAST = 32
"""Bytes in which something may have room."""
_ESCAPED = 6
"""Bytes of a character of JSON at most."""
_NAME = "left_out"

_encode = msgspec.json.Encoder().encode


def most_of(name: str, value: Any) -> int:
    """The bound of a member with this value."""
    if not isinstance(value, str):
        return MOST_OF_MEMBER
    return MOST_SAID if name in _SAID else MOST_OF_TEXT


def cut_texts(members: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Members but for None, each text within its bound, and the names of the cut ones."""
    kept, names = {}, []
    for name, value in members.items():
        if value is None:
            continue
        kept[name] = value
        if isinstance(value, str) and len(value) * _ESCAPED > (most := most_of(name, value)):
            kept[name] = shown = _text(value, most)
            if shown is not value:
                names.append(name)
    return kept, names


def cut(value: Any, most: int, *, newest: bool = False, levels: int = _LEVELS) -> Any:
    """As much of a JSON value as has room, from its begin or, of a list with the newest last, from its end.

    None where nothing has.
    """
    if len(_encode(value)) <= most:
        return value
    if most < _LEAST or not levels:
        return None
    if isinstance(value, str):
        return _text(value, most) or None
    if isinstance(value, dict):
        kept: dict[str, Any] = {}
        for name, one in value.items():
            most -= len(_encode(name)) + 2
            if (fits := cut(one, most - 2, levels=levels - 1)) is not None:
                kept[name] = fits
                most -= len(_encode(fits))
            else:
                most += len(_encode(name)) + 2
            if most < _LEAST:
                break
        return kept or None
    if isinstance(value, list):
        listed = []
        for one in reversed(value) if newest else value:
            if (fits := cut(one, most - 2, levels=levels - 1)) is not None:
                listed.append(fits)
                most -= len(_encode(fits)) + 1
            if most < _LEAST:
                break
        return (listed[::-1] if newest else listed) or None
    return None


def cut_event(parts: dict[str, Any], extra: dict[str, Any], beside: int) -> dict[str, Any]:
    """Cut the largest parts of an event, in place, down to MOST_OF_EVENT. Returns its extra.

    `beside` is the bytes of all else. The first members of a part stay.
    """
    held = {**parts, "extra": extra}
    sizes = {name: len(_encode(part)) for name, part in held.items()}
    left_out: list[str] = []
    while (over := beside + sum(sizes.values()) + len(_encode({_NAME: left_out})) + _LEAST - MOST_OF_EVENT) > 0:
        largest = max(sizes, key=lambda name: sizes[name])
        held[largest] = cut(held[largest], sizes[largest] - over) or {}
        sizes[largest] = len(_encode(held[largest]))
        if largest not in left_out:
            left_out.append(largest)
    if not left_out:
        return extra
    parts.update({name: held[name] for name in parts})
    before = held["extra"].get(_NAME)
    return {**held["extra"], _NAME: [*(before if isinstance(before, list) else ()), *left_out]}


def bounded_variables(held: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a frame with room for them, whole, as `vars`. `vars_left_out` is the number of the others."""
    kept: dict[str, Any] = {}
    room = MOST_VARIABLES
    for name, value in held.items():
        size = len(_encode({name: value}))
        if size <= MOST_VARIABLE and size <= room:
            kept[name] = value
            room -= size
    left_out = len(held) - len(kept)
    return {"vars": kept, **({"vars_left_out": left_out} if left_out else {})}


def _text(value: str, most: int) -> str:
    """The begin of a text, so many bytes as JSON."""
    if len(_encode(value)) <= most:
        return value
    value = value[:most]
    while value and (size := len(_encode(value))) > most:
        value = value[: min(len(value) - 1, len(value) * most // size)]
    return value


# Whether a JSON text holds a secret by its form, once some piece of one was seen in it (G-135). Pure. A piece alone
# says little: `hooks` stands in many a path, and to walk all of a large event for it would cost more than everything
# else that is done with it. So the strings around the pieces are taken out of the text and searched as they will be
# when the event is walked. Every quote that is not escaped begins or ends a string, so what stands between two of them
# is a string, or is between two and cannot matter.

MOST_PLACES = 64
"""Strings that are taken out of one text; of one with more of them, or with too many candidates, no more is asked."""

ESCAPED_ADDRESS = (b":\\/", b":/\\/")  # of one whose slashes are escaped
_RUN_OF_DIGITS = re.compile(rb"[0-9][0-9 -]{11,}[0-9]")
_BACKSLASH = ord("\\")
_UNICODE = b"\\u"
_IN_A_ROW = b"0" * CARD_DIGITS
_IN_GROUPS = (b"0000 0000 0000 0", b"0000-0000-0000-0", b"0000 000000 0000", b"0000-000000-0000")
_FIRST_OF_CARD = frozenset(b"23456")

_decode = msgspec.json.Decoder(str).decode


def holds_any(raw: bytes, forms: Iterable[SecretForm]) -> bool:
    """Whether some string of a JSON text may hold one of these forms. False is certain."""
    left, budget = MOST_PLACES, FormBudget()
    for form in forms:
        for find in _searches(raw, form):
            end = 0
            while (place := find(end)) >= 0:
                start, end = _string_around(raw, place)
                left -= 1
                if left < 0 or form.find(_places_text(raw[start:end]), budget) != []:
                    return True
    return False


def may_hold_card(raw: bytes, zeroed: bytes) -> bool:
    """Whether a JSON text may hold the number of a card. False is certain. `zeroed` is the text with its digits as 0.

    Most digits in a row are a time or an id: where they begin says so, and what they begin with.
    """
    if _UNICODE in raw or any(map(zeroed.__contains__, _IN_GROUPS)):  # An escape may end in digits.
        return True
    start = zeroed.find(_IN_A_ROW)
    while start >= 0:
        if raw[start] in _FIRST_OF_CARD:
            return True
        start = zeroed.find(_IN_A_ROW, len(zeroed) - len(zeroed[start:].lstrip(b"0")))
    return False


def _searches(raw: bytes, form: SecretForm) -> Iterator[Callable[[int], int]]:
    """One for each piece of a form: tells its first place from another one on, -1 when there is none."""
    if form is CARD:
        # An escape before a number may end in digits.
        search = (_RUN_OF_DIGITS if b"\\" in raw else MAY_BE_CARD).search
        yield lambda begin: -1 if (found := search(raw, begin)) is None else found.start()
        return
    if form.scheme:
        yield partial(raw.lower().find, form.scheme.encode())
    for piece in form.all_pieces:
        yield partial(raw.find, piece.encode())
    if form is URL:
        for address in ESCAPED_ADDRESS:
            yield partial(raw.find, address)


def _string_around(raw: bytes, place: int) -> tuple[int, int]:
    """From behind the quote before a place to the one behind it, or to an end of the text."""
    start = raw.rfind(b'"', 0, place)
    while start >= 0 and _is_escaped(raw, start):
        start = raw.rfind(b'"', 0, start)
    end = raw.find(b'"', place)
    while end >= 0 and _is_escaped(raw, end):
        end = raw.find(b'"', end + 1)
    return start + 1, len(raw) if end < 0 else end


def _is_escaped(raw: bytes, place: int) -> bool:
    first = place
    while first and raw[first - 1] == _BACKSLASH:
        first -= 1
    return (place - first) % 2 == 1


def _places_text(written: bytes) -> str:
    """The written string. Bytes without one as they are."""
    if b"\\" not in written:
        return written.decode(errors="replace")
    try:
        return _decode(b'"%b"' % written)
    except msgspec.DecodeError:
        return written.decode(errors="replace")


# The tidying of an event before its scrubbing (G-033, G-135). Pure. Cookies, credentials in headers and the values
# of variables are dropped, and not only hidden. Names and values in one text, as in a query or the form of a body,
# become members. Only members are hidden by their names.

MOST_PARAMETERS = 200
LEFT_OUT = "[left out]"
"""Stands for a text of names and values in no readable form."""
_DROPPED = frozenset({"cookie", "cookie2", "cookies", "setcookie", "authorization", "proxyauthorization"})
_VARIABLES = ("vars", "code_variables", "local_variables", "locals")
_ERRORS = ("error", "err")
_OF_ERROR = ("exception", "stack", "stacktrace", "stack_trace", "raw_stack", "traceback", "frames")
_NAME_AND_VALUE = 2
_ABOVE = 4
"""Levels that a body stands below in its event: both together must not be too deep to be written."""


_requests_decode = msgspec.json.Decoder().decode


def drop_variables(extra: Mapping[str, Any]) -> None:
    """Drop the values of variables from the frames of an error and of its causes, in place."""
    for frame in _frames(extra):
        for name in _VARIABLES:
            if name in frame:
                del frame[name]


def keep_variables(extra: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Keep the variables of frames as their member `vars`, within the bounds, in place. Returns these."""
    kept = []
    for frame in _frames(extra):
        sent = [frame.pop(name) for name in _VARIABLES if name in frame]
        if held := next((one for one in sent if isinstance(one, dict) and one), None):
            frame.update(bounded_variables(held))
            kept.append(frame["vars"])
    return kept


def tells_of_error(message: str, extra: Mapping[str, Any] | None) -> bool:
    """Whether a record carries an exception or a stack, in `extra` or as lines of its message."""
    if extra and (any(map(extra.get, _OF_ERROR)) or any(isinstance(extra.get(name), dict) for name in _ERRORS)):
        return True
    return "\n" in message and bool(read_trace(message).calls)


def _frames(extra: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The frames of an error and of its causes, at all their places."""
    exception = extra.get("exception")
    holders = [extra, exception, extra.get("error")]
    if isinstance(exception, dict) and isinstance(causes := exception.get("causes"), list):
        holders += causes
    for holder in holders:
        if not isinstance(holder, dict):
            continue
        stacktrace = holder.get("stacktrace")
        for listed in (holder.get("frames"), stacktrace.get("frames") if isinstance(stacktrace, dict) else None):
            yield from (frame for frame in listed if isinstance(frame, dict)) if isinstance(listed, list) else ()


def tidy(extra: dict[str, Any]) -> bytes:
    """Tidy the request of an event, and the response among its contexts, in place.

    Returns the JSON text of the members read from a text. It was no part of the event's own text.
    """
    if "request" not in extra and "contexts" not in extra:
        return b""
    request, contexts = extra.get("request"), extra.get("contexts")
    response = contexts.get("response") if isinstance(contexts, dict) else None
    texts = [_tidy(one) for one in (request, response) if isinstance(one, dict)]
    return b",".join(text for text in texts if text)


def _tidy(told: dict[str, Any]) -> bytes:
    made: dict[str, Any] = {}
    for name in [name for name in told if _is_dropped(name)]:
        del told[name]
    for name in ("headers", "env"):
        if name in told:
            held = told[name]
            told[name] = {key: value for key, value in _members(held).items() if not _is_dropped(key)}
            if not isinstance(held, dict):
                made[name] = told[name]
    if isinstance(url := told.get("url"), str) and ("?" in url or "#" in url):
        told["url"], query = without_query(url)
        if query and not told.get("query_string"):
            told["query_string"] = query
    for name, read in (("query_string", _query), ("data", _body), ("body", _body)):
        held = told.get(name)
        if isinstance(held, (str, list)) and held:
            made[name] = told[name] = read(held)
    return _encode(made) if made else b""


def _is_dropped(name: str) -> bool:
    folded = name.lower().replace("-", "").replace("_", "")
    return folded.removeprefix("http") in _DROPPED


def _members(held: Any) -> Mapping[str, Any]:
    """An object, or the pairs of a list as one."""
    if isinstance(held, dict):
        return held
    return _of_pairs(held) if isinstance(held, list) else {}


def _of_pairs(pairs: Iterable[Any]) -> dict[str, Any]:
    """Names with their values, with a list of them where a name comes again."""
    found: dict[str, list[Any]] = {}
    for pair in pairs:
        if isinstance(pair, (list, tuple)) and len(pair) == _NAME_AND_VALUE and isinstance(pair[0], str):
            found.setdefault(pair[0], []).append(pair[1])
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def without_query(url: str) -> tuple[str, str]:
    """An address without its query, and that. A fragment stays unless it has values."""
    plain, mark, fragment = url.partition("#")
    address, _, query = plain.partition("?")
    return address + (mark + fragment if fragment and "=" not in fragment and "?" not in fragment else ""), query


def _query(held: str | list[Any]) -> Any:
    if isinstance(held, list):
        return _of_pairs(held) or LEFT_OUT
    return _parameters(held.removeprefix("?"))


def _parameters(text: str) -> Any:
    if "=" not in text:
        return text
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        return LEFT_OUT
    return _of_pairs([(name.replace("\0", ""), value.replace("\0", "")) for name, value in pairs])


def _body(held: str | list[Any]) -> Any:
    """The body of a request: as it is in JSON, the members of a form, or a text."""
    if isinstance(held, list):
        return held
    text = held.strip()
    if text[:1] in {"{", "["}:
        if "\\u0000" in text:
            return LEFT_OUT
        try:
            return _requests_decode("[" * _ABOVE + text + "]" * _ABOVE)[0][0][0][0]
        except (msgspec.DecodeError, ValueError, RecursionError):  # as one that an SDK has cut
            return LEFT_OUT
    name, is_form, _ = text.partition("=")
    return _parameters(text) if is_form and name and not any(map(str.isspace, text)) else held
