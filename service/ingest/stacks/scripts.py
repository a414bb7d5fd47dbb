"""Stack traces of Perl, Lua, R and PowerShell. Pure.

Perl says of a call where it was made, so the place of each line is that of the call below, as in PHP.
"""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall, number

_PERL = re.compile(
    r"^[ \t]{1,8}([\w:']{1,300}|eval \{\.\.\.\}|require [^\n]{1,200}?)(?:\([^\n]{0,2000}?\))?"
    r" called at ([^\n]{1,300}?) line ([0-9]{1,9})$",
    re.MULTILINE,
)
_PERL_HEAD = re.compile(
    r" at ([^\n]{1,300}?) line ([0-9]{1,9})(?:, <[^>\n]{1,80}> line [0-9]{1,12})?\.?$", re.MULTILINE
)
_PERL_OF_LIBRARY = re.compile(r"/(?:perl5?|site_perl|vendor_perl)/")
_LUA = re.compile(
    r"^[ \t]{1,8}(?:(\[C\])|([^\n:]{1,300}):([0-9]{1,9})): in "
    r"(?:(?:function|method|field|upvalue|local|global|metamethod) )?"
    r"(?:'([^'\n]{1,200})'|<([^>\n]{1,300})>|(main chunk|\?))(?: \([^\n]{0,200}\))?$",
    re.MULTILINE,
)
_LUA_BEGIN = "stack traceback:"
_R = re.compile(
    r"^ {0,6}[0-9]{1,4}: ([\w.$:]{1,200}|`[^`\n]{1,100}`)\([^\n]{0,2000}?(?: {1,2}at ([^\n#]{1,300})#([0-9]{1,9}))?$",
    re.MULTILINE,
)
_POWERSHELL = re.compile(r"^[ \t]{0,8}at ([^\n,]{1,200}), ([^\n]{1,400}?): line ([0-9]{1,9})\r?$", re.MULTILINE)
_NO_FILE = "<No file>"


def find_perl(stack: str) -> Trace:
    """Read the form of Carp and Devel::StackTrace."""
    text = stack[:MAX_READ]
    matches = list(_PERL.finditer(text)) if " called at " in text else []
    if not matches:
        return Trace()
    head = _PERL_HEAD.search(text[: matches[0].start()])
    file, line = (None, None) if head is None else head.groups()
    calls: list[TracedCall] = []
    for match in matches[:MAX_FOUND]:
        function, called_in, called_at = match.groups()
        if not function.startswith(("eval ", "require ")):
            own = file is None or _PERL_OF_LIBRARY.search(file) is None
            calls.append(TracedCall(file, function, number(line), in_app=own))
        file, line = called_in, called_at
    return Trace([*calls, TracedCall(file, None, number(line))])


def find_lua(stack: str) -> Trace:
    """Read the form of `debug.traceback`."""
    text = stack[:MAX_READ].partition(_LUA_BEGIN)[2]
    calls = []
    for match in _LUA.finditer(text):
        native, file, line, name, _, main = match.groups()
        function = name or ("main chunk" if main == "main chunk" else None)
        calls.append(TracedCall(file, function, number(line), in_app=native is None))
    return Trace(calls[:MAX_FOUND])


def find_r(stack: str) -> Trace:
    """Read the form of `traceback`, the latest call first."""
    text = stack[:MAX_READ]
    if "#" not in text or ": " not in text:
        return Trace()
    matches = list(_R.finditer(text))
    if not any(match[2] for match in matches):
        return Trace()
    calls = [
        TracedCall(file, name.strip("`"), number(line), in_app=file is not None and "::" not in name)
        for name, file, line in (match.groups() for match in matches[:MAX_FOUND])
    ]
    return Trace(calls)


def find_powershell(stack: str) -> Trace:
    """Read the form of `ScriptStackTrace`."""
    text = stack[:MAX_READ]
    if ": line " not in text:
        return Trace()
    found = (match.groups() for match in _POWERSHELL.finditer(text))
    calls = [
        TracedCall(None if file == _NO_FILE else file, function, number(line), in_app=file != _NO_FILE)
        for function, file, line in found
    ]
    return Trace(calls[:MAX_FOUND])
