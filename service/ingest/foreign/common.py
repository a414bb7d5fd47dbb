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

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from schemas.cases.log import LEVELS, MAX_EXTRA_BYTES, LogEvent, LogUser
from schemas.onboarding.proof import PROOF_PROPERTY
from service.ingest.grouping.evidence import Before, FirstEvidence
from service.ingest.grouping.first import MAX_TEXT, bare_name, base_name, is_library
from service.ingest.grouping.symbols import shown_name
from service.ingest.queue.items import is_placeholder
from service.ingest.queue.outcomes import NO_CLOCK, SdkClock
from service.ingest.scrub.bounds import MOST_OF_TAGS, bounded_variables, cut, cut_texts, most_of

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
