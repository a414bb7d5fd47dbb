"""What grouping looks at in an error, found in the free form of `extra` (G-031, G-174). Pure functions.

Frames come with the latest call first. Whatever does not fit is as if absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from service.ingest.grouping.names import bare_symbol, base_name

MAX_ENTRIES = 20
"""Entries of a client's fingerprint."""
MAX_ENTRY = 200
"""Characters of such an entry."""

_DEFAULT = re.compile(r"\{\{ ?default ?\}\}")
DEFAULT = "{{ default }}"
"""Stands in a client's fingerprint for the grouping without one."""

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


class DecidingFrame(NamedTuple):
    """The frame that decides: the base name of its file (else its module), and the bare name of its function."""

    file: str
    function: str


class FirstEvidence(NamedTuple):
    """What version 1 looks at: the exception's type, its top in-app frame as `file:function`, and the message."""

    exception_type: str | None
    frame: str | None
    message: str


class GroupingEvidence(NamedTuple):
    """The exception's type, its top in-app frame as version 1 names it, the message, and what version 2 adds.

    `client` is the fingerprint of an SDK. `late`: no source map was ready in time for the deciding frame. `first` is
    the evidence of version 1 where a door has learnt to read more since.
    """

    exception_type: str | None
    frame: str | None
    message: str
    deciding: DecidingFrame | None = None
    client: tuple[str, ...] = ()
    late: bool = False
    first: FirstEvidence | None = None


def gather(
    message: str, extra: Mapping[str, Any] | None, see: Callable[[str], str] = str, client: Sequence[str] = ()
) -> GroupingEvidence:
    """Find the evidence in a log event; `see` says how each text is seen.

    `client` is the fingerprint of an SDK, of which a bounded part counts.
    """
    given = tuple([see(entry[:MAX_ENTRY]) for entry in client[:MAX_ENTRIES]])
    exception = extra.get("exception") if extra else None
    if not isinstance(exception, dict):
        return GroupingEvidence(None, None, see(message), client=given)
    kind = exception.get("type")
    seen = see(kind) if isinstance(kind, str) and kind else None
    frames = exception.get("frames")
    if not isinstance(frames, list):
        return GroupingEvidence(seen, None, see(message), client=given)
    top, deciding = _own(frames, see)
    if deciding is None:
        deciding = next((found for frame in frames if (found := _decides(frame, see, passing_over=RAISING))), None)
    return GroupingEvidence(seen, top, see(message), deciding, given)


def fingerprint_of(value: Any) -> tuple[str, ...]:
    """A client's fingerprint (G-174): one text, or a list of texts and numbers. Bounded when it is used."""
    listed = value if isinstance(value, list) else [value]
    return tuple(
        str(entry)
        for entry in listed[:MAX_ENTRIES]
        if isinstance(entry, str | int | float) and not isinstance(entry, bool) and entry != ""
    )


def is_default(entry: str) -> bool:
    """Whether an entry of a client's fingerprint stands for the grouping without one."""
    return _DEFAULT.fullmatch(entry) is not None


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
    """A frame as `file:function`; None when it has neither."""
    file, function = frame.get("file"), frame.get("function")
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
