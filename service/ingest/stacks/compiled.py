"""Stack traces of Java and its like, .NET, Go, Rust, C and C++. Pure.

They name no file that tells the product's code from a library's, but packages do.
"""

import re
from itertools import islice

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall, number, told_of

# Stack traces of Java, Kotlin, Scala and their like.

_JVM_CALL = re.compile(
    r"^[ \t]{1,8}at (?:[\w.@+-]{0,100}/){0,3}([\w.$<>-]{1,300})"
    r"\((Native Method|Unknown Source|<[^()\n]{1,50}>|[\w$-]{1,100}|[^():\s]{1,200}\.\w{1,10})(?::(\d{1,9}))?\)"
    r"(?: ~?\[[^\]\n]{1,200}\])?$",
    re.MULTILINE,
)
_NAMED_FILE = re.compile(r"Native Method|Unknown Source|<|.{1,400}\.\w{1,10}\Z")
"""Files in traces before version 3 of the grouping: obfuscated code has others."""
_JVM_CAUSE = re.compile(r"\n[ \t]{0,8}(?:Caused by|Suppressed): ")
_JVM_PLATFORM = re.compile(
    r"^(?:java|javax|jdk|sun|com\.sun|com\.oracle|oracle|jakarta|kotlin|kotlinx|scala|groovy|org\.jetbrains)\."
)
_ANDROID = re.compile(r"^(?:android|androidx|dalvik|libcore|com\.android|com\.google\.android|clojure)\.")
_COMMON = re.compile(r"^[ \t]{1,8}\.\.\. ([0-9]{1,4}) (?:more|common frames omitted)\r?$", re.MULTILINE)
"""Stands for the last calls of a cause, which are those of what it is the cause of."""
_MOST_CAUSES = 10


def find_jvm(stack: str) -> Trace:
    """Read the reported exception, and its causes inside of it."""
    reported, *causes = _JVM_CAUSE.split(stack[:MAX_READ], maxsplit=_MOST_CAUSES)
    trace = _read(reported)
    if not trace.calls:
        return trace
    chain = [trace]
    for part in causes[:_MOST_CAUSES]:
        if (cause := _read(part)).type:
            chain.append(_completed(cause, part, chain[-1]))
    held = chain[-1]
    for outer in chain[-2::-1]:
        held = outer._replace(inside=[held])
    return held


def _completed(cause: Trace, part: str, outer: Trace) -> Trace:
    """A cause with the calls that its text leaves to the exception around it."""
    common = _COMMON.search(part)
    count = 0 if common is None else int(common[1])
    if not 0 < count <= len(outer.calls):
        return cause
    return cause._replace(calls=[*cause.calls, *outer.calls[-count:]][:MAX_FOUND])


def find_jvm_before(stack: str) -> Trace:
    """Read the reported exception as it was read before version 3 of the grouping (G-198)."""
    text = _JVM_CAUSE.split(stack[:MAX_READ], maxsplit=1)[0]
    matches = [match for match in _JVM_CALL.finditer(text) if _NAMED_FILE.match(match[2])] if "at " in text else []
    if not matches:
        return Trace()
    calls = [_jvm_call(match)._replace(in_app=_JVM_PLATFORM.match(match[1]) is None) for match in matches[:MAX_FOUND]]
    return Trace(calls, *told_of(text[: matches[0].start()]))


def _read(text: str) -> Trace:
    matches = list(_JVM_CALL.finditer(text)) if "at " in text else []
    if not matches:
        return Trace([], *told_of(text.partition("\n")[0]))
    newer = any(_NAMED_FILE.match(match[2]) is None or _ANDROID.match(match[1]) for match in matches)
    calls = [_jvm_call(match) for match in matches[:MAX_FOUND]]
    return Trace(calls, *told_of(text[: matches[0].start()]), newer=newer)


def _jvm_call(match: re.Match[str]) -> TracedCall:
    name, file, line = match.groups()
    module, _, function = name.rpartition(".")
    own = _JVM_PLATFORM.match(name) is None and _ANDROID.match(name) is None
    return TracedCall(file, function, number(line), module=module or None, in_app=own)


# Stack traces of .NET, which prints causes first, inside of the exception that was reported.

_DOTNET_CALL = re.compile(
    r"^[ \t]{1,8}at ([^\s()]{1,400}?)(?:\[[^\]\n]{1,200}\])?"
    r"\([^\n]{0,600}?\)(?: in ([^\n]{1,500}):line (\d{1,9}))?\r?$",
    re.MULTILINE,
)
_DOTNET_CAUSE = "--- End of inner exception stack trace ---"
_INNER = " ---> "
_DOTNET_PLATFORM = re.compile(
    r"^(?:System|Microsoft|Mono|MS|Interop|Internal|FSharp|Newtonsoft|Npgsql|Serilog|Grpc|Sentry|OpenTelemetry)\."
)
_CODE = re.compile(r"[\w.+`]{1,300} \((0x[0-9A-Fa-f]{8}|-?[0-9]{1,10})\)(?::|\Z)")
"""A code of the operating system, or of COM, behind a type."""
# What the compiler makes of an asynchronous method, an iterator, a lambda or a local function.
_STATES = re.compile(r"^(.{1,400})\.<(\w{1,200})>d(?:__\d{1,9})?\.MoveNext$")
_INSIDE = re.compile(
    r"^(.{1,400}?)(?:\.<>c[\w<>]{0,100})?\.<([\w.]{0,200})>(?:b__[\w|]{0,50}|g__(\w{1,200})\|[\w|]{1,50})$"
)


def find_dotnet(stack: str) -> Trace:
    """Read the reported exception, not its causes."""
    text = stack[:MAX_READ]
    begin = text.rfind(_DOTNET_CAUSE) + len(_DOTNET_CAUSE) if _DOTNET_CAUSE in text else 0
    matches = list(_DOTNET_CALL.finditer(text, begin)) if " at " in text else []
    if not matches:
        return Trace()
    first = matches[0] if begin == 0 else _DOTNET_CALL.search(text)
    assert first is not None
    heads = text[: first.start()].split(_INNER)
    trace = _told(heads[0], [_dotnet_call(match) for match in matches[:MAX_FOUND]])
    if begin == 0 or len(heads) == 1:
        return trace
    held = [
        _dotnet_call(match) for match in islice(_DOTNET_CALL.finditer(text, 0, text.find(_DOTNET_CAUSE)), MAX_FOUND)
    ]
    return trace._replace(inside=[_told(heads[-1], held)])


def _told(head: str, calls: list[TracedCall]) -> Trace:
    """The exception before its calls, with the code behind its type."""
    coded = _CODE.match(head.strip().removeprefix("Unhandled exception. "))
    return Trace(calls, *told_of(head), code=coded and coded[1])


def _dotnet_call(match: re.Match[str]) -> TracedCall:
    name, file, line = match.groups()
    module, function = _jvm_named(name)
    return TracedCall(file, function, number(line), module=module or None, in_app=_DOTNET_PLATFORM.match(name) is None)


def _jvm_named(name: str) -> tuple[str, str]:
    """The type and the method, as they are in the source."""
    states = _STATES.match(name)
    if states is not None:
        return states[1], states[2]
    inside = _INSIDE.match(name)
    if inside is not None:
        return inside[1], inside[3] or inside[2]
    module, _, function = name.rpartition(".")
    return module.removesuffix("."), function


# Stack traces of Go: of a goroutine, as a panic and `debug.Stack` print it, and of errors with `%+v`.

_GO_CALL = re.compile(
    r"^(created by )?([^\s(]{1,300}(?:\(\*?[^\s()]{1,200}\)\.[^\s(]{1,200}){0,3})(?:\([^\n]{0,600}\))?"
    r"(?: in goroutine \d{1,12})?\n"
    r"[ \t]{1,8}([^\n]{1,500}):(\d{1,9})(?: \+0x[0-9a-f]{1,16})?(?:\n|\Z)",
    re.MULTILINE,
)
_GO_PANIC = re.compile(r"^(panic|fatal error): ", re.MULTILINE)
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


def find_go(stack: str) -> Trace:
    """Read the first goroutine, which panicked, or the calls of the error that an error wraps."""
    text = stack[:MAX_READ]
    if ".go:" not in text and ".s:" not in text:
        return Trace()
    opened = _GOROUTINE.search(text)
    begin = 0 if opened is None else opened.end()
    calls: list[TracedCall] = []
    end = -1
    for match in _GO_CALL.finditer(text, begin):
        if (calls and match.start() != end) or match[1]:
            break  # Another goroutine, the calls of an outer error, or what began this one.
        begin = begin if calls else match.start()
        end = match.end()
        calls.append(_go_call(match))
    calls = calls[_raising(calls) :]
    return Trace(calls[:MAX_FOUND], *_go_head(text, begin if opened is None else opened.start()))


def _raising(calls: list[TracedCall]) -> int:
    """How many calls only deal with the panic: those of deferred functions, down to `panic` itself."""
    for index in range(len(calls) - 1, -1, -1):
        if calls[index].function == "panic" and calls[index].module in {None, "runtime"}:
            return index + 1
    return int(bool(calls) and calls[0].function == "Stack" and calls[0].module == "runtime/debug")


def _go_head(text: str, end: int) -> Reported:
    """The reason of a panic, or the message of an error, before its calls."""
    told = text[:end]
    panic = _GO_PANIC.search(told)
    if panic is None:
        return Reported(None, told.strip() or None)
    reason = _RAISED.split(told[panic.end() :], maxsplit=1)[0].strip()
    return Reported(panic[1], reason or None)


def _go_call(match: re.Match[str]) -> TracedCall:
    _, name, file, line = match.groups()
    module, function = _go_named(name)
    return TracedCall(file, function, int(line), module=module, in_app=_is_own(module, file))


def _go_named(name: str) -> tuple[str | None, str]:
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


# Stack traces of Rust: of a panic, and of an error with its backtrace.

_RUST_CALL = re.compile(
    r"^ {0,8}\d{1,4}: +(?:0x[0-9a-f]{1,16} - )?([^\n]{1,400})"
    r"(?:\n[ \t]+at ([^\n]{1,500}?):(\d{1,9})(?::(\d{1,9}))?$)?",
    re.MULTILINE,
)
_BACKTRACE = re.compile(r"^(?:stack backtrace|Stack backtrace|Backtrace):$", re.MULTILINE)
_RUST_PANIC = re.compile(r"^(?:thread '[^'\n]{0,200}'(?: \(\d{1,12}\))? )?panicked at ", re.MULTILINE)
_QUOTED = re.compile(r"'(.*)', [^\n]{1,500}:\d{1,9}:\d{1,9}", re.DOTALL)
_PLACE = re.compile(r"[^\n]{1,500}:\d{1,9}:\d{1,9}:\n")
_HASH = re.compile(r"::h[0-9a-f]{16}$")
_RUST_PLATFORM = re.compile(
    r"^(?:<*(?:&|dyn |mut )*(?:std|core|alloc|backtrace|test)::"
    r"|rust_begin_unwind|__|_start|_main$|clone3?$|start_thread)"
)
_OF_LIBRARY = re.compile(r"(?:^|/)rustc/|[/\\]\.cargo[/\\](?:registry|git)[/\\]|[/\\]rustlib[/\\]")


def find_rust(stack: str) -> Trace:
    """Read the calls behind the word backtrace, and the panic or the error before it."""
    text = stack[:MAX_READ]
    begun = _BACKTRACE.search(text)
    if begun is None and ".rs:" not in text:
        return Trace()
    begin = 0 if begun is None else begun.end()
    matches = list(_RUST_CALL.finditer(text, begin))
    if begun is None:  # What only looks like calls, such as a list of causes, has no places.
        matches = matches if any(match[2] for match in matches) else []
    if not matches:
        return Trace()
    return Trace([_rust_call(match) for match in matches[:MAX_FOUND]], *_rust_head(text[: matches[0].start()], begun))


def _rust_head(told: str, begun: re.Match[str] | None) -> Reported:
    plain = told if begun is None else told[: begun.start()]
    panic = _RUST_PANIC.search(plain)
    if panic is None:
        return Reported(None, plain.partition("\n\nCaused by:")[0].strip().removeprefix("Error: ") or None)
    reason = plain[panic.end() :].strip()
    quoted = _QUOTED.fullmatch(reason)
    return Reported("panic", (quoted[1] if quoted else _PLACE.sub("", reason, count=1)) or None)


def _rust_call(match: re.Match[str]) -> TracedCall:
    name, file, line, column = match.groups()
    function = _HASH.sub("", name.strip())
    own = _RUST_PLATFORM.match(function) is None and (file is None or _OF_LIBRARY.search(file) is None)
    return TracedCall(
        file, function, number(line), number(column), in_app=own and (file is not None or "::" in function)
    )


# Stack traces of C and C++: of Boost and the standard library, of debuggers and of sanitizers.

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
_NATIVE_PLATFORM = re.compile(
    r"^(?:[\w:*& ]{0,100} )?"
    r"(?:std::|boost::|__gnu_cxx::|__cxa|__libc|__GI_|__pthread|__asan|__interceptor_|_start$|abort$|raise$|0x)"
)
_OF_SYSTEM = re.compile(
    r"^(?:/usr/|/lib/|/lib64/|\.\./sysdeps/|\.\./nptl/|/build/glibc|\./(?:nptl|stdlib|csu|sysdeps)/)"
)


def find_native(stack: str) -> Trace:
    """Read the calls. Nothing before them is known to be the exception."""
    text = stack[:MAX_READ]
    calls = [_listed(match) for match in _LIBRARY.finditer(text)] if "# " in text else []
    if not calls and "#0" in text:
        calls = [_debugged(match) for match in _DEBUGGER.finditer(text)]
    return Trace(calls[:MAX_FOUND])


def _listed(match: re.Match[str]) -> TracedCall:
    name, file, line, binary = match.groups()
    return _native_call(name, file or None, line if file else None, None, binary)


def _debugged(match: re.Match[str]) -> TracedCall:
    name, file, line, library, path, row, column, binary = match.groups()
    return _native_call(name, file or path, line or row, column, library or binary)


def _native_call(name: str, file: str | None, line: str | None, column: str | None, binary: str | None) -> TracedCall:
    own = _NATIVE_PLATFORM.match(name) is None and _OF_SYSTEM.match(file or binary or "") is None
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
