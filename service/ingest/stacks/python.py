"""Stack traces of Python, which prints the latest call and the reported exception last. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Trace, TracedCall

_CALL = re.compile(r'^ {2,4}File "([^"\n]{1,500})", line (\d{1,9}), in ([^\n]{1,300})$', re.MULTILINE)
_CAUSED = re.compile(
    r"\n\n(?:The above exception was the direct cause|During handling of the above exception, another)[^\n]{0,80}\n\n"
)
_CAUSED_BY = ("The above exception was the direct cause", "During handling of the above exception, another")
_GROUP = re.compile(r"^ {2}[+|] ", re.MULTILINE)
_MEMBERS = "\n  +-+-"  # begins the exceptions of a group, each with calls of its own
_RULE = re.compile(r" {2,60}(?:\+-)?\+-{4,20} (?:[0-9]{1,4}|\.{3}) -{4,20}\Z")
"""Parts the exceptions of a group. They stand behind a margin, which begins where its last cross is."""
_MOST_MEMBERS = 10
_MOST_CAUSES = 10
_LOCALS = "<locals>"
_SIZE = re.compile(r" \(\d{1,9} sub-exceptions?\)$")
_HEAD = re.compile(r"^([^\W\d][\w.<>]{0,300})(?:: ([^\n]*)|$)", re.MULTILINE)


def find(stack: str) -> Trace:
    """Read the reported exception, with its cause and the members of a group inside of it."""
    if 'File "' not in stack:
        return Trace()
    found = _find(stack[-MAX_READ:])
    if found.calls or len(stack) <= MAX_READ:
        return found
    return _find(stack[:MAX_READ])._replace(exact=False)  # All of the end is its value.


class _Member(NamedTuple):
    """An exception in a group: where its margin begins, its text without that, and the exceptions in it."""

    margin: int
    lines: list[str]
    members: list[_Member]


def _members(text: str) -> list[Trace]:
    """The exceptions of a group, in the lines behind its own."""
    group = _Member(2, [], [])
    path = [group]
    for line in text.split("\n"):
        margin = line.find("|")
        if _RULE.match(line):
            margin = line.rfind("+")
            while path[-1].margin >= margin and len(path) > 1:
                path.pop()
            member = _Member(margin, [], [])
            path[-1].members.append(member)
            path.append(member)
        elif 0 <= margin == len(line) - len(line.lstrip()):
            while path[-1].margin > margin and len(path) > 1:
                path.pop()
            path[-1].lines.append(line[margin + 2 :])
            if line[margin + 2 :].startswith(_CAUSED_BY):
                path[-1].members.clear()  # Those of its cause.
    return _traces(group.members, _MOST_MEMBERS)


def _traces(members: list[_Member], depth: int) -> list[Trace]:
    """The exceptions of a group. One that was never raised itself has no calls."""
    found: list[Trace] = []
    for member in members[:_MOST_MEMBERS] if depth else ():
        text = "\n".join(member.lines) + "\n"
        trace = _find(text)
        if not trace.calls:
            trace = _raised(text, is_group=bool(member.members))
        held = _traces(member.members, depth - 1)
        if trace.type:
            value = _SIZE.sub("", trace.value) if held and trace.value else trace.value
            found.append(trace._replace(value=value, inside=[*trace.inside, *held]))
    return found


def _raised(block: str, *, is_group: bool) -> Trace:
    """An exception without calls: its type and its value."""
    head = _HEAD.search(block)
    if head is None:
        return Trace()
    kind, first = head.groups()
    value = None if first is None else (first + block[head.end() :]).rstrip("\n")
    module, name = _parted(kind)
    return Trace((), name, (_SIZE.sub("", value) if is_group and value else value) or None, True, module)


def _find(text: str) -> Trace:
    *causes, block = _CAUSED.split(text)
    trace = _block(block)
    if not trace.calls or not causes:
        return trace
    held = None
    for cause in map(_block, causes[-_MOST_CAUSES:]):
        if cause.type:
            held = cause if held is None else cause._replace(inside=[held, *cause.inside])
    return trace if held is None else trace._replace(inside=[held, *trace.inside])


def _block(block: str) -> Trace:
    """One exception of a chain."""
    is_whole = block.endswith("\n")  # as Python prints it; an SDK with a limit may have cut it
    is_group = block.lstrip("\n").startswith("  + Exception Group")
    members: list[Trace] = []
    if is_group:
        block, _, rest = block.partition(_MEMBERS)
        members = _members(f"{_MEMBERS}{rest}"[1:])
        block = _GROUP.sub("", block)
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
        return Trace(found, inside=members)
    return _raised(block[head.start() :], is_group=is_group)._replace(calls=found, exact=is_whole, inside=members)


def _parted(kind: str) -> tuple[str | None, str]:
    """The module of a type, and its qualified name: classes begin with a capital, functions stand before their locals.

    Sentry's and PostHog's SDKs tell the qualified name as the type, and OpenTelemetry's the last part alone.
    """
    parts = kind.split(".")
    begin = max(0, parts.index(_LOCALS) - 1) if _LOCALS in parts else len(parts) - 1
    while begin > 0 and parts[begin - 1][:1].isupper() and not parts[begin - 1].isupper():
        begin -= 1
    return ".".join(parts[:begin]) or None, ".".join(parts[begin:])
