"""Stack traces of Rust: of a panic, and of an error with its backtrace. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall, number

_CALL = re.compile(
    r"^ {0,8}\d{1,4}: +(?:0x[0-9a-f]{1,16} - )?([^\n]{1,400})"
    r"(?:\n[ \t]+at ([^\n]{1,500}?):(\d{1,9})(?::(\d{1,9}))?$)?",
    re.MULTILINE,
)
_BACKTRACE = re.compile(r"^(?:stack backtrace|Stack backtrace|Backtrace):$", re.MULTILINE)
_PANIC = re.compile(r"^(?:thread '[^'\n]{0,200}'(?: \(\d{1,12}\))? )?panicked at ", re.MULTILINE)
_QUOTED = re.compile(r"'(.*)', [^\n]{1,500}:\d{1,9}:\d{1,9}", re.DOTALL)
_PLACE = re.compile(r"[^\n]{1,500}:\d{1,9}:\d{1,9}:\n")
_HASH = re.compile(r"::h[0-9a-f]{16}$")
_PLATFORM = re.compile(
    r"^(?:<*(?:&|dyn |mut )*(?:std|core|alloc|backtrace|test)::"
    r"|rust_begin_unwind|__|_start|_main$|clone3?$|start_thread)"
)
_OF_LIBRARY = re.compile(r"(?:^|/)rustc/|[/\\]\.cargo[/\\](?:registry|git)[/\\]|[/\\]rustlib[/\\]")


def find(stack: str) -> Trace:
    """Read the calls behind the word backtrace, and the panic or the error before it."""
    text = stack[:MAX_READ]
    begun = _BACKTRACE.search(text)
    if begun is None and ".rs:" not in text:
        return Trace()
    begin = 0 if begun is None else begun.end()
    matches = list(_CALL.finditer(text, begin))
    if begun is None:  # What only looks like calls, such as a list of causes, has no places.
        matches = matches if any(match[2] for match in matches) else []
    if not matches:
        return Trace()
    return Trace([_call(match) for match in matches[:MAX_FOUND]], *_head(text[: matches[0].start()], begun))


def _head(told: str, begun: re.Match[str] | None) -> Reported:
    plain = told if begun is None else told[: begun.start()]
    panic = _PANIC.search(plain)
    if panic is None:
        return Reported(None, plain.partition("\n\nCaused by:")[0].strip().removeprefix("Error: ") or None)
    reason = plain[panic.end() :].strip()
    quoted = _QUOTED.fullmatch(reason)
    return Reported("panic", (quoted[1] if quoted else _PLACE.sub("", reason, count=1)) or None)


def _call(match: re.Match[str]) -> TracedCall:
    name, file, line, column = match.groups()
    function = _HASH.sub("", name.strip())
    own = _PLATFORM.match(function) is None and (file is None or _OF_LIBRARY.search(file) is None)
    return TracedCall(
        file, function, number(line), number(column), in_app=own and (file is not None or "::" in function)
    )
