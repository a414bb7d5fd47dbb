"""Stack traces of Java, Kotlin, Scala and their like. Pure.

They name no file that tells the product's code from a library's, but packages do.
"""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number, told_of

_CALL = re.compile(
    r"^[ \t]{1,8}at (?:[\w.@+-]{0,100}/){0,3}([\w.$<>-]{1,300})"
    r"\((Native Method|Unknown Source|<[^()\n]{1,50}>|[\w$-]{1,100}|[^():\s]{1,200}\.\w{1,10})(?::(\d{1,9}))?\)"
    r"(?: ~?\[[^\]\n]{1,200}\])?$",
    re.MULTILINE,
)
_NAMED_FILE = re.compile(r"Native Method|Unknown Source|<|.{1,400}\.\w{1,10}\Z")
"""Files in traces before version 3 of the grouping: obfuscated code has others."""
_CAUSE = re.compile(r"\n[ \t]{0,8}(?:Caused by|Suppressed): ")
_PLATFORM = re.compile(
    r"^(?:java|javax|jdk|sun|com\.sun|com\.oracle|oracle|jakarta|kotlin|kotlinx|scala|groovy|org\.jetbrains)\."
)
_ANDROID = re.compile(r"^(?:android|androidx|dalvik|libcore|com\.android|com\.google\.android|clojure)\.")
_COMMON = re.compile(r"^[ \t]{1,8}\.\.\. ([0-9]{1,4}) (?:more|common frames omitted)\r?$", re.MULTILINE)
"""Stands for the last calls of a cause, which are those of what it is the cause of."""
_MOST_CAUSES = 10


def find(stack: str) -> Trace:
    """Read the reported exception, and its causes inside of it."""
    reported, *causes = _CAUSE.split(stack[:MAX_READ], maxsplit=_MOST_CAUSES)
    trace = _read(reported)
    if not trace.calls:
        return trace
    chain = [trace]
    for part in causes[:_MOST_CAUSES]:
        if (cause := _read(part)).type:
            chain.append(_completed(cause, part, chain[-1]))
    held = chain[-1]
    for outer in chain[-2::-1]:
        held = outer._replace(inside=[held])
    return held


def _completed(cause: Trace, part: str, outer: Trace) -> Trace:
    """A cause with the calls that its text leaves to the exception around it."""
    common = _COMMON.search(part)
    count = 0 if common is None else int(common[1])
    if not 0 < count <= len(outer.calls):
        return cause
    return cause._replace(calls=[*cause.calls, *outer.calls[-count:]][:MAX_FOUND])


def find_before(stack: str) -> Trace:
    """Read the reported exception as it was read before version 3 of the grouping (G-198)."""
    text = _CAUSE.split(stack[:MAX_READ], maxsplit=1)[0]
    matches = [match for match in _CALL.finditer(text) if _NAMED_FILE.match(match[2])] if "at " in text else []
    if not matches:
        return Trace()
    calls = [_call(match)._replace(in_app=_PLATFORM.match(match[1]) is None) for match in matches[:MAX_FOUND]]
    return Trace(calls, *told_of(text[: matches[0].start()]))


def _read(text: str) -> Trace:
    matches = list(_CALL.finditer(text)) if "at " in text else []
    if not matches:
        return Trace([], *told_of(text.partition("\n")[0]))
    newer = any(_NAMED_FILE.match(match[2]) is None or _ANDROID.match(match[1]) for match in matches)
    calls = [_call(match) for match in matches[:MAX_FOUND]]
    return Trace(calls, *told_of(text[: matches[0].start()]), newer=newer)


def _call(match: re.Match[str]) -> TracedCall:
    name, file, line = match.groups()
    module, _, function = name.rpartition(".")
    own = _PLATFORM.match(name) is None and _ANDROID.match(name) is None
    return TracedCall(file, function, number(line), module=module or None, in_app=own)
