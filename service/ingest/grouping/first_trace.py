"""The frame that version 1 of the grouping takes from a stack trace as text (G-031, G-174). Pure.

Version 1 read Python, JavaScript and Java alone. Its cases keep the errors that it put into them. So for its
fingerprint a trace is read as it was then, however much more is read of it now. Work is linear in the bounded part that
is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from service.ingest.grouping.names import bare_name, base_name, is_library

MAX_READ = 64 * 1024
MAX_LOOKED_AT = 100  # frames
MAX_KNOWN = 4096
"""Characters of the longest trace whose frame is remembered: errors repeat themselves."""

_PYTHON = re.compile(r'^ {2,4}File "([^"\n]{1,500})", line \d{1,9}(?:, in ([^\n]{1,300}))?$', re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = re.compile(
    r"\n\n(?:The above exception was the direct cause|During handling of the above exception, another)[^\n]{0,80}\n{2}"
)
_JAVASCRIPT = re.compile(
    r"^[ \t]{1,8}at (?:([^\n()]{1,300}?) \()?((?:[a-z][a-z+.-]{0,20}:)?[^\n()]{1,500}?):\d{1,9}:\d{1,9}\)?$",
    re.MULTILINE,
)
_JAVA = re.compile(
    r"^[ \t]{1,8}at (?:[\w.@-]{1,100}/{1,2})?([\w.$<>]{1,300})\(([^():\n]{1,200})(?::\d{1,9})?\)$", re.MULTILINE
)
_OF_JAVA = re.compile(r"^(?:java|javax|jdk|sun|kotlin|scala|groovy)\.")
_CAUSE = re.compile(r"\n[ \t]{0,8}(?:Caused by: |\[cause\]: )")


def first_frame(stack: str) -> str | None:
    """Name the innermost own call of a trace as `file:function`, as version 1 does."""
    return _known(stack) if len(stack) <= MAX_KNOWN else _find(stack)


def _find(stack: str) -> str | None:
    is_python = _TRACEBACK in stack
    stack = stack[-MAX_READ:] if is_python else stack[:MAX_READ]
    if is_python or _PYTHON.search(stack):
        calls = list(_PYTHON.finditer(_CHAINED.split(stack)[-1]))
        return next((_named(*call.groups()) for call in calls[: -MAX_LOOKED_AT - 1 : -1] if _is_own(call[1])), None)
    until_cause = _CAUSE.split(stack, maxsplit=1)[0]
    if _JAVASCRIPT.search(until_cause):
        files = ((call[2].removeprefix("file://"), call[1]) for call in _first(_JAVASCRIPT, until_cause))
        return next((_named(file, function) for file, function in files if _is_own(file)), None)
    own = (call for call in _first(_JAVA, until_cause) if _OF_JAVA.match(call[1]) is None)
    return next((_named(call[2], call[1].rpartition(".")[2]) for call in own), None)


def _first(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    return islice(pattern.finditer(text), MAX_LOOKED_AT)


def _is_own(file: str) -> bool:
    return bool(file) and not is_library(file)


def _named(file: str, function: str | None) -> str:
    return f"{base_name(file)}:{bare_name(function or '')}"


_known = lru_cache(512)(_find)
