"""One form for the events of all foreign SDKs, and the log event that it becomes (G-142). Pure functions.

The same exception is one case, whoever reports it: natively, or by the SDK of any protocol. Grouping looks at the type,
the message and the top in-app frame as `file:function` (G-031), and SDKs disagree on the last. So `file` and `function`
of a frame are always what every one of them can tell, and what a hand-written report tells most naturally: the base
name of the file and the bare name of the function. What the SDK sent stands beside them, for source maps.

What is stored in `extra`:

- `exception`: `type`, `value`, `module`, `frames`, latest call first; `causes` are further ones of the same form.
  A frame is `file`, `function`, `in_app`, and as they were sent `filename`, `abs_path` where it differs,
  `module`, `package`, `instruction_addr`, `lineno`, `colno`, `context_line`, and `symbol` where the function was called
  otherwise. `pre_context` and `post_context`, the lines around that one, and `vars`, the values of its variables if the
  project keeps them, where nothing else needs their room.
  `frames_left_out` counts those without room.
- `debug_meta`: `images`, each with `type`, `code_file` and `debug_id`.
- Whatever else the protocol's own module keeps. `left_out` names what found no room.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from schemas.cases.log import LEVELS, MAX_EXTRA_BYTES, LogEvent, LogUser
from schemas.onboarding import PROOF_PROPERTY
from service.ingest.bounds import MOST_OF_TAGS, bounded_variables, cut, cut_texts, most_of
from service.ingest.grouping.fingerprint import Before, FirstEvidence
from service.ingest.grouping.first import MAX_TEXT, bare_name, base_name, is_library, shown
from service.ingest.grouping.symbols import shown_name
from service.ingest.outcomes import NO_CLOCK, SdkClock
from service.ingest.people import is_placeholder

MAX_MESSAGE = 8192
MAX_NAME = 200
MAX_ENVIRONMENT = 100
MAX_EMAIL = 320
MAX_TAGS = 50
MAX_TAG = 500
MAX_ADDRESS = 40
MAX_FRAMES = 100  # of one exception
MAX_CAUSES = 10
MAX_AROUND = 5  # lines of source before that of a frame, and after it
SURELY_FITTING_TAGS = MOST_OF_TAGS // (6 * (MAX_NAME + MAX_TAG))  # a character takes six bytes of JSON at most
CAUSES_FRAMES = 4  # a cause has so many times fewer frames
KNOWN_FRAMES = 4096  # remembered: some megabytes
SURELY_FITS = MAX_EXTRA_BYTES // 4
"""Bytes of which so much is certain that there is room for all."""
NEWEST_LAST = "breadcrumbs"
NO_MESSAGE = "(no message)"

_encode = msgspec.json.Encoder().encode

_OF_USER = ("email", "username", "ip_address", "name")


class Frame(NamedTuple):
    """A call as an SDK tells of it. `in_app` None: it does not say whether this is the product's own code."""

    filename: str | None
    function: str | None
    abs_path: str | None = None
    module: str | None = None
    lineno: int | None = None
    colno: int | None = None
    in_app: bool | None = None
    context_line: str | None = None
    package: str | None = None
    instruction_addr: str | None = None
    pre_context: tuple[str, ...] = ()
    post_context: tuple[str, ...] = ()
    variables: Mapping[str, Any] | None = None


class ForeignError(NamedTuple):
    """An exception as an SDK tells of it; `frames` come with the latest call first.

    `mechanism` is what it says of how the exception came, as far as a case rests on it.
    """

    type: str | None
    value: str | None
    frames: Sequence[Frame] = ()
    module: str | None = None
    mechanism: Mapping[str, Any] | None = None


class ForeignEvent(msgspec.Struct, frozen=True):
    """An event of any protocol. `errors`: the one that was reported, then what it was caused by.

    `message` is what the event says itself; where there is an exception, that one's counts. `images` are files with
    their debug ids; `more` is what else is kept, the most important first; `left_out` names what its reader left out.
    `fingerprint` is the grouping that the client asks for, and `first` what version 1 sees where that differs (G-174).
    `older` has the message and the exception as they were read before version 3, where that differs (G-198). `clock`
    has its time (G-193). Texts may be of any length.
    """

    level: str | None
    message: str | None = None
    errors: Sequence[ForeignError] = ()
    environment: str | None = None
    release: str | None = None
    user: Mapping[str, Any] | None = None
    tags: Mapping[str, Any] = {}
    images: Sequence[Mapping[str, Any]] = ()
    more: Mapping[str, Any] = {}
    left_out: Sequence[str] = ()
    fingerprint: Sequence[str] = ()
    first: FirstEvidence | None = None
    older: tuple[str | None, ForeignError | None] | None = None
    clock: SdkClock = NO_CLOCK


class _Text(msgspec.Struct, omit_defaults=True):
    """A log event as it is written: with all that is known of the user, and with `extra` as it was measured."""

    message: str
    level: str | None
    extra: msgspec.Raw
    tags: Mapping[str, Any] | None = None
    environment: str | None = None
    release: str | None = None
    user: dict[str, Any] | None = None


class TakenLog(NamedTuple):
    """The log event, its text as it would have been sent, and what the event says of its grouping and its time."""

    body: LogEvent
    raw: bytes
    client: Sequence[str] = ()
    first: FirstEvidence | None = None
    before: Before | None = None
    clock: SdkClock = NO_CLOCK


def to_log(event: ForeignEvent, *, variables: bool = False) -> TakenLog:
    """Turn an event into a log event within the bounds of G-030: what is too long is cut, what has no room left out.

    Its frames keep their `variables` only if asked for (G-202).
    """
    user = known_user(event.user)
    tags, whole = _tags(event.tags)
    # PostHog's properties, of which the short ones are tags as well, say it all.
    extra, written = _extra(event, [] if whole or "properties" in event.more else ["tags"])
    if variables and event.errors and _add_variables(extra, event.errors, MAX_EXTRA_BYTES - len(written)):
        written = _encode(extra)
    body = LogEvent(
        _message(event)[:MAX_MESSAGE],
        LEVELS.get((event.level or "").lower(), "error"),
        (event.environment or "")[:MAX_ENVIRONMENT] or None,
        (event.release or "")[:MAX_NAME] or None,
        None if user is None else LogUser(user["id"], user.get("email")),
        tags,
        extra,
    )
    text = _Text(body.message, body.level, msgspec.Raw(written), body.tags, body.environment, body.release, user)
    return TakenLog(body, _encode(text), event.fingerprint, event.first, _before(event), event.clock)


def _before(event: ForeignEvent) -> Before | None:
    """What older versions of the grouping see, where that differs."""
    if event.older is None:
        return None
    said, error = event.older
    message = ((error.value or error.type) if error else None) or said or NO_MESSAGE
    return Before(message[:MAX_MESSAGE], error and _error(error, MAX_FRAMES, lines=False))


def file_of(frame: Frame) -> str:
    """The base name of a frame's file, "" where there is none."""
    return base_name(frame.abs_path or frame.filename or "")


def function_of(frame: Frame) -> str:
    """The bare name of a frame's function, with its owner where it has none of its own."""
    return shown_name(frame.function or "")


def is_own(frame: Frame) -> bool:
    """Whether a frame is of the product's own code: as the SDK says, else by where its file lies."""
    if frame.in_app is not None:
        return frame.in_app
    path = frame.abs_path or frame.filename or ""
    return bool(path) and not is_library(path)


def _message(event: ForeignEvent) -> str:
    """The text of the exception, or its type in a hand-written report. Else the text of the event."""
    told = (event.errors[0].value or event.errors[0].type) if event.errors else None
    return told or event.message or NO_MESSAGE


def known_user(user: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The user with an id: what else names somebody stands in for one. Placeholders name nobody."""
    if not user:
        return None
    names = [_named(user.get(name)) for name in ("id", "email", "username", "ip_address")]
    known = next((name for name in names if name), None)
    if known is None:
        return None
    shown = {name: user[name][:MAX_EMAIL] for name in _OF_USER if isinstance(user.get(name), str)}
    return {"id": known[:MAX_NAME], **{name: text for name, text in shown.items() if _named(text)}}


def _named(value: Any) -> str | None:
    """Somebody's name as text. None for a placeholder, and for no text or number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    return None if not text or is_placeholder(text) else text


def _tags(tags: Mapping[str, Any]) -> tuple[dict[str, str | None], bool]:
    """At most MAX_TAGS within MOST_OF_TAGS, and whether these are all. The marker of a proof is always among them."""
    kept: dict[str, str | None] = {}
    whole = True
    names = sorted(tags, key=lambda name: name != PROOF_PROPERTY) if PROOF_PROPERTY in tags else tags
    for name in names:
        value = tags[name]
        text = value if isinstance(value, str) else _encode(value).decode() if value is not None else None
        if not name or text is None:
            continue
        if len(kept) == MAX_TAGS:
            return kept, False
        kept[name[:MAX_NAME]] = text[:MAX_TAG]
        whole = whole and len(name) <= MAX_NAME and len(text) <= MAX_TAG
    fitting = cut(kept, MOST_OF_TAGS) if len(kept) > SURELY_FITTING_TAGS else kept
    return fitting, whole and fitting is kept


def _extra(event: ForeignEvent, left_out: Sequence[str]) -> tuple[dict[str, Any], bytes]:
    """What is kept beside the message, the most important first, as long as there is room; and its text."""
    more, short = cut_texts(event.more)
    left_out = [*event.left_out, *left_out, *short]
    whole: dict[str, Any] = {"exception": _shown(event.errors, MAX_FRAMES, lines=True)} if event.errors else {}
    if event.images:
        whole["debug_meta"] = {"images": list(event.images)}
    whole.update(more)
    if left_out:
        whole["left_out"] = left_out
    written = _encode(whole)
    if len(written) <= SURELY_FITS:
        return whole, written
    fitting = _fitting_extra(event, more, left_out)
    return fitting, _encode(fitting)


def _fitting_extra(event: ForeignEvent, more: Mapping[str, Any], left_out: list[str]) -> dict[str, Any]:
    """As much of it as there is room for, each member within its bound, the cut ones last."""
    extra: dict[str, Any] = {}
    names = [*left_out, "debug_meta", *more]
    room = MAX_EXTRA_BYTES - len(_encode({"left_out": names})) - len('{"frames_left_out":100}')
    if event.errors:
        extra["exception"] = _fitting(event.errors, room * 3 // 4)
        room -= len(_encode(extra["exception"])) + len('"exception":,')
    images = {"debug_meta": {"images": list(event.images)}} if event.images else {}
    large = {}
    for name, value in {**images, **more}.items():
        size = len(_encode({name: value}))
        if size > room or size > most_of(name, value):
            large[name] = value
            continue
        extra[name] = value
        room -= size
    for name, value in large.items():
        beside = len(_encode(name)) + len(":,")
        if name not in left_out:
            left_out.append(name)
        if (kept := cut(value, min(room - beside, most_of(name, value)), newest=name == NEWEST_LAST)) is not None:
            extra[name] = kept
            room -= len(_encode(kept)) + beside
    if event.errors:
        _add_lines(extra["exception"], event.errors, room)
    return {**extra, "left_out": left_out} if left_out else extra


def _add_lines(shown: dict[str, Any], errors: Sequence[ForeignError], room: int) -> None:
    """Give frames the lines around theirs, those of the latest calls first, as long as there is room."""
    for told, error in zip([shown, *shown.get("causes", ())], errors, strict=False):
        for frame, sent in zip(told["frames"], error.frames, strict=False):
            lines = _lines(sent)
            room -= len(_encode(lines))
            if room < 0:
                return
            frame.update(lines)


def _add_variables(extra: dict[str, Any], errors: Sequence[ForeignError], room: int) -> bool:
    """Give frames their variables, those of the latest calls first, as long as there is room. Returns whether any."""
    room -= len(_encode({"left_out": [*extra.get("left_out", ()), "vars"]}))
    shown, added = extra["exception"], False
    for told, error in zip([shown, *shown.get("causes", ())], errors, strict=False):
        for frame, sent in zip(told["frames"], error.frames, strict=False):
            if not sent.variables:
                continue
            kept = bounded_variables(sent.variables)
            room -= len(_encode(kept))
            if room < 0:
                extra["left_out"] = [*extra.get("left_out", ()), "vars"]
                return True
            frame.update(kept)
            added = True
    return added


def _fitting(errors: Sequence[ForeignError], room: int) -> dict[str, Any]:
    """Exceptions with as many frames as there is room for, those of the latest calls."""
    most = MAX_FRAMES
    while True:
        shown = _shown(errors, most, lines=False)
        if most == 0 or len(_encode(shown)) <= room:
            return shown
        most //= 2


def _shown(errors: Sequence[ForeignError], most: int, *, lines: bool) -> dict[str, Any]:
    """Exceptions with at most so many frames of the one that was reported, with or without the lines around theirs."""
    shown = _error(errors[0], most, lines=lines)
    if len(errors) > 1:
        shown["causes"] = [_error(cause, most // CAUSES_FRAMES, lines=lines) for cause in errors[1 : 1 + MAX_CAUSES]]
    return shown


def _error(error: ForeignError, most: int, *, lines: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "type": (error.type or "")[:MAX_TEXT] or None,
        "value": (error.value or "")[:MAX_TEXT] or None,
        "module": (error.module or "")[:MAX_TEXT] or None,
        "frames": [{**_remembered_frame(frame), **(_lines(frame) if lines else {})} for frame in error.frames[:most]],
        "frames_left_out": max(0, len(error.frames) - most) or None,
        "mechanism": error.mechanism or None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _remembered_frame(frame: Frame) -> Mapping[str, Any]:
    """A frame as it is shown. Frames recur, as errors do; of one with long texts nothing is kept."""
    filename, function, abs_path, module, _, _, _, context_line, package, address, before, after, held = frame
    texts = len(filename or "") + len(function or "") + len(abs_path or "") + len(module or "")
    texts += len(package or "") + len(address or "")
    if before or after or held is not None:
        frame = Frame(*frame[:-3])
    return _known_frame(frame) if texts + len(context_line or "") <= MAX_TEXT else _frame(frame)


def _lines(frame: Frame) -> dict[str, Sequence[str]]:
    """The lines around that of a frame, those next to it."""
    shown: dict[str, Sequence[str]] = {}
    if frame.pre_context:
        shown["pre_context"] = [line[:MAX_TEXT] for line in frame.pre_context[-MAX_AROUND:]]
    if frame.post_context:
        shown["post_context"] = [line[:MAX_TEXT] for line in frame.post_context[:MAX_AROUND]]
    return shown


def _frame(frame: Frame) -> dict[str, Any]:
    function = function_of(frame)
    # Older versions of the grouping read it in another way.
    symbol = frame.function if frame.function and {function, bare_name(frame.function)} != {frame.function} else None
    shown: dict[str, Any] = {
        "file": file_of(frame),
        "function": function,
        "in_app": is_own(frame),
        "filename": frame.filename and frame.filename[:MAX_TEXT],
        "abs_path": frame.abs_path[:MAX_TEXT] if frame.abs_path and frame.abs_path != frame.filename else None,
        "module": frame.module and frame.module[:MAX_TEXT],
        "lineno": frame.lineno,
        "colno": frame.colno,
        "symbol": symbol and symbol[:MAX_TEXT],
        "context_line": frame.context_line and frame.context_line[:MAX_TEXT],
        "package": frame.package and frame.package[:MAX_TEXT],
        "instruction_addr": frame.instruction_addr and frame.instruction_addr[:MAX_ADDRESS],
    }
    return {name: value for name, value in shown.items() if value is not None and value != ""}


_known_frame = lru_cache(KNOWN_FRAMES)(_frame)


# Members of what SDKs send in JSON: each counts where it is of the documented type, and is as if absent where not.
# Sentry's and PostHog's SDKs write an exception and its frames alike. Pure functions.

MOST_CODES = 10
MAX_CODE = 100
"""Members of what an SDK says of a code, and characters of one of them."""
MAX_INTEGER = 2**53
_MECHANISM = ("synthetic", "is_exception_group", "exception_id", "parent_id", "handled")
FRAMES = "frames"
"""The member that lists the frames of a stack trace, the latest call last."""
_MAX_NUMBER = 2**31 - 1
_TEXTS = ("filename", "function", "abs_path", "module", "context_line", "package")  # of a frame


def text_of(value: Any) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None


def object_of(value: Any) -> Mapping[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def error_of(value: Mapping[str, Any]) -> ForeignError:
    """An exception, whose frames come with the latest call last."""
    said = value.get("value")
    return ForeignError(
        type=text_of(value.get("type")),
        value=text_of(said) if isinstance(said, str) or said is None else shown(said),
        frames=frames_of(value.get("stacktrace")),
        module=text_of(value.get("module")),
        mechanism=_mechanism_of(value.get("mechanism")),
    )


def frames_of(stacktrace: Any) -> list[Frame]:
    """The frames of a stack trace, the latest call first."""
    frames = object_of(stacktrace).get(FRAMES)
    listed = reversed(frames) if isinstance(frames, list) else ()
    return [_members_frame(frame) for frame in listed if isinstance(frame, dict)]


def _mechanism_of(value: Any) -> Mapping[str, Any] | None:
    """What a case may rest on of how an exception came: its container, and the codes that identify it."""
    if not isinstance(value, dict):
        return None
    kept = {name: value[name] for name in _MECHANISM if isinstance(value.get(name), str | int)}
    for name in ("meta", "data"):
        held = {key: _codes(said) for key, said in islice(object_of(value.get(name)).items(), MOST_CODES)}
        if known := {key: said for key, said in held.items() if said}:
            kept[name] = known
    return {name: said[:MAX_CODE] if isinstance(said, str) else said for name, said in kept.items()} or None


def _codes(value: Any) -> Any:
    """A code: a number, a short text, or an object of these."""
    if isinstance(value, dict):
        return {name: said for name, one in islice(value.items(), MOST_CODES) if (said := _code(one)) is not None}
    return _code(value)


def _code(value: Any) -> int | str | None:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MAX_INTEGER:
        return value
    return value if isinstance(value, str) and 0 < len(value) <= MAX_CODE else None


def _members_frame(frame: Mapping[str, Any]) -> Frame:
    filename, function, abs_path, module, context_line, package = [
        value if isinstance(value, str) and value else None for value in map(frame.get, _TEXTS)
    ]
    lineno, colno, in_app = frame.get("lineno"), frame.get("colno"), frame.get("in_app")
    return Frame(
        filename,
        function,
        abs_path,
        module,
        None if lineno is None else _number(lineno),
        None if colno is None else _number(colno),
        in_app if isinstance(in_app, bool) else None,
        context_line,
        package,
        None if (address := frame.get("instruction_addr")) is None else _address(address),
        _lines_of(frame.get("pre_context")),
        _lines_of(frame.get("post_context")),
        _variables(frame),
    )


def _variables(frame: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The values of variables, under the name that the SDK of either protocol gives them."""
    held = frame.get("vars") or frame.get("code_variables")
    return held if isinstance(held, dict) and held else None


def _address(value: Any) -> str | None:
    """An address in memory, a text or a number."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return hex(value)
    return text_of(value)


def _lines_of(value: Any) -> tuple[str, ...]:
    """Lines of source. None unless all are texts."""
    if not isinstance(value, list):
        return ()
    try:
        "".join(value)  # tells it of all of them in one call
    except TypeError:
        return ()
    return tuple(value)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_NUMBER else None


# Arrays of JSON, of which only so many items are built as are asked for: what follows is gone over and forgotten. An
# array of two million zeros fits in some kilobytes once it is packed, and a piece of each of them takes a hundred
# times its bytes. So whoever takes at most a thousand items asks for one more than that. Pure.

_FEWEST = 3  # 2 to this power is the smallest number of items that there is a decoder for
_ABSENT = msgspec.Raw(b"")


def first_items(raw: bytes, most: int) -> list[bytes]:
    """The texts of at most the first `most` items. Raises ValueError and RecursionError for what is no JSON array."""
    items: list[bytes] = []
    for item in msgspec.structs.astuple(_decoder(min(most, _at_least(raw.count(b",") + 1)))(raw)):
        if item is _ABSENT:
            break
        items.append(bytes(item))
    return items


def _at_least(items: int) -> int:
    """One of a few numbers that is not less: to build a decoder takes long, and to leave members out some time."""
    return 1 << max(_FEWEST, (items - 1).bit_length())


@cache
def _decoder(most: int) -> Callable[[bytes], Any]:
    """A decoder of arrays as structs of so many members: those that an array has not are left out, more are skipped."""
    fields = [(f"item_{number}", msgspec.Raw, _ABSENT) for number in range(most)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", fields, array_like=True)).decode


# Lone surrogates in JSON, such as the half of an emoji: the decoder refuses a whole body for one of them (G-175). Each
# is replaced by `\u0000` before a body is cut. The decoder takes that, and the gate finds the record with it and has
# it adjusted as it adjusts the surrogate itself: U+FFFD, counted and named (G-133). So the other records stay as they
# were sent. Both have six bytes, so no place in the text moves. Pure.

T = TypeVar("T")

FAULTS = (ValueError, RecursionError)
"""Errors of a decoder: those of msgspec, and that of broken UTF-8, are ValueErrors."""

_HEX = rb"[0-9a-fA-F]"
_HIGH = rb"u[dD][89abAB]" + _HEX + rb"{2}"
_LOW = rb"u[dD][c-fC-F]" + _HEX + rb"{2}"
_ANY = rb"u[dD][89a-fA-F]" + _HEX + rb"{2}"
# All up to the next lone surrogate or, where there is none, to the end: no search begins anew from a place within.
_LONE = re.compile(
    rb"(?:[^\\]++|\\" + _HIGH + rb"\\" + _LOW + rb"|\\(?!" + _ANY + rb").)*+(?:\\(?P<lone>" + _ANY + rb")|\\?\Z)",
    re.DOTALL,
)
_NUL = b"u0000"


def without_lone(raw: bytes) -> bytes:
    """The same text with NUL in place of each lone surrogate. Linear in the text, of which one copy is made."""
    text = bytearray(raw)
    for found in _LONE.finditer(raw):
        if found["lone"] is not None:
            text[found.start("lone") : found.end("lone")] = _NUL
    return bytes(text)


def decode_any(decode: Callable[[bytes], T], raw: bytes) -> T:
    """Decode a text, one with lone surrogates as if they were NUL. Raises ValueError and RecursionError."""
    try:
        return decode(raw)
    except FAULTS:
        if b"\\ud" not in raw and b"\\uD" not in raw:
            raise
    return decode(without_lone(raw))
