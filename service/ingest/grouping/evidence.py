"""What grouping looks at in an error, found in the free form of `extra` (G-031, G-174, G-198). Pure functions.

Frames come with the latest call first. Whatever does not fit is as if absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from service.ingest.grouping.client import MAX_ENTRIES, MAX_ENTRY, NO_NAMES, EventNames, has_variables, resolved
from service.ingest.grouping.errors import compared_type, deciding_errors, identity_of, is_synthetic
from service.ingest.grouping.first import bare_name, bare_symbol, base_name, filled, template_of
from service.ingest.grouping.frames import NOTHING_DECIDES, LedBack, deciding_frames
from service.ingest.grouping.symbols import shown_name

RAISING = frozenset(
    {
        *("abort", "raise", "throw", "panic", "gsignal", "pthread_kill", "kill", "terminate", "exit", "fatalerror"),
        *("gi_raise", "gi_abort", "assert_fail", "assert_rtn", "assert", "assertion_failure", "assertionfailure"),
        *("+[nsexception raise:format:]", "-[nsexception raise]", "+[nsexception raise:format:arguments:]"),
        *("objc_exception_throw", "objc_exception_rethrow", "objc_terminate", "exceptionpreprocess"),
        *("raiseexception", "rtlraiseexception", "kiuserexceptiondispatcher", "cxxthrowexception"),
        *("cxa_throw", "cxa_rethrow", "unwind_resume", "unwind_raiseexception", "sigtramp", "pthread_kill_internal"),
        *("rust_panic", "rust_begin_unwind", "begin_panic", "begin_panic_handler", "begin_panic_fmt", "panic_fmt"),
        *("panic_display", "panic_bounds_check", "unwrap_failed", "expect_failed", "rust_panic_with_hook"),
        *("malloc_vreport", "malloc_report", "malloc_zone_error", "malloc_error_break", "szone_error", "os_crash"),
        *("gopanic", "sigpanic", "panicmem", "goexit", "trigger_error", "swift_runtime_on_report"),
    }
)
"""Functions that only raise: bare names in lower case, without the underscores around them."""


_NOTHING: Mapping[str, Any] = {}
NO_PLACES: Mapping[int, LedBack] = {}


class DecidingFrame(NamedTuple):
    """The frame that decides: the base name of its file (else its module), and the bare name of its function."""

    file: str
    function: str


class FirstEvidence(NamedTuple):
    """What version 1 looks at: the exception's type, its top in-app frame as `file:function`, and the message."""

    exception_type: str | None
    frame: str | None
    message: str


class SecondEvidence(NamedTuple):
    """The evidence of version 2 where a door has learnt to read more since."""

    exception_type: str | None
    deciding: DecidingFrame | None
    message: str


class Before(NamedTuple):
    """The message and the exception for versions 1 and 2, where more is read since."""

    message: str
    exception: Mapping[str, Any] | None


class ThirdError(NamedTuple):
    """One error in version 3. Texts are empty where there is nothing."""

    type: str
    identity: str
    frames: tuple[str, ...]
    message: str


class ThirdEvidence(NamedTuple):
    """The evidence of version 3: the deciding errors, in one order, and the fingerprint with its variables filled in.

    `template` is of a logged message. `inside`: the errors are inside of a container. `minified`: a frame
    counts by its place in a minified file. `title` names the case: type and value.
    """

    errors: tuple[ThirdError, ...]
    client: tuple[str, ...] = ()
    template: str = ""
    inside: bool = False
    minified: bool = False
    late: bool = False
    title: tuple[str, str] = ("", "")


class GroupingEvidence(NamedTuple):
    """The exception's type, its top in-app frame as version 1 names it, the message, and what later versions add.

    `client` is the fingerprint of an SDK. `late`: no source map was ready in time for the deciding frame. `first` and
    `second` are the evidence of versions 1 and 2 where a door has learnt to read more since.
    """

    exception_type: str | None
    frame: str | None
    message: str
    deciding: DecidingFrame | None = None
    client: tuple[str, ...] = ()
    late: bool = False
    first: FirstEvidence | None = None
    second: SecondEvidence | None = None
    third: ThirdEvidence | None = None


def gather(
    message: str,
    extra: Mapping[str, Any] | None,
    see: Callable[[str], str] = str,
    client: Sequence[str] = (),
    *,
    names: EventNames = NO_NAMES,
    before: Before | None = None,
    places: Mapping[int, LedBack] = NO_PLACES,
) -> GroupingEvidence:
    """Find the evidence in a log event; `see` says how each text is seen.

    `client` is the fingerprint of an SDK, of which a bounded part counts, and `names` are for its variables.
    `before` is for older versions where more is read since, and `places` has frames led back by source maps.
    """
    given = tuple([see(entry[:MAX_ENTRY]) for entry in client[:MAX_ENTRIES]])
    found = extra.get("exception") if extra else None
    exception = found if isinstance(found, dict) else None
    third = _third(message, extra or _NOTHING, exception, see, given, names, places)
    told, sent = (message, exception) if before is None else before
    seen, top, deciding = _older(sent, see)
    return GroupingEvidence(seen, top, see(told), deciding, given, third=third)


def _older(
    exception: Mapping[str, Any] | None, see: Callable[[str], str]
) -> tuple[str | None, str | None, DecidingFrame | None]:
    """The type and the deciding frames in versions 1 and 2."""
    if exception is None:
        return None, None, None
    kind = exception.get("type")
    seen = see(kind) if isinstance(kind, str) and kind else None
    frames = exception.get("frames")
    if not isinstance(frames, list):
        return seen, None, None
    top, deciding = _own(frames, see)
    if deciding is None:
        deciding = next((found for frame in frames if (found := _decides(frame, see, passing_over=RAISING))), None)
    return seen, top, deciding


def _third(
    message: str,
    extra: Mapping[str, Any],
    exception: Mapping[str, Any] | None,
    see: Callable[[str], str],
    client: tuple[str, ...],
    names: EventNames,
    places: Mapping[int, LedBack],
) -> ThirdEvidence:
    """The evidence of version 3."""
    listed = [_NOTHING] if exception is None else deciding_errors(exception)
    inside = exception is not None and listed[0] is not exception
    errors: list[ThirdError] = []
    minified = False
    for error in listed:
        kind = error.get("type")
        said = _said(error, inside=inside) or message
        frames = error.get("frames")
        found = NOTHING_DECIDES
        if frames and isinstance(frames, list):
            is_led_back = places and exception is not None and frames is exception.get("frames")
            found = deciding_frames(frames, see, places if is_led_back else NO_PLACES)
            minified = minified or found.minified
        named = see(compared_type(kind)) if isinstance(kind, str) else ""
        identity = "" if exception is None else identity_of(error, said)
        if "mechanism" in error and found.keys and is_synthetic(error):
            named = ""
        errors.append(ThirdError(named, identity and see(identity), found.keys, see(said)))
    template = template_of(extra)
    first = listed[0]
    kind = first.get("type")
    said = errors[0].message
    if template and said == template:
        said = filled(template, None)  # Nobody reads a placeholder.
    title = (see(kind) if isinstance(kind, str) else "", said)
    asked = resolved(client, names, message, first, extra, see) if client and has_variables(client) else client
    return ThirdEvidence(tuple(errors), asked, template and see(template), inside, minified, title=title)


def _said(error: Mapping[str, Any], *, inside: bool) -> str:
    """The value of an error inside of a container: the message of the event is the container's."""
    value = error.get("value") if inside else None
    return value if isinstance(value, str) else ""


def _own(frames: Iterable[Any], see: Callable[[str], str]) -> tuple[str | None, DecidingFrame | None]:
    """The first in-app frame as version 1 names it, and the first deciding one. Later frames are not read."""
    top: str | None = None
    deciding: DecidingFrame | None = None
    for frame in frames:
        if isinstance(frame, dict) and frame.get("in_app") is True:
            top = top or _named(frame, see)
            deciding = deciding or _decides(frame, see)
            if top and deciding:
                break
    return top, deciding


def _named(frame: Mapping[str, Any], see: Callable[[str], str]) -> str | None:
    """A frame as `file:function`; None when it has neither.

    Version 1 cut a function at its last stop. Where it is read better since, its symbol tells the old name.
    """
    file, function, symbol = frame.get("file"), frame.get("function"), frame.get("symbol")
    if isinstance(symbol, str) and isinstance(function, str) and shown_name(symbol) == function:
        function = bare_name(symbol)
    if isinstance(file, str) or isinstance(function, str):
        return f"{see(file) if isinstance(file, str) else ''}:{see(function) if isinstance(function, str) else ''}"
    return None


def _decides(
    frame: Any, see: Callable[[str], str], passing_over: AbstractSet[str] = frozenset()
) -> DecidingFrame | None:
    """A frame with a function, but for some functions; None for any other."""
    function = (frame.get("symbol") or frame.get("function")) if isinstance(frame, dict) else None
    bare = bare_symbol(function) if isinstance(function, str) else ""
    if not bare or bare.strip("_").lower() in passing_over:
        return None
    return DecidingFrame(see(_file(frame)), see(bare))


def _file(frame: Mapping[str, Any]) -> str:
    for name in ("file", "module"):
        value = frame.get(name)
        if isinstance(value, str) and value:
            return base_name(value) if name == "file" else value
    return ""
