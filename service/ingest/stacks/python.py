"""Stack traces of Python, which prints the latest call and the reported exception last. Pure."""

from __future__ import annotations

import re
from itertools import islice

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall

_CALL = re.compile(r'^ {2,4}File "([^"\n]{1,500})", line (\d{1,9}), in ([^\n]{1,300})$', re.MULTILINE)
_CAUSED = re.compile(
    r"\n\n(?:The above exception was the direct cause|During handling of the above exception, another)[^\n]{0,80}\n\n"
)
_GROUP = re.compile(r"^ {2}[+|] ", re.MULTILINE)
_MEMBERS = "\n  +-+-"  # begins the exceptions of a group, each with calls of its own
_GROUPED = "Exception Group Traceback"
_MEMBER = re.compile(
    r"^( {2,60}\| )Traceback \(most recent call last\):\n(?:\1[^\n]{0,2000}(?:\n|\Z)){1,400}", re.MULTILINE
)
_MOST_MEMBERS = 10
_LOCALS = "<locals>"
_SIZE = re.compile(r" \(\d{1,9} sub-exceptions?\)$")
_HEAD = re.compile(r"^([^\W\d][\w.<>]{0,300})(?:: ([^\n]*)|$)", re.MULTILINE)


def find(stack: str) -> Trace:
    """Read the reported exception, not its causes. Of a group, its own calls."""
    if 'File "' not in stack:
        return Trace()
    found = _find(stack[-MAX_READ:])
    if found.calls and _GROUPED in stack:
        found = found._replace(inside=_inside(stack[-MAX_READ:]))
    if found.calls or len(stack) <= MAX_READ:
        return found
    return _find(stack[:MAX_READ])._replace(exact=False)  # All of the end is its value.


def _inside(text: str) -> list[Trace]:
    """The exceptions at the leaves of a group, each printed behind a margin."""
    members = [
        _find("\n".join(line.removeprefix(match[1]) for line in match[0].split("\n")))
        for match in islice(_MEMBER.finditer(text), _MOST_MEMBERS)
    ]
    return [member for member in members if member.type]


def _find(text: str) -> Trace:
    block = _CAUSED.split(text)[-1]
    is_whole = block.endswith("\n")  # as Python prints it; an SDK with a limit may have cut it
    is_group = block.lstrip("\n").startswith("  + Exception Group")
    if is_group:
        block = _GROUP.sub("", block.partition(_MEMBERS)[0])
    first_call = _CALL.search(block)
    if first_call is None:
        return Trace()
    block = block[first_call.start() :]
    # Calls and their lines of source are indented, and the exception is not: its value may look like anything.
    head = _HEAD.search(block)
    calls = block if head is None else block[: head.start()]
    matches = list(_CALL.finditer(calls))[-MAX_FOUND:]
    found = [TracedCall(file, name, int(line)) for file, line, name in (match.groups() for match in reversed(matches))]
    if head is None:
        return Trace(found)
    kind, first = head.groups()
    value = None if first is None else (first + block[head.end() :]).rstrip("\n")
    told = _SIZE.sub("", value) if is_group and value else value
    module, name = _parted(kind)
    return Trace(found, name, told or None, is_whole, module)


def _parted(kind: str) -> tuple[str | None, str]:
    """The module of a type, and its qualified name: classes begin with a capital, functions stand before their locals.

    Sentry's and PostHog's SDKs tell the qualified name as the type, and OpenTelemetry's the last part alone.
    """
    parts = kind.split(".")
    begin = max(0, parts.index(_LOCALS) - 1) if _LOCALS in parts else len(parts) - 1
    while begin > 0 and parts[begin - 1][:1].isupper() and not parts[begin - 1].isupper():
        begin -= 1
    return ".".join(parts[:begin]) or None, ".".join(parts[begin:])
