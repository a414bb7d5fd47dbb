"""Stack traces of apps: of Apple's systems, of Dart and Flutter, and of Unity and Mono. Pure.

Apple's are read as a crash report or `callStackSymbols` writes them, Dart's as the language and its package for chains
do. Unity names functions with the types of their arguments.
"""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number

_APPLE_CALL = re.compile(
    r"^[0-9]{1,4} {1,4}([^\n]{1,100}?)[ \t]{1,60}0x[0-9a-f]{1,16} ([^\n]{1,400}?)(?: \+ [0-9]{1,12})?"
    r"(?: \(([^\n():]{1,200}):([0-9]{1,9})\)| \([^\n():]{1,200}\))?$",
    re.MULTILINE,
)
_APPLE_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}\Z")
_APPLE_SYSTEM = re.compile(
    r"(?:lib[\w.+-]{1,80}|dyld\w{0,20}|\w{0,40}Kit(?:Core|Services)?|\w{0,40}Foundation|Core\w{1,40}|GraphicsServices"
    r"|QuartzCore|CFNetwork|SwiftUI(?:Core)?|Combine|Metal\w{0,20}|Security|JavaScriptCore|WebCore|AttributeGraph"
    r"|UpdateCycle|FrontBoardServices|BackBoardServices|Gestures|\?{3})(?:\.dylib)?\Z"
)
_DART_CALL = re.compile(
    r"^#[0-9]{1,4} {1,9}([^\n]{1,300}?) \(((?:package|dart|file|org-dartlang-\w{1,10}):[^\n()]{1,400}?)"
    r"(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?\)$",
    re.MULTILINE,
)
_DART_CHAINED = re.compile(
    r"^((?:package|dart):[^\s:]{1,400}) ([0-9]{1,9})(?::([0-9]{1,9}))? {2,40}([^\n]{1,300})$", re.MULTILINE
)
_DART_OF_LIBRARY = re.compile(
    r"dart:|org-dartlang-|package:(?:flutter|flutter_\w{1,40}|sentry|sentry_\w{1,40}|async|bloc|collection|dio|http"
    r"|provider|riverpod|stack_trace|test_api)/"
)
_UNITY_CALL = re.compile(
    r"^[ \t]{0,8}(?:at )?([A-Za-z_<][^\s():]{0,300}(?::[^\s():]{1,200})?) ?(\([^\n()]{0,400}\))"
    r"(?: \(at ([^\n()]{1,400}):([0-9]{1,9})\)| \[0x[0-9a-f]{1,16}\] in ([^\n]{1,400}):([0-9]{1,9}))[ \r]?$",
    re.MULTILINE,
)
_UNITY_PLATFORM = re.compile(r"(?:UnityEngine|UnityEditor|Unity|System|Mono|TMPro|Sentry|Cysharp|DG)\.")
_UNITY_NO_FILE = "<"


def find_apple(stack: str) -> Trace:
    """Read the calls of the first thread."""
    text = stack[:MAX_READ]
    matches = list(_APPLE_CALL.finditer(text)) if "0x" in text else []
    return Trace([_call_of_apple(match) for match in matches[:MAX_FOUND]])


def _call_of_apple(match: re.Match[str]) -> TracedCall:
    binary, name, file, line = match.groups()
    function = None if _APPLE_ADDRESS.match(name) else name
    own = _APPLE_SYSTEM.match(binary.strip()) is None
    return TracedCall(file, function, number(line), in_app=own)


def find_dart(stack: str) -> Trace:
    """Read the calls. The exception is printed apart from them."""
    text = stack[:MAX_READ]
    calls = (
        [_call_of_dart(*match.groups()) for match in _DART_CALL.finditer(text)] if "#0" in text or "#1" in text else []
    )
    if not calls and (":" in text):
        found = (match.groups() for match in _DART_CHAINED.finditer(text))
        calls = [_call_of_dart(function, place, line, column) for place, line, column, function in found]
    return Trace(calls[:MAX_FOUND])


def _call_of_dart(function: str, place: str, line: str | None, column: str | None) -> TracedCall:
    return TracedCall(place, function, number(line), number(column), in_app=_DART_OF_LIBRARY.match(place) is None)


def find_unity(stack: str) -> Trace:
    """Read the calls, the latest first."""
    text = stack[:MAX_READ]
    if "(at " not in text and "[0x" not in text:
        return Trace()
    return Trace([_call_of_unity(match) for match in _UNITY_CALL.finditer(text)][:MAX_FOUND])


def _call_of_unity(match: re.Match[str]) -> TracedCall:
    name, arguments, file, line, source, row = match.groups()
    plain = name.replace(":", ".")
    path = file or source
    held = None if path.startswith(_UNITY_NO_FILE) else path
    return TracedCall(
        held, f"{plain} {arguments}", number(line or row) if held else None, in_app=_UNITY_PLATFORM.match(plain) is None
    )
