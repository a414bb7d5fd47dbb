"""Stack traces of JavaScript, PHP, Python, Ruby, Perl, Lua, R and PowerShell. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall, number, told_of

# Stack traces of JavaScript: of Node and Chrome, and of Firefox and Safari, which print no exception.

_V8 = re.compile(
    r"^[ \t]{1,8}at (?:([^\n()]{1,300}?) \()?"
    r"(?:((?:[a-z][a-z+.-]{0,20}:)?[^\n()]{1,500}?):(\d{1,9}):(\d{1,9})|(?<=\()(<anonymous>))\)?(?: \{|,)?$",
    re.MULTILINE,
)
_HELD = re.compile(r"\n[ \t]{0,8}\[(cause|errors)\]: ")
_MOST_MEMBERS = 10
_DEEPEST = 10
"""Errors inside of each other."""
# The function may be empty. Of the ways in which a call was put off only the name counts.
_GECKO = re.compile(
    r"^(?:(?:async|setTimeout handler|promise callback)\*)?([^\n@]{0,300})@"
    r"((?:[a-z][a-z+.-]{0,20}:|/)[^\n]{1,500}?):(\d{1,9})(?::(\d{1,9}))?$",
    re.MULTILINE,
)


_HERMES = "(address at "
"""Stands before a place in a bundle; it was taken for a part of the file before version 3 of the grouping."""


def find_javascript(stack: str) -> Trace:
    """Read a trace as Node and Chrome print it, or without one as Firefox and Safari do. Hermes prints as Chrome."""
    if _HERMES in stack:
        return find_javascript_before(stack.replace(_HERMES, "("))._replace(newer=True)
    return find_javascript_before(stack)


def find_javascript_before(stack: str) -> Trace:
    """The same without the form of Hermes."""
    text = stack[:MAX_READ]
    trace = _inspected(text, _DEEPEST)
    if trace.calls:
        return trace
    text = _HELD.split(text, maxsplit=1)[0]
    matches = list(_GECKO.finditer(text)) if "@" in text else []
    return Trace([_javascript_call(match) for match in matches[:MAX_FOUND]])


def _inspected(text: str, depth: int) -> Trace:
    """An exception as Node and Chrome print it, with its cause or its members where Node shows them."""
    begun = _HELD.search(text)
    own = text if begun is None else text[: begun.start()]
    matches = list(_V8.finditer(own)) if " at " in own else []
    if not matches:
        return Trace()
    told = own[: matches[0].start()]
    trace = Trace([_v8(match) for match in matches[:MAX_FOUND]], *told_of(told))
    if begun is None or depth == 0:
        return trace
    rest = text[begun.end() :]
    inside = [_inspected(one, depth - 1) for one in (_javascript_members(rest) if begun[1] == "errors" else [rest])]
    return trace._replace(inside=[one for one in inside if one.calls])


def _javascript_members(listed: str) -> list[str]:
    """The texts of listed errors: each begins as far to the right as the first, once the one before has its calls."""
    members: list[list[str]] = []
    indent, has_calls = 0, True
    for line in listed.split("\n")[1:]:
        plain = line.lstrip(" ")
        indent = indent or len(line) - len(plain)
        if plain[:1] == "]" and len(line) - len(plain) < indent:
            break
        if has_calls and len(line) - len(plain) == indent and plain[:1] != "}":
            members.append([plain])
            has_calls = False
        elif members:
            members[-1].append(line[indent:])
            has_calls = has_calls or plain.startswith("at ")
    return ["\n".join(lines) for lines in members[:_MOST_MEMBERS]]


def _v8(match: re.Match[str]) -> TracedCall:
    """A call, of the language's own functions without a place."""
    return _javascript_call(match) if match[5] is None else TracedCall(match[5], match[1], in_app=False)


def _javascript_call(match: re.Match[str]) -> TracedCall:
    function, file, line, column = match.groups()[:4]
    return TracedCall(file.removeprefix("file://"), function or None, int(line), number(column))


# Stack traces of PHP: as the language prints them, and as OpenTelemetry's SDK does. The language says of each
# call where it was made, and not where it goes on. So each line's place is that of the call below, and the place of
# the exception that of the first.

_PHP_CALL_BEFORE, _PHP_CALL = [
    re.compile(
        r"^#\d{1,4} (?:(\[internal function\])|([^\n]{1,500}?)\((\d{1,9})\)): "
        rf"({closure}[^\n(]{{1,300}})\(|^#\d{{1,4}} (\{{main\}})$",
        re.MULTILINE,
    )
    for closure in ("", r"[^\n({]{0,300}\{closure:[^\n]{1,400}?\}(?=\()|")
]
_CLOSURE = "{closure:"
"""Begins the name of a closure, with the function around it and its line."""
_PHP_HEAD = re.compile(
    r"(?:\A|\n)(?:PHP )?(?:Fatal error: {1,2}Uncaught )?([^\n]{0,300}(?:\n[^#\n][^\n]{0,300}){0,20}?)"
    r" in ([^\n]{1,300}):(\d{1,9})\Z"
)
_PHP_NEXT = "\n\nNext "  # parts a cause from the exception that was reported
_TRACE = "Stack trace:"
_AS_JAVA = re.compile(
    r"^[ \t]{0,8}at ([^\s()]{1,300})(?:\((\[internal function\]|Unknown Source|[^\n():]{1,300})(?::(\d{1,9}))?\))?$",
    re.MULTILINE,
)
_CAUSE = re.compile(r"\n[ \t]{0,8}Caused by: ")
_INTERNAL = "[internal function]"
_MAIN = "{main}"


def find_php(stack: str) -> Trace:
    """Read the reported exception, not its causes."""
    if _CLOSURE in stack:
        return _php_find(stack, _PHP_CALL)._replace(newer=True)
    return _php_find(stack, _PHP_CALL_BEFORE)


def find_php_before(stack: str) -> Trace:
    """The same with closures cut at their first bracket, as before version 3 of the grouping (G-198)."""
    return _php_find(stack, _PHP_CALL_BEFORE)


def _php_find(stack: str, call: re.Pattern[str]) -> Trace:
    if ".php" not in stack and _MAIN not in stack:
        return Trace()
    native = _native(stack, call)
    return native if native.calls else _as_java(stack)


def _native(stack: str, call: re.Pattern[str]) -> Trace:
    """Causes come first. Text before the calls is `Type: value in file:line`, unless it is left out."""
    text = stack[:MAX_READ].rpartition(_PHP_NEXT)[2]
    told, _, after = text.rpartition(_TRACE)
    matches = list(call.finditer(after))
    if not matches:
        return Trace()
    head = _PHP_HEAD.search(told.rstrip())
    file, line = (None, None) if head is None else (head[2], head[3])
    calls: list[TracedCall] = []
    for match in matches[:MAX_FOUND]:
        internal, called_in, called_at, function, main = match.groups()
        calls.append(_php_call(file, None if main else function, line))
        file, line = internal or called_in, called_at
    return Trace(calls) if head is None else Trace(calls, *told_of(head[1]))


def _as_java(stack: str) -> Trace:
    text = _CAUSE.split(stack[:MAX_READ], maxsplit=1)[0]
    matches = list(_AS_JAVA.finditer(text))
    if not matches:
        return Trace()
    calls = [_php_call(match[2], _as_php(match[1]), match[3]) for match in matches[:MAX_FOUND]]
    kind, value = told_of(text[: matches[0].start()])
    return Trace(calls, kind and kind.replace(".", "\\"), value)


def _as_php(name: str) -> str | None:
    """A name in the language's own spelling: the SDK writes a stop for each of its separators."""
    module, _, function = name.rpartition(".")
    if function == _MAIN:
        return None
    return "::".join((module.replace(".", "\\"), function)) if module else function


def _php_call(file: str | None, function: str | None, line: str | None) -> TracedCall:
    own = None if file is None or file != _INTERNAL else False
    return TracedCall(file, function and function.replace("->", "::"), number(line), in_app=own)


# Stack traces of Python, which prints the latest call and the reported exception last.

_PYTHON_CALL = re.compile(r'^ {2,4}File "([^"\n]{1,500})", line (\d{1,9}), in ([^\n]{1,300})$', re.MULTILINE)
_CAUSED = re.compile(
    r"\n\n(?:The above exception was the direct cause|During handling of the above exception, another)[^\n]{0,80}\n\n"
)
_CAUSED_BY = ("The above exception was the direct cause", "During handling of the above exception, another")
_GROUP = re.compile(r"^ {2}[+|] ", re.MULTILINE)
_MEMBERS = "\n  +-+-"  # begins the exceptions of a group, each with calls of its own
_RULE = re.compile(r" {2,60}(?:\+-)?\+-{4,20} (?:[0-9]{1,4}|\.{3}) -{4,20}\Z")
"""Parts the exceptions of a group. They stand behind a margin, which begins where its last cross is."""

_MOST_CAUSES = 10
_LOCALS = "<locals>"
_SIZE = re.compile(r" \(\d{1,9} sub-exceptions?\)$")
_PYTHON_HEAD = re.compile(r"^([^\W\d][\w.<>]{0,300})(?:: ([^\n]*)|$)", re.MULTILINE)


def find_python(stack: str) -> Trace:
    """Read the reported exception, with its cause and the members of a group inside of it."""
    if 'File "' not in stack:
        return Trace()
    found = _python_find(stack[-MAX_READ:])
    if found.calls or len(stack) <= MAX_READ:
        return found
    return _python_find(stack[:MAX_READ])._replace(exact=False)  # All of the end is its value.


class _Member(NamedTuple):
    """An exception in a group: where its margin begins, its text without that, and the exceptions in it."""

    margin: int
    lines: list[str]
    members: list[_Member]


def _python_members(text: str) -> list[Trace]:
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
        trace = _python_find(text)
        if not trace.calls:
            trace = _raised(text, is_group=bool(member.members))
        held = _traces(member.members, depth - 1)
        if trace.type:
            value = _SIZE.sub("", trace.value) if held and trace.value else trace.value
            found.append(trace._replace(value=value, inside=[*trace.inside, *held]))
    return found


def _raised(block: str, *, is_group: bool) -> Trace:
    """An exception without calls: its type and its value."""
    head = _PYTHON_HEAD.search(block)
    if head is None:
        return Trace()
    kind, first = head.groups()
    value = None if first is None else (first + block[head.end() :]).rstrip("\n")
    module, name = _parted(kind)
    return Trace((), name, (_SIZE.sub("", value) if is_group and value else value) or None, True, module)


def _python_find(text: str) -> Trace:
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
        members = _python_members(f"{_MEMBERS}{rest}"[1:])
        block = _GROUP.sub("", block)
    first_call = _PYTHON_CALL.search(block)
    if first_call is None:
        return Trace()
    block = block[first_call.start() :]
    # Calls and their lines of source are indented, and the exception is not: its value may look like anything.
    head = _PYTHON_HEAD.search(block)
    calls = block if head is None else block[: head.start()]
    matches = list(_PYTHON_CALL.finditer(calls))[-MAX_FOUND:]
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


# Stack traces of Ruby: of `full_message` in both orders, and of a plain backtrace.

_RUBY_CALL = re.compile(
    r"^[ \t]{0,8}(?:(\d{1,4}): )?(from )?((?:[A-Za-z]:)?[^\s:<][^\n:]{0,500}|<internal:[^>\n]{1,200}>)"
    r":(\d{1,9}):in [`'](?:([\w:]{1,200})#)?([^'\n]{1,300})'(:)?",
    re.MULTILINE,
)
_TYPE = re.compile(r" \(([A-Z][\w:]{0,200})\)(?=\n|\Z)")
_OF_LIBRARY = re.compile(r"/gems/|/bundler/|/lib/ruby/|/ruby/\d|^<internal:|^\(eval|/vendor/")
_RUBY_NEXT = re.compile(r"\n(?=[ \t]{1,8}(?:\d{1,4}: )?from |[^\s:][^\n:]{0,500}:\d{1,9}:in [`'])")


def find_ruby(stack: str) -> Trace:
    """Read the exception that was reported, not its causes: these follow, each with a head of its own."""
    text = stack[:MAX_READ]
    matches = list(_RUBY_CALL.finditer(text)) if ":in " in text else []
    if not matches:
        return Trace()
    if matches[0][1] is not None:  # The earliest call comes first, and the exception last.
        calls = [match for match in matches if match[1] is not None or match[7]]
        return Trace([_ruby_call(match) for match in reversed(calls)][:MAX_FOUND], *_head(text, calls[-1]))
    begun = [index for index, match in enumerate(matches) if match[7]]
    reported = matches[: begun[1]] if len(begun) > 1 else matches
    head = _head(text, matches[0]) if matches[0][7] else Reported(None, None)
    return Trace([_ruby_call(match) for match in reported[:MAX_FOUND]], *head)


def _head(text: str, match: re.Match[str]) -> Reported:
    """The message behind the latest call, with the type at the end of its first line."""
    if not match[7]:
        return Reported(None, None)
    told = _RUBY_NEXT.split(text[match.end() :], maxsplit=1)[0]
    kind = _TYPE.search(told)
    if kind is None:
        return Reported(None, told.strip() or None)
    return Reported(kind[1], (told[: kind.start()] + told[kind.end() :]).strip() or None)


def _ruby_call(match: re.Match[str]) -> TracedCall:
    _, _, file, line, module, function, _ = match.groups()
    return TracedCall(file, function, int(line), module=module, in_app=_OF_LIBRARY.search(file) is None)


# Stack traces of Perl, Lua, R and PowerShell. Perl says of a call where it was made, so the place of each line
# is that of the call below, as in PHP.

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
