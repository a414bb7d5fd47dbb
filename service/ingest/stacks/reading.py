"""Stack traces as text, taken apart into frames: what OpenTelemetry sends of an exception. Pure functions.

Known are the forms of Python (latest call last), of JavaScript, and of Java and its like; a line that is none of them
is passed over, and a text of another language has no frames. Work is linear in the text, of which a bounded part is
read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, TracedCall

MAX_KNOWN = 4096
"""Characters of the longest stack trace whose frames are remembered: errors repeat themselves."""

_PYTHON = re.compile(r'^ {2,4}File "([^"\n]{1,500})", line (\d{1,9})(?:, in ([^\n]{1,300}))?$', re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_CAUSED = re.compile(
    r"\n\n(?:The above exception was the direct cause|During handling of the above exception, another)[^\n]{0,80}\n\n"
)
_JAVASCRIPT = re.compile(
    r"^[ \t]{1,8}at (?:([^\n()]{1,300}?) \()?((?:[a-z][a-z+.-]{0,20}:)?[^\n()]{1,500}?):(\d{1,9}):(\d{1,9})\)?$",
    re.MULTILINE,
)
_JAVA = re.compile(
    r"^[ \t]{1,8}at (?:[\w.@-]{1,100}/{1,2})?([\w.$<>]{1,300})\(([^():\n]{1,200})(?::(\d{1,9}))?\)$", re.MULTILINE
)
_OF_JAVA = re.compile(r"^(?:java|javax|jdk|sun|kotlin|scala|groovy)\.")


def frames_of(stack: str) -> Sequence[TracedCall]:
    """The frames of a stack trace, the latest call first: of the exception that was reported, not of its causes."""
    return _known(stack) if len(stack) <= MAX_KNOWN else _find(stack)


def _find(stack: str) -> Sequence[TracedCall]:
    stack = stack[-MAX_READ:] if _TRACEBACK in stack else stack[:MAX_READ]
    if _TRACEBACK in stack or _PYTHON.search(stack):
        return _python(stack)
    found = [_javascript(match) for match in _JAVASCRIPT.finditer(_until_cause(stack))]
    return (found or [_java(match) for match in _JAVA.finditer(_until_cause(stack))])[:MAX_FOUND]


def _python(stack: str) -> list[TracedCall]:
    """What Python prints last is the exception that was reported, and its latest call."""
    matches = list(_PYTHON.finditer(_CAUSED.split(stack)[-1]))[-MAX_FOUND:]
    return [TracedCall(file, function, int(line)) for file, line, function in (m.groups() for m in reversed(matches))]


def _until_cause(stack: str) -> str:
    return re.split(r"\n[ \t]{0,8}(?:Caused by: |\[cause\]: )", stack, maxsplit=1)[0]


def _javascript(match: re.Match[str]) -> TracedCall:
    function, file, line, column = match.groups()
    return TracedCall(file.removeprefix("file://"), function, int(line), int(column))


def _java(match: re.Match[str]) -> TracedCall:
    """Java names no file that tells the product's code from a library's, but its packages do."""
    name, file, line = match.groups()
    module, _, function = name.rpartition(".")
    own = _OF_JAVA.match(name) is None
    return TracedCall(file, function, None if line is None else int(line), module=module or None, in_app=own)


_known = lru_cache(512)(_find)
