"""Stack traces of JavaScript: of Node and Chrome, and of Firefox and Safari, which print no exception. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number, told_of

_V8 = re.compile(
    r"^[ \t]{1,8}at (?:([^\n()]{1,300}?) \()?"
    r"(?:((?:[a-z][a-z+.-]{0,20}:)?[^\n()]{1,500}?):(\d{1,9}):(\d{1,9})|(?<=\()(<anonymous>))\)?(?: \{)?$",
    re.MULTILINE,
)
_CAUSE = re.compile(r"\n[ \t]{0,8}\[(?:cause|errors)\]: ")
# The function may be empty. Of the ways in which a call was put off only the name counts.
_GECKO = re.compile(
    r"^(?:(?:async|setTimeout handler|promise callback)\*)?([^\n@]{0,300})@"
    r"((?:[a-z][a-z+.-]{0,20}:|/)[^\n]{1,500}?):(\d{1,9})(?::(\d{1,9}))?$",
    re.MULTILINE,
)


_HERMES = "(address at "
"""Stands before a place in a bundle; it was taken for a part of the file before version 3 of the grouping."""


def find(stack: str) -> Trace:
    """Read a trace as Node and Chrome print it, or without one as Firefox and Safari do. Hermes prints as Chrome."""
    if _HERMES in stack:
        return find_before(stack.replace(_HERMES, "("))._replace(newer=True)
    return find_before(stack)


def find_before(stack: str) -> Trace:
    """The same without the form of Hermes."""
    text, *held = _CAUSE.split(stack[:MAX_READ], maxsplit=1)
    matches = list(_V8.finditer(text)) if " at " in text else []
    if matches:
        trace = _trace(text, matches)
        inside = [_trace(part, list(_V8.finditer(part))) for part in held]
        return trace._replace(inside=[one for one in inside if one.calls])
    matches = list(_GECKO.finditer(text)) if "@" in text else []
    return Trace([_call(match) for match in matches[:MAX_FOUND]])


def _trace(text: str, matches: Sequence[re.Match[str]]) -> Trace:
    """A trace with the exception before its calls."""
    told = text[: matches[0].start()] if matches else ""
    return Trace([_v8(match) for match in matches[:MAX_FOUND]], *told_of(told.lstrip("[ \n")))


def _v8(match: re.Match[str]) -> TracedCall:
    """A call, of the language's own functions without a place."""
    return _call(match) if match[5] is None else TracedCall(match[5], match[1], in_app=False)


def _call(match: re.Match[str]) -> TracedCall:
    function, file, line, column = match.groups()[:4]
    return TracedCall(file.removeprefix("file://"), function or None, int(line), number(column))
