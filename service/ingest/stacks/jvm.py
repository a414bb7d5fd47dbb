"""Stack traces of Java, Kotlin, Scala and their like. Pure.

They name no file that tells the product's code from a library's, but packages do.
"""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number, told_of

_CALL = re.compile(
    r"^[ \t]{1,8}at (?:[\w.@+-]{0,100}/){0,3}([\w.$<>-]{1,300})"
    r"\((Native Method|Unknown Source|<[^()\n]{1,50}>|[^():\s]{1,200}\.\w{1,10})(?::(\d{1,9}))?\)"
    r"(?: ~?\[[^\]\n]{1,200}\])?$",
    re.MULTILINE,
)
_CAUSE = re.compile(r"\n[ \t]{0,8}(?:Caused by|Suppressed): ")
_PLATFORM = re.compile(
    r"^(?:java|javax|jdk|sun|com\.sun|com\.oracle|oracle|jakarta|kotlin|kotlinx|scala|groovy|org\.jetbrains)\."
)


def find(stack: str) -> Trace:
    """Read the reported exception, not its causes."""
    text = _CAUSE.split(stack[:MAX_READ], maxsplit=1)[0]
    matches = list(_CALL.finditer(text)) if "at " in text else []
    if not matches:
        return Trace()
    return Trace([_call(match) for match in matches[:MAX_FOUND]], *told_of(text[: matches[0].start()]))


def _call(match: re.Match[str]) -> TracedCall:
    name, file, line = match.groups()
    module, _, function = name.rpartition(".")
    own = _PLATFORM.match(name) is None
    return TracedCall(file, function, number(line), module=module or None, in_app=own)
