"""Stack traces of Ruby: of `full_message` in both orders, and of a plain backtrace. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall

_CALL = re.compile(
    r"^[ \t]{0,8}(?:(\d{1,4}): )?(from )?((?:[A-Za-z]:)?[^\s:<][^\n:]{0,500}|<internal:[^>\n]{1,200}>)"
    r":(\d{1,9}):in [`'](?:([\w:]{1,200})#)?([^'\n]{1,300})'(:)?",
    re.MULTILINE,
)
_TYPE = re.compile(r" \(([A-Z][\w:]{0,200})\)(?=\n|\Z)")
_OF_LIBRARY = re.compile(r"/gems/|/bundler/|/lib/ruby/|/ruby/\d|^<internal:|^\(eval|/vendor/")
_NEXT = re.compile(r"\n(?=[ \t]{1,8}(?:\d{1,4}: )?from |[^\s:][^\n:]{0,500}:\d{1,9}:in [`'])")


def find(stack: str) -> Trace:
    """Read the exception that was reported, not its causes: these follow, each with a head of its own."""
    text = stack[:MAX_READ]
    matches = list(_CALL.finditer(text)) if ":in " in text else []
    if not matches:
        return Trace()
    if matches[0][1] is not None:  # The earliest call comes first, and the exception last.
        calls = [match for match in matches if match[1] is not None or match[7]]
        return Trace([_call(match) for match in reversed(calls)][:MAX_FOUND], *_head(text, calls[-1]))
    begun = [index for index, match in enumerate(matches) if match[7]]
    reported = matches[: begun[1]] if len(begun) > 1 else matches
    head = _head(text, matches[0]) if matches[0][7] else Reported(None, None)
    return Trace([_call(match) for match in reported[:MAX_FOUND]], *head)


def _head(text: str, match: re.Match[str]) -> Reported:
    """The message behind the latest call, with the type at the end of its first line."""
    if not match[7]:
        return Reported(None, None)
    told = _NEXT.split(text[match.end() :], maxsplit=1)[0]
    kind = _TYPE.search(told)
    if kind is None:
        return Reported(None, told.strip() or None)
    return Reported(kind[1], (told[: kind.start()] + told[kind.end() :]).strip() or None)


def _call(match: re.Match[str]) -> TracedCall:
    _, _, file, line, module, function, _ = match.groups()
    return TracedCall(file, function, int(line), module=module, in_app=_OF_LIBRARY.search(file) is None)
