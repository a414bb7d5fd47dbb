"""Stack traces of Dart and Flutter: as the language prints them, and as its package for chains does. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number

_CALL = re.compile(
    r"^#[0-9]{1,4} {1,9}([^\n]{1,300}?) \(((?:package|dart|file|org-dartlang-\w{1,10}):[^\n()]{1,400}?)"
    r"(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?\)$",
    re.MULTILINE,
)
_CHAINED = re.compile(
    r"^((?:package|dart):[^\s:]{1,400}) ([0-9]{1,9})(?::([0-9]{1,9}))? {2,40}([^\n]{1,300})$", re.MULTILINE
)
_OF_LIBRARY = re.compile(
    r"dart:|org-dartlang-|package:(?:flutter|flutter_\w{1,40}|sentry|sentry_\w{1,40}|async|bloc|collection|dio|http"
    r"|provider|riverpod|stack_trace|test_api)/"
)


def find(stack: str) -> Trace:
    """Read the calls. The exception is printed apart from them."""
    text = stack[:MAX_READ]
    calls = [_call(*match.groups()) for match in _CALL.finditer(text)] if "#0" in text or "#1" in text else []
    if not calls and (":" in text):
        found = (match.groups() for match in _CHAINED.finditer(text))
        calls = [_call(function, place, line, column) for place, line, column, function in found]
    return Trace(calls[:MAX_FOUND])


def _call(function: str, place: str, line: str | None, column: str | None) -> TracedCall:
    return TracedCall(place, function, number(line), number(column), in_app=_OF_LIBRARY.match(place) is None)
