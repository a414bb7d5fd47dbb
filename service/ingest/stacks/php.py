"""Stack traces of PHP: as the language prints them, and as OpenTelemetry's SDK does. Pure.

The language says of each call where it was made, and not where it goes on. So each line's place is that of the call
below, and the place of the exception that of the first.
"""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number, told_of

_CALL_BEFORE, _CALL = [
    re.compile(
        r"^#\d{1,4} (?:(\[internal function\])|([^\n]{1,500}?)\((\d{1,9})\)): "
        rf"({closure}[^\n(]{{1,300}})\(|^#\d{{1,4}} (\{{main\}})$",
        re.MULTILINE,
    )
    for closure in ("", r"[^\n({]{0,300}\{closure:[^\n]{1,400}?\}(?=\()|")
]
_CLOSURE = "{closure:"
"""Begins the name of a closure, with the function around it and its line."""
_HEAD = re.compile(
    r"(?:\A|\n)(?:PHP )?(?:Fatal error: {1,2}Uncaught )?([^\n]{0,300}(?:\n[^#\n][^\n]{0,300}){0,20}?)"
    r" in ([^\n]{1,300}):(\d{1,9})\Z"
)
_NEXT = "\n\nNext "  # parts a cause from the exception that was reported
_TRACE = "Stack trace:"
_AS_JAVA = re.compile(
    r"^[ \t]{0,8}at ([^\s()]{1,300})(?:\((\[internal function\]|Unknown Source|[^\n():]{1,300})(?::(\d{1,9}))?\))?$",
    re.MULTILINE,
)
_CAUSE = re.compile(r"\n[ \t]{0,8}Caused by: ")
_INTERNAL = "[internal function]"
_MAIN = "{main}"


def find(stack: str) -> Trace:
    """Read the reported exception, not its causes."""
    if _CLOSURE in stack:
        return _find(stack, _CALL)._replace(newer=True)
    return _find(stack, _CALL_BEFORE)


def find_before(stack: str) -> Trace:
    """The same with closures cut at their first bracket, as before version 3 of the grouping (G-198)."""
    return _find(stack, _CALL_BEFORE)


def _find(stack: str, call: re.Pattern[str]) -> Trace:
    if ".php" not in stack and _MAIN not in stack:
        return Trace()
    native = _native(stack, call)
    return native if native.calls else _as_java(stack)


def _native(stack: str, call: re.Pattern[str]) -> Trace:
    """Causes come first. Text before the calls is `Type: value in file:line`, unless it is left out."""
    text = stack[:MAX_READ].rpartition(_NEXT)[2]
    told, _, after = text.rpartition(_TRACE)
    matches = list(call.finditer(after))
    if not matches:
        return Trace()
    head = _HEAD.search(told.rstrip())
    file, line = (None, None) if head is None else (head[2], head[3])
    calls: list[TracedCall] = []
    for match in matches[:MAX_FOUND]:
        internal, called_in, called_at, function, main = match.groups()
        calls.append(_call(file, None if main else function, line))
        file, line = internal or called_in, called_at
    return Trace(calls) if head is None else Trace(calls, *told_of(head[1]))


def _as_java(stack: str) -> Trace:
    text = _CAUSE.split(stack[:MAX_READ], maxsplit=1)[0]
    matches = list(_AS_JAVA.finditer(text))
    if not matches:
        return Trace()
    calls = [_call(match[2], _as_php(match[1]), match[3]) for match in matches[:MAX_FOUND]]
    kind, value = told_of(text[: matches[0].start()])
    return Trace(calls, kind and kind.replace(".", "\\"), value)


def _as_php(name: str) -> str | None:
    """A name in the language's own spelling: the SDK writes a stop for each of its separators."""
    module, _, function = name.rpartition(".")
    if function == _MAIN:
        return None
    return "::".join((module.replace(".", "\\"), function)) if module else function


def _call(file: str | None, function: str | None, line: str | None) -> TracedCall:
    own = None if file is None or file != _INTERNAL else False
    return TracedCall(file, function and function.replace("->", "::"), number(line), in_app=own)
