"""Stack traces of .NET, which prints causes first, inside of the exception that was reported. Pure."""

from __future__ import annotations

import re
from itertools import islice

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number, told_of

_CALL = re.compile(
    r"^[ \t]{1,8}at ([^\s()]{1,400}?)(?:\[[^\]\n]{1,200}\])?"
    r"\([^\n]{0,600}?\)(?: in ([^\n]{1,500}):line (\d{1,9}))?\r?$",
    re.MULTILINE,
)
_CAUSE = "--- End of inner exception stack trace ---"
_INNER = " ---> "
_PLATFORM = re.compile(
    r"^(?:System|Microsoft|Mono|MS|Interop|Internal|FSharp|Newtonsoft|Npgsql|Serilog|Grpc|Sentry|OpenTelemetry)\."
)
_CODE = re.compile(r"[\w.+`]{1,300} \((0x[0-9A-Fa-f]{8}|-?[0-9]{1,10})\)(?::|\Z)")
"""A code of the operating system, or of COM, behind a type."""
# What the compiler makes of an asynchronous method, an iterator, a lambda or a local function.
_STATES = re.compile(r"^(.{1,400})\.<(\w{1,200})>d(?:__\d{1,9})?\.MoveNext$")
_INSIDE = re.compile(
    r"^(.{1,400}?)(?:\.<>c[\w<>]{0,100})?\.<([\w.]{0,200})>(?:b__[\w|]{0,50}|g__(\w{1,200})\|[\w|]{1,50})$"
)


def find(stack: str) -> Trace:
    """Read the reported exception, not its causes."""
    text = stack[:MAX_READ]
    begin = text.rfind(_CAUSE) + len(_CAUSE) if _CAUSE in text else 0
    matches = list(_CALL.finditer(text, begin)) if " at " in text else []
    if not matches:
        return Trace()
    first = matches[0] if begin == 0 else _CALL.search(text)
    assert first is not None
    heads = text[: first.start()].split(_INNER)
    trace = _told(heads[0], [_call(match) for match in matches[:MAX_FOUND]])
    if begin == 0 or len(heads) == 1:
        return trace
    held = [_call(match) for match in islice(_CALL.finditer(text, 0, text.find(_CAUSE)), MAX_FOUND)]
    return trace._replace(inside=[_told(heads[-1], held)])


def _told(head: str, calls: list[TracedCall]) -> Trace:
    """The exception before its calls, with the code behind its type."""
    coded = _CODE.match(head.strip().removeprefix("Unhandled exception. "))
    return Trace(calls, *told_of(head), code=coded and coded[1])


def _call(match: re.Match[str]) -> TracedCall:
    name, file, line = match.groups()
    module, function = _named(name)
    return TracedCall(file, function, number(line), module=module or None, in_app=_PLATFORM.match(name) is None)


def _named(name: str) -> tuple[str, str]:
    """The type and the method, as they are in the source."""
    states = _STATES.match(name)
    if states is not None:
        return states[1], states[2]
    inside = _INSIDE.match(name)
    if inside is not None:
        return inside[1], inside[3] or inside[2]
    module, _, function = name.rpartition(".")
    return module.removesuffix("."), function
