"""Raising functions, helpers and those of platforms: none says where a bug is, own code or not (G-198). Pure."""

from __future__ import annotations

import re

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
