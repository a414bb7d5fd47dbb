"""Stack traces of Apple's systems, as a crash report or `callStackSymbols` writes them. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number

_CALL = re.compile(
    r"^[0-9]{1,4} {1,4}([^\n]{1,100}?)[ \t]{1,60}0x[0-9a-f]{1,16} ([^\n]{1,400}?)(?: \+ [0-9]{1,12})?"
    r"(?: \(([^\n():]{1,200}):([0-9]{1,9})\)| \([^\n():]{1,200}\))?$",
    re.MULTILINE,
)
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}\Z")
_SYSTEM = re.compile(
    r"(?:lib[\w.+-]{1,80}|dyld\w{0,20}|\w{0,40}Kit(?:Core|Services)?|\w{0,40}Foundation|Core\w{1,40}|GraphicsServices"
    r"|QuartzCore|CFNetwork|SwiftUI(?:Core)?|Combine|Metal\w{0,20}|Security|JavaScriptCore|WebCore|AttributeGraph"
    r"|UpdateCycle|FrontBoardServices|BackBoardServices|Gestures|\?{3})(?:\.dylib)?\Z"
)


def find(stack: str) -> Trace:
    """Read the calls of the first thread."""
    text = stack[:MAX_READ]
    matches = list(_CALL.finditer(text)) if "0x" in text else []
    return Trace([_call(match) for match in matches[:MAX_FOUND]])


def _call(match: re.Match[str]) -> TracedCall:
    binary, name, file, line = match.groups()
    function = None if _ADDRESS.match(name) else name
    own = _SYSTEM.match(binary.strip()) is None
    return TracedCall(file, function, number(line), in_app=own)
