"""The deciding frames in version 3 of the grouping: the innermost ones of the product's own (G-198). Pure functions.

A frame counts by its function and the owner of that. The file stands in for the owner where traces of a language do
not tell it alike. A function without a name counts by its line of source, and a minified one by its place in the file.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from service.ingest.grouping.first import base_name, is_library
from service.ingest.grouping.symbols import is_generated, read_symbol

# Raising functions, helpers and those of platforms: none says where a bug is, own code or not (G-198). Pure.

RAISING = frozenset(
    {
        # of operating systems and C
        *("abort", "raise", "gsignal", "pthread_kill", "pthread_kill_implementation", "pthread_kill_internal", "kill"),
        *("terminate", "exit", "sigtramp", "os_crash", "fortify_fail", "stack_chk_fail", "chk_fail", "libc_fatal"),
        *("gi_raise", "gi_abort", "libc_message", "abort_message", "demangling_terminate_handler", "libc_init"),
        *(
            "malloc_vreport",
            "malloc_report",
            "malloc_zone_error",
            "malloc_error_break",
            "szone_error",
            "malloc_printerr",
        ),
        *("kernelbase.raiseexception", "raiseexception", "rtlraiseexception", "kiuserexceptiondispatcher"),
        *("cxxthrowexception", "cxa_throw", "cxa_rethrow", "unwind_resume", "unwind_raiseexception"),
        *("invalid_parameter", "invoke_watson", "purecall", "throw_out_of_range_fmt", "throw_logic_error"),
        *("c_specific_handler", "rtlpexecutehandlerforexception", "rtldispatchexception", "default_terminate_handler"),
        *("handleabortsignal", "handlefault", "isingeneratedcode", "gpusgeneratecrashlog", "gpuskillclient"),
        *("gpuskillclientext", "handle_signal", "signalhandler", "crashhandler", "unhandledexceptionfilter"),
        # of Objective-C and Swift
        *("objc_exception_throw", "objc_exception_rethrow", "objc_terminate", "exceptionpreprocess"),
        *("raise:format:", "raise:format:arguments:", "handlefailureinmethod:object:file:linenumber:description:"),
        *("fatalerror", "assertionfailure", "swift_runtime_on_report", "preconditionfailure", "swift_willthrow"),
        *("swift_unexpectederror", "swift_errorinmain", "doesnotrecognizeselector:"),
        # of Rust and WebAssembly
        *("rust_panic", "rust_begin_unwind", "begin_panic", "begin_panic_handler", "begin_panic_fmt", "panic_fmt"),
        *("panic_display", "panic_bounds_check", "unwrap_failed", "expect_failed", "rust_panic_with_hook"),
        *("rust_start_panic", "rust_end_short_backtrace", "panic_nounwind", "panic_cannot_unwind", "panic_const"),
        *("wbindgen_throw", "wbindgen_rethrow", "panic_hook", "console_error_panic_hook", "rust_oom", "unreachable"),
        # of Go
        *("panic", "gopanic", "sigpanic", "panicmem", "goexit", "panicindex", "panicdivide"),
        *("gopanicindex", "panicwrap", "panicdottypee", "panicdottypei", "throw", "fatalthrow", "fatalpanic", "must"),
        # of .NET, the JVM and others
        *("trigger_error", "throwhelper", "rethrow", "throwforfailedstatus", "error_handler", "stop", "croak"),
        *("confess", "die", "carp", "error", "assert", "assert_fail", "assert_rtn", "assertion_failure", "assertfail"),
        *("invariant", "tinyinvariant", "precondition", "check", "require", "requirenonnull", "checknotnull", "ensure"),
        *("checkargument", "checkstate", "checkelementindex", "asserttrue", "assertthat", "assertnotnull", "notnull"),
        *("throwuninitializedpropertyaccessexception", "throwparameterisnullexception", "throwexception"),
        *("throwjavanpe", "throwonfailure", "throwerror", "throwif", "throwifnull", "throwifnullorempty", "raiseerror"),
        *("fail", "failed", "unimplemented", "unexpected", "nullthrows", "warning", "errorwithout_trace", "errorcalls"),
        *(
            "reporterror",
            "captureexception",
            "capturemessage",
            "captureerror",
            "handleerror",
            "logerror",
            "notifyerror",
        ),
        *("fatal", "fatalf", "panicf", "bail", "orthrow", "elsethrow", "getorthrow", "checkthrow", "raise_error"),
        # of the header of an image, by which debuggers call what has no symbol
        *("mz", "mh_execute_header", "mh_dylib_header"),
        *("newerror", "makeerror", "createerror", "builderror", "wraperror", "asserttype", "assertis", "assert_true"),
    }
)
"""Bare names in lower case, without the underscores around them."""

_MEMORY = re.compile(
    r"_{0,4}(?:platform_|wrap_|interceptor_)?(?:mem(?:p?cpy|move|set|cmp|r?chr|ccpy)|bcopy|bzero|strn?(?:len|cmp|casecmp|cpy|cat|dup)"
    r"|strl(?:cpy|cat)|strr?chr|strstr|wcslen|wmemcpy)(?:_chk|_(?:s|sse|ssse|avx|evex|neon|aarch64|generic|erms|unaligned)\w{0,40}"
    r"|\$variant\$\w{1,40})?\Z"
)
"""Functions of C for memory and texts. They fail for each caller that hands them a wrong place."""
_GLUE = re.compile(
    r"__wbg_|__wbindgen_|imports\.wbg|invoke_[vijfd]{1,20}\Z|dynCall_|asyncify_|__cxxabiv1|"
    r"(?:std|core)::(?:panicking|rt|sys_common|backtrace|option|result|cell)\b|"
    r"_ZN(?:3std|4core)(?:9panicking|2rt|10sys_common|9backtrace|6option|6result|4cell)"
)
_PLATFORM = re.compile(
    r"(?:runtime|System|Swift|java|javax|jdk|kotlin|kotlinx|scala|groovy|clojure|sun|android|androidx|dalvik)(?:\.|\Z)|"
    r"com\.android\."
)
_OF_COMPILED = re.compile(r"<?(?:std|core|alloc|__gnu_cxx|boost)::|_ZNK?S?(?:t|3std|4core|5alloc)")


def only_raises(name: str, symbol: str) -> bool:
    """Whether a function, by its bare name and its whole symbol, only raises, or fails for everybody."""
    return name.strip("_").lower() in RAISING or _GLUE.match(symbol) is not None or _MEMORY.match(name) is not None


def is_of_platform(owner: str, symbol: str) -> bool:
    """Whether a function is of a language's own libraries, whatever an SDK says of its frame."""
    return _PLATFORM.match(owner) is not None or _OF_COMPILED.match(symbol) is not None


OWN_FRAMES = 3
"""Own frames, at most."""
OTHER_FRAMES = 2
"""Frames of libraries in the place of own ones."""
MOST_PLACES = 10
"""Frames of WebAssembly without names, at most."""
MOST_LOOKED_AT = 100
MAX_LINE = 200
"""Characters of a line of source, at most."""
MAX_KNOWN = 500
"""Characters of the texts of a remembered frame."""
KNOWN = 4096

_SCRIPT = re.compile(r"\.(?:[cm]?[jt]sx?|vue|svelte|bundle|jsbundle|hbc|html?)\Z")
_ALIKE = re.compile(
    r"\.(?:[cm]?[jt]sx?|vue|svelte|bundle|jsbundle|hbc|html?|py[xwc]?|rb|erb|rake|lua|r)\Z", re.IGNORECASE
)
"""Files of languages with traces that may lack the owner of a function."""
_BUNDLE = re.compile(r"\.(?:min|bundle|chunk)\.|\.(?:bundle|jsbundle|hbc)\Z|[.-][0-9a-f]{8,}\.")
_CONTENT_HASH = re.compile(
    r"[.-](?=[A-Za-z_]{0,40}[0-9])[0-9A-Za-z_]{8,64}(?=(?:\.(?:chunk|min|bundle|esm|module|legacy|prod)){0,3}\.(?:[cm]?js|css|wasm)\Z)"
)
_WASM_FUNCTION = re.compile(r":wasm-function\[[0-9]{1,9}\].{0,40}\Z")
_NO_LINE = "?"
_UNNAMED = ":wasm-function"
_WASM_NAMELESS = re.compile(r"wasm-function\[|\$?func[0-9]|<")
_CHUNK_NUMBER = re.compile(r"^[0-9]{1,9}(?=[.-])")
_PATHS = ("abs_path", "filename", "file")
_NO_FILES = frozenset(
    {"", "SourceFile", "Unknown Source", "Native Method", "<unknown>", "unknown", "<Unknown>", "ProGuard"}
)
_R8_BUILD = "r8-map-id-"
"""Begins the hash of a build in the place of a file."""
_SAYS_NOTHING = frozenset(
    {
        *("value", "next", "apply", "call", "_next", "step", "fn", "cb", "anonymous", "tryCatch", "invoke", "bind"),
        *("render", "constructor", "componentDidMount", "componentDidUpdate", "componentWillUnmount", "default"),
        *("init", "update", "start", "emit", "then", "handle", "forEach", "reduce", "filter", "onClick", "onPress"),
    }
)
"""Names of many functions of a minified file."""
_NAMED_SO = "anonymous"
"""A name like any other but in bundles, where Hermes writes it for none."""
_ENTRIES = frozenset({"<module>", "main", "Main", "<Main>$", "_main", "wmain", "main chunk", "runApp", "<main>"})
"""Where programs begin: every error of one leads there."""
_SHORT = 3
_OBFUSCATED = 2
"""Characters of the longest minified name."""
_FAR = 200
"""Lines with columns beyond this are taken to be minified."""


class LedBack(NamedTuple):
    """A frame as its source map leads it back, at its place in the list. `library`: the map says it is none of own."""

    source: str
    function: str | None
    text: str
    library: bool


class Deciding(NamedTuple):
    """The deciding frames, the latest call first. `minified`: some count by their place in the file alone."""

    keys: tuple[str, ...] = ()
    minified: bool = False


NOTHING_DECIDES = Deciding()


class _Named(NamedTuple):
    """A frame by its names; `key` is empty where there is no function."""

    key: str
    file: str
    library: bool
    passed: bool
    script: bool
    short: bool
    entry: bool
    obfuscated: str
    unnamed: str


def deciding_frames(
    frames: Sequence[Any], see: Callable[[str], str], places: Mapping[int, LedBack], most: int = OWN_FRAMES
) -> Deciding:
    """The deciding frames of an error: own ones, else those of libraries. None of them only raises."""
    own = _chosen(frames, see, places, most, own=True)
    return own if own.keys else _chosen(frames, see, places, OTHER_FRAMES, own=False)


def has_own(frames: Sequence[Any]) -> bool:
    """Whether some frame is of the product's own code."""
    own = (frame for frame in frames[:MOST_LOOKED_AT] if isinstance(frame, dict) and frame.get("in_app") is True)
    return any(not _named(frame).library for frame in own)


def _chosen(
    frames: Sequence[Any], see: Callable[[str], str], places: Mapping[int, LedBack], most: int, *, own: bool
) -> Deciding:
    """The innermost deciding frames. Those of an entry, such as `main`, do where nothing is inside of them."""
    keys: list[str] = []
    lines: list[str] = []
    unnamed = 0
    minified = False
    for index, frame in enumerate(frames[:MOST_LOOKED_AT]):
        if not isinstance(frame, dict) or (own and frame.get("in_app") is not True):
            continue
        place = places.get(index)
        key, line = "", ""
        if place is None:
            named = _named(frame)
            if named.passed or (own and (named.library or (named.entry and keys))):
                continue
            is_place = _is_minified(frame, named)
            key, line = _key_of(frame, named, by_place=is_place)
            minified = minified or (is_place and not (keys and line))
        elif not (own and place.library):
            key, line = _mapped(place)
        is_unnamed = line.startswith(_UNNAMED)
        if not key or (keys and not is_unnamed and (line or keys[-1] == key)):
            continue  # A call of itself, however deep, or one without a name around another.
        keys.append(key)
        lines.append(line)
        unnamed += is_unnamed
        if len(keys) - unnamed == most or len(keys) == MOST_PLACES:
            break
    # Panics of WebAssembly without names go through the same innermost functions.
    if 0 < unnamed < len(keys):
        held = [(key, line) for key, line in zip(keys, lines, strict=True) if not line.startswith(_UNNAMED)]
        keys, lines = [key for key, _ in held], [line for _, line in held]
    if len(keys) > 1 and lines[0] and keys[1].startswith(keys[0]) and not lines[1]:
        keys, lines = keys[1:], lines[1:]  # It is inside of what has a name.
    if all(lines):  # Nothing has a name: the line is all there is.
        keys = [f"{key}{line}" for key, line in zip(keys, lines, strict=True)]
    return Deciding(tuple(keys) if see is str else tuple([see(key) for key in keys]), minified)


def _key_of(frame: Mapping[str, Any], named: _Named, *, by_place: bool) -> tuple[str, str]:
    """The key of a frame, empty for none; and its line where it has no name."""
    if by_place:
        place = _place_of(frame)
        return (f"{named.file}{place}", "") if named.key else (named.file, place)
    if named.obfuscated:
        return f"{named.obfuscated}:{_number(frame, 'lineno', 'line')}", ""
    if named.unnamed:
        return named.file, named.unnamed
    if named.key or not named.file:
        return named.key, ""
    return f"{named.file}|", _line_of(frame) or _number(frame, "lineno", "line") or _NO_LINE


def file_name(path: str) -> str:
    """The base name of a file without additions of a build: the hash of its content, the number of a chunk."""
    base = _CONTENT_HASH.sub("", _WASM_FUNCTION.sub("", base_name(path)))
    return "" if base in _NO_FILES or base.startswith(_R8_BUILD) else _CHUNK_NUMBER.sub("#", base)


def _mapped(place: LedBack) -> tuple[str, str]:
    """The key of a frame by its source map, and its line where it has no name.

    A line survives the changes around it, its number does not.
    """
    name = read_symbol(place.function or "").name
    return f"{base_name(place.source)}|{name}", "" if name else place.text[:MAX_LINE]


def _is_minified(frame: Mapping[str, Any], named: _Named) -> bool:
    """Whether the name of a frame's function is minified."""
    if not named.script or not named.short:
        return False
    column = _number(frame, "colno", "column")
    return column != "" and (int(column) > _FAR or _BUNDLE.search(_path(frame)) is not None)


def _place_of(frame: Mapping[str, Any]) -> str:
    return f":{_number(frame, 'lineno', 'line')}:{_number(frame, 'colno', 'column')}"


def _line_of(frame: Mapping[str, Any]) -> str:
    line = frame.get("context_line")
    return " ".join(line[:MAX_LINE].split()) if isinstance(line, str) else ""


def _number(frame: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = frame.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def _path(frame: Mapping[str, Any]) -> str:
    for name in _PATHS:
        value = frame.get(name)
        if value and isinstance(value, str):
            return value
    return ""


def _named(frame: Mapping[str, Any]) -> _Named:
    told = frame.get("symbol") or frame.get("function")
    symbol = told if isinstance(told, str) else ""
    told, path = frame.get("module"), _path(frame)
    module = told if isinstance(told, str) else ""
    told = frame.get("file")
    file = told if told and isinstance(told, str) else path
    read = _known if len(symbol) + len(path) + len(module) + len(file) <= MAX_KNOWN else _read
    return read(symbol, module, file, path)


def _read(symbol: str, module: str, file: str, path: str) -> _Named:
    base = "" if path.startswith("wasm:") else file_name(file)
    owner, name = read_symbol(symbol, module)
    script = _SCRIPT.search(base) is not None or (path.startswith(("http://", "https://")) and ".wasm" not in path)
    if symbol == _NAMED_SO and script and _BUNDLE.search(base) is None:
        name = symbol
    passed = only_raises(name, symbol) or is_generated(module, symbol) or base == "[native code]"
    alike = script or _ALIKE.search(base) is not None
    library = is_library(path) or (not alike and is_of_platform(owner, symbol))
    obfuscated = unnamed = ""
    if (found := _WASM_FUNCTION.search(path)) is not None and (not name or _WASM_NAMELESS.match(symbol)):
        name, unnamed = "", found[0]
    if not base and owner and len(name) <= _OBFUSCATED and len(owner.rpartition(".")[2]) <= _OBFUSCATED:
        obfuscated = f"{owner}.{name}"
    key = ""
    if name:
        key = f"{base or module}|{name}" if alike or not owner else f"{owner}.{name}"
    short = len(name) <= _SHORT or name in _SAYS_NOTHING
    is_entry = not _ENTRIES.isdisjoint((name, symbol))
    return _Named(key, base, library, passed, script, short, is_entry, obfuscated, unnamed)


_known = lru_cache(KNOWN)(_read)
