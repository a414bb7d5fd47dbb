"""Stack traces of Go: of a goroutine, as a panic and `debug.Stack` print it, and of errors with `%+v`. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall

_CALL = re.compile(
    r"^(created by )?([^\s(]{1,300}(?:\(\*?[^\s()]{1,200}\)\.[^\s(]{1,200}){0,3})(?:\([^\n]{0,600}\))?"
    r"(?: in goroutine \d{1,12})?\n"
    r"[ \t]{1,8}([^\n]{1,500}):(\d{1,9})(?: \+0x[0-9a-f]{1,16})?(?:\n|\Z)",
    re.MULTILINE,
)
_PANIC = re.compile(r"^(panic|fatal error): ", re.MULTILINE)
_GOROUTINE = re.compile(r"^goroutine \d{1,12}[^\n]{0,100}:\n", re.MULTILINE)
_RAISED = re.compile(r" \[recovered\]|\n\tpanic: |\n\[signal ")
_GENERIC = re.compile(r"\[[^\[\]]{0,200}\]")
_OF_MODULES = re.compile(r"/pkg/mod/|(?:^|/)vendor/|@v\d")
_STANDARD = re.compile(
    r"(?:archive|bufio|builtin|bytes|cmp|compress|container|context|crypto|database|debug|embed|encoding|errors"
    r"|expvar|flag|fmt|go|hash|html|image|index|internal|io|iter|log|maps|math|mime|net|os|path|plugin|reflect"
    r"|regexp|runtime|slices|sort|strconv|strings|structs|sync|syscall|testing|text|time|unicode|unique|unsafe"
    r"|weak)(?:/|\Z)"
)


def find(stack: str) -> Trace:
    """Read the first goroutine, which panicked, or the calls of the error that an error wraps."""
    text = stack[:MAX_READ]
    if ".go:" not in text and ".s:" not in text:
        return Trace()
    opened = _GOROUTINE.search(text)
    begin = 0 if opened is None else opened.end()
    calls: list[TracedCall] = []
    end = -1
    for match in _CALL.finditer(text, begin):
        if (calls and match.start() != end) or match[1]:
            break  # Another goroutine, the calls of an outer error, or what began this one.
        begin = begin if calls else match.start()
        end = match.end()
        calls.append(_call(match))
    calls = calls[_raising(calls) :]
    return Trace(calls[:MAX_FOUND], *_head(text, begin if opened is None else opened.start()))


def _raising(calls: list[TracedCall]) -> int:
    """How many calls only deal with the panic: those of deferred functions, down to `panic` itself."""
    for index in range(len(calls) - 1, -1, -1):
        if calls[index].function == "panic" and calls[index].module in {None, "runtime"}:
            return index + 1
    return int(bool(calls) and calls[0].function == "Stack" and calls[0].module == "runtime/debug")


def _head(text: str, end: int) -> Reported:
    """The reason of a panic, or the message of an error, before its calls."""
    told = text[:end]
    panic = _PANIC.search(told)
    if panic is None:
        return Reported(None, told.strip() or None)
    reason = _RAISED.split(told[panic.end() :], maxsplit=1)[0].strip()
    return Reported(panic[1], reason or None)


def _call(match: re.Match[str]) -> TracedCall:
    _, name, file, line = match.groups()
    module, function = _named(name)
    return TracedCall(file, function, int(line), module=module, in_app=_is_own(module, file))


def _named(name: str) -> tuple[str | None, str]:
    """The package and the function with its receiver; the stop behind the last slash parts them."""
    plain = _GENERIC.sub("", name)
    package, _, function = plain[plain.rfind("/") + 1 :].partition(".")
    if not function:
        return None, plain
    return plain[: plain.rfind("/") + 1] + package, function


def _is_own(module: str | None, file: str) -> bool:
    """Neither of the standard library nor of a module that was loaded."""
    if _OF_MODULES.search(file) or module is None:
        return False
    if _STANDARD.match(module) is None:
        return True
    return f"/src/{module}/" not in file and file.startswith(("/", "."))
