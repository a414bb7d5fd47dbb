"""Stack traces of C and C++: of Boost and the standard library, of debuggers and of sanitizers. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number

_LIBRARY = re.compile(
    r"^ {0,4}\d{1,4}# ([^\n]{1,400}?)(?: at ([^\n]{0,500}?):(\d{1,9})| in ([^\n]{1,500}))?(?: \[0x[0-9a-f]{1,16}\])?$",
    re.MULTILINE,
)
_DEBUGGER = re.compile(
    r"^ {0,8}#\d{1,4} {1,2}(?:0x[0-9a-f]{1,16} in )?([^\n]{1,400}?)"
    r"(?: at ([^\n]{1,500}?):(\d{1,9})| from ([^\n]{1,500})"
    r"| (/[^\s:]{1,500}):(\d{1,9})(?::(\d{1,9}))?| \((/[^\n]{1,500})\))$",
    re.MULTILINE,
)
_CLONE = re.compile(r" \[clone [^\]\n]{1,100}\]$")
_PLATFORM = re.compile(
    r"^(?:[\w:*& ]{0,100} )?"
    r"(?:std::|boost::|__gnu_cxx::|__cxa|__libc|__GI_|__pthread|__asan|__interceptor_|_start$|abort$|raise$|0x)"
)
_OF_SYSTEM = re.compile(
    r"^(?:/usr/|/lib/|/lib64/|\.\./sysdeps/|\.\./nptl/|/build/glibc|\./(?:nptl|stdlib|csu|sysdeps)/)"
)


def find(stack: str) -> Trace:
    """Read the calls. Nothing before them is known to be the exception."""
    text = stack[:MAX_READ]
    calls = [_listed(match) for match in _LIBRARY.finditer(text)] if "# " in text else []
    if not calls and "#0" in text:
        calls = [_debugged(match) for match in _DEBUGGER.finditer(text)]
    return Trace(calls[:MAX_FOUND])


def _listed(match: re.Match[str]) -> TracedCall:
    name, file, line, binary = match.groups()
    return _call(name, file or None, line if file else None, None, binary)


def _debugged(match: re.Match[str]) -> TracedCall:
    name, file, line, library, path, row, column, binary = match.groups()
    return _call(name, file or path, line or row, column, library or binary)


def _call(name: str, file: str | None, line: str | None, column: str | None, binary: str | None) -> TracedCall:
    own = _PLATFORM.match(name) is None and _OF_SYSTEM.match(file or binary or "") is None
    return TracedCall(file, _bare(name), number(line), number(column), module=binary, in_app=own)


def _bare(name: str) -> str | None:
    """A function without its parameters, and without what it was cloned for. None for an address alone."""
    plain = _CLONE.sub("", name.strip()).removesuffix(" const")
    if plain.startswith("0x"):
        return None
    depth = 0
    for place in range(len(plain) - 1, 0, -1) if plain.endswith(")") else ():
        depth += (plain[place] == ")") - (plain[place] == "(")
        if depth == 0:
            return plain[:place].rstrip() or plain
    return plain
