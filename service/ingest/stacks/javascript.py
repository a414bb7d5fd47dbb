"""Stack traces of JavaScript: of Node and Chrome, and of Firefox and Safari, which print no exception. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number, told_of

_V8 = re.compile(
    r"^[ \t]{1,8}at (?:([^\n()]{1,300}?) \()?"
    r"(?:((?:[a-z][a-z+.-]{0,20}:)?[^\n()]{1,500}?):(\d{1,9}):(\d{1,9})|(?<=\()(<anonymous>))\)?(?: \{|,)?$",
    re.MULTILINE,
)
_HELD = re.compile(r"\n[ \t]{0,8}\[(cause|errors)\]: ")
_MOST_MEMBERS = 10
_DEEPEST = 10
"""Errors inside of each other."""
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
    text = stack[:MAX_READ]
    trace = _inspected(text, _DEEPEST)
    if trace.calls:
        return trace
    text = _HELD.split(text, maxsplit=1)[0]
    matches = list(_GECKO.finditer(text)) if "@" in text else []
    return Trace([_call(match) for match in matches[:MAX_FOUND]])


def _inspected(text: str, depth: int) -> Trace:
    """An exception as Node and Chrome print it, with its cause or its members where Node shows them."""
    begun = _HELD.search(text)
    own = text if begun is None else text[: begun.start()]
    matches = list(_V8.finditer(own)) if " at " in own else []
    if not matches:
        return Trace()
    told = own[: matches[0].start()]
    trace = Trace([_v8(match) for match in matches[:MAX_FOUND]], *told_of(told))
    if begun is None or depth == 0:
        return trace
    rest = text[begun.end() :]
    inside = [_inspected(one, depth - 1) for one in (_members(rest) if begun[1] == "errors" else [rest])]
    return trace._replace(inside=[one for one in inside if one.calls])


def _members(listed: str) -> list[str]:
    """The texts of listed errors: each begins as far to the right as the first, once the one before has its calls."""
    members: list[list[str]] = []
    indent, has_calls = 0, True
    for line in listed.split("\n")[1:]:
        plain = line.lstrip(" ")
        indent = indent or len(line) - len(plain)
        if plain[:1] == "]" and len(line) - len(plain) < indent:
            break
        if has_calls and len(line) - len(plain) == indent and plain[:1] != "}":
            members.append([plain])
            has_calls = False
        elif members:
            members[-1].append(line[indent:])
            has_calls = has_calls or plain.startswith("at ")
    return ["\n".join(lines) for lines in members[:_MOST_MEMBERS]]


def _v8(match: re.Match[str]) -> TracedCall:
    """A call, of the language's own functions without a place."""
    return _call(match) if match[5] is None else TracedCall(match[5], match[1], in_app=False)


def _call(match: re.Match[str]) -> TracedCall:
    function, file, line, column = match.groups()[:4]
    return TracedCall(file.removeprefix("file://"), function or None, int(line), number(column))
