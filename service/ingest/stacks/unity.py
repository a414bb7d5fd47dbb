"""Stack traces of Unity and Mono, whose functions come with the types of their arguments. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number

_CALL = re.compile(
    r"^[ \t]{0,8}(?:at )?([A-Za-z_<][^\s():]{0,300}(?::[^\s():]{1,200})?) ?(\([^\n()]{0,400}\))"
    r"(?: \(at ([^\n()]{1,400}):([0-9]{1,9})\)| \[0x[0-9a-f]{1,16}\] in ([^\n]{1,400}):([0-9]{1,9}))[ \r]?$",
    re.MULTILINE,
)
_PLATFORM = re.compile(r"(?:UnityEngine|UnityEditor|Unity|System|Mono|TMPro|Sentry|Cysharp|DG)\.")
_NO_FILE = "<"


def find(stack: str) -> Trace:
    """Read the calls, the latest first."""
    text = stack[:MAX_READ]
    if "(at " not in text and "[0x" not in text:
        return Trace()
    return Trace([_call(match) for match in _CALL.finditer(text)][:MAX_FOUND])


def _call(match: re.Match[str]) -> TracedCall:
    name, arguments, file, line, source, row = match.groups()
    plain = name.replace(":", ".")
    path = file or source
    held = None if path.startswith(_NO_FILE) else path
    return TracedCall(
        held, f"{plain} {arguments}", number(line or row) if held else None, in_app=_PLATFORM.match(plain) is None
    )
