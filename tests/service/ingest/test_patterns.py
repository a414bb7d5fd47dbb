"""Every regular expression that telemetry reaches takes linear time, or bounded text: none holds up a process (P25)."""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import service.cases
import service.ingest
from service import multipart
from service.http.body import adjusting
from service.http.body import gate as body_gate
from service.http.cases.intake import otlp_form as otlp
from service.http.cases.intake import several
from service.http.declare import forms
from service.ingest import scrubbing
from service.ingest.foreign import common
from service.ingest.foreign.common import ForeignError, ForeignEvent, Frame
from service.ingest.grouping import first, symbols
from service.ingest.scrubbing import EVERYTHING
from service.ingest.stacks import reading
from service.ingest.stacks.trace import MAX_READ
from statemachines.kernel import telling
from statemachines.kernel import telling as secret_forms
from statemachines.kernel.telling import SecretForm
from tests.support import long_after

LARGEST = 1024 * 1024
"""Characters of the longest text of a record, however it came."""
CROSSED = 64 * 1024
SECONDS = 4
"""A linear search of the largest text takes some 50 ms, a quadratic one minutes."""

ROOMS = (service.ingest, service.cases)
KERNEL = (secret_forms, telling)
EDGE = (adjusting, body_gate, forms, multipart, otlp, several)


class Worst(NamedTuple):
    """What is repeated to make the worst texts for a pattern, the most that it is given, and how it is asked."""

    units: tuple[str, ...]
    most: int = LARGEST
    ask: str = "finditer"


WORST: Mapping[str, Worst] = {
    "FORMS.basic": Worst(("basic ", "basic", "basic aaaaaa")),
    "FORMS.bearer": Worst(("bearer ", "bearer", "bearer" + " " * 9, "bearer aaaaaaaa=")),
    "FORMS.card_number": Worst(("4", "4000-", "4000 ", "3000 000000 ", "4" * 20 + "a")),
    "FORMS.chat_key": Worst(("xoxb-", "/webhooks/1", "hooks.slack.com/services/TAAAAAA/BAAAAAA/", "1:AA", "/bot1")),
    "FORMS.cloud_key": Worst(("AKIA", "sk-proj-", "AccountKey=", "ya29.", "sk-" + "a" * 39 + "_")),
    "FORMS.code_host_key": Worst(("ghp_", "github_pat_", "glpat-", "npm_aaaa")),
    "FORMS.jwt": Worst(("eyJ", "eyJ" + "a" * 13, "eyJaaaaaaaaaaaaa.", "eyJ.", "eyJaaaaaaaaaaaaa.aaaa.")),
    "FORMS.payment_key": Worst(("sk_live_", "whsec_", "sq0csp-", "whsec_" + "a" * 23 + " ")),
    "FORMS.private_key": Worst(
        ("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-", "-----BEGIN A")
    ),
    "FORMS.url_credentials": Worst(("://", "://a", ":", "://[scrubbed")),
    "adjusting._ODD_CHARACTERS": Worst(("a", "\x00")),
    "adjusting._STRINGS_AND_BRACKETS": Worst(('"', '"\\', "\\", '["')),
    "reading._APPLE_ADDRESS": Worst(("0x", "0x0", "0"), 400, ask="match"),
    "reading._APPLE_CALL": Worst(
        ("\n0 a", "\n0 a ", "\n0 a  0x0 ", "\n0  a 0x0 a + 1", "\n0 a 0x0 a (", " \t", "\n0" + " " * 99), MAX_READ
    ),
    "reading._APPLE_IMAGE": Worst(
        ("\n0x0 - 0x0 ", "\n0x0 - 0x0 a", "\n0x0 - 0x0 a <" + "0" * 32 + "> /", "<", "\n 0x0"), MAX_READ
    ),
    "reading._APPLE_LIBRARY": Worst(("lib", "libGL", "com.", "dyld"), 100, ask="match"),
    "reading._APPLE_PATH": Worst(("/", "/a", "/System", "/Xcode", "/usr/lib"), 400, ask="match"),
    "fingerprint._DEFAULT": Worst(("{{ ", "{{ default "), ask="fullmatch"),
    "fingerprint._VARIABLE": Worst(("{{ ", "{{", "{{ a", "{{ a }", "a."), 200),
    "reading._DART_CALL": Worst(("\n#0 a", "\n#0  a (", "\n#0 a (package:", "\n#0 a (dart:a:1", "#1 ", " ("), MAX_READ),
    "reading._DART_CHAINED": Worst(
        ("\npackage:a", "\npackage:a 1", "\ndart:a 1:1  ", "\ndart:a 1  a", "dart:"), MAX_READ
    ),
    "reading._DART_OF_LIBRARY": Worst(("package:flutter_", "package:sentry_a", "dart"), 400, ask="match"),
    "frames._ALIKE": Worst((".", ".py", ".j", ".html"), 500, ask="search"),
    "frames._BUNDLE": Worst((".min", ".00000000", "-0000000", ".", "-a", ".bundle"), ask="search"),
    "frames._CHUNK_NUMBER": Worst(("1", "1.", "-"), 500),
    "frames._CONTENT_HASH": Worst((".", "-", ".a", "-aaaaaaaa", "-0aaaaaaa", "0", ".chunk", "-0aaaaaaa.min"), 500),
    "frames._SCRIPT": Worst((".", ".js", ".htm", ".t"), 500, ask="search"),
    "frames._WASM_NAMELESS": Worst(("wasm-function", "$", "func"), 500, ask="match"),
    "frames._WASM_FUNCTION": Worst((":wasm-function[", ":wasm-function[1]", ":"), 500),
    "reading._CLOJURE": Worst(("[", "[a", "[a a", '[a a "', '[a a "a" 1', "a "), MAX_READ),
    "reading._CLOJURE_LIBRARY": Worst(("clojure", "java."), 300, ask="match"),
    "reading._HASKELL": Worst(
        ("\n  a", "\n  a, called at ", "\n  a, called at a:1:1 in ", "\n  a, called at a:", "  "), MAX_READ
    ),
    "reading._HASKELL_LIBRARY": Worst(("libraries", ".stack/"), 300, ask="match"),
    "reading._HASKELL_UNIT": Worst(("base", "ghc-", "ghc-a.", "-"), 200, ask="match"),
    "reading._OCAML": Worst(
        ("\nCalled from ", "\nRaised at a", '\nCalled from file "', '\nRaised at a in file "a", line 1', "\n"), MAX_READ
    ),
    "reading._OCAML_LIBRARY": Worst(("Stdlib", "Base__"), 300, ask="match"),
    "reading._PROFILED": Worst(("\n  a", "\n  a (", "\n  a (a:1", "\n  a (a:(1,1", "  ", "a."), MAX_READ),
    "compiled._ANDROID": Worst(("android", "com.google."), 300, ask="match"),
    "compiled._NAMED_FILE": Worst((".", "a", ".a", "Native"), 200, ask="match"),
    "outcomes._NUMBER": Worst(("1", "1.", "1.1"), 64, ask="fullmatch"),
    "first._NUMBERED": Worst(("1", "1a"), 100, ask="match"),
    "first._PLACEHOLDER": Worst(("%", "%(", "%(a", "%1$", "%-+#0 ", "%*.*", "{", "{a", "{a:", "${", "$", "%0"), 8192),
    "first._SAYS": Worst(("1", "a1", "_"), 8192, ask="search"),
    "frames._GLUE": Worst(("invoke_v", "__wbg", "_ZN3std", "std::"), 500, ask="match"),
    "frames._MEMORY": Worst(("mem", "_", "platform_", "memcpy_avx", "memcpy_s", "strcpy$variant$"), 500, ask="match"),
    "frames._OF_COMPILED": Worst(("<", "std:", "_ZNK"), 500, ask="match"),
    "frames._PLATFORM": Worst(("java", "com.", "System"), 500, ask="match"),
    "people._PLACEHOLDER": Worst(("{{", "{{ ", "*", "* ", "<null", "[filtered"), ask="fullmatch"),
    "scripted._RULE": Worst(("  +-", "  ", "  +-+----", "  +---- 1 -", " +---- 1 ----"), MAX_READ, ask="match"),
    "scripted._LUA": Worst(
        ("\n a", "\n a:1: in ", "\n a:1: in '", "\n a:1: in <", "\n [C]: in ?", "\n a:1: in 'a' (", " \t"), MAX_READ
    ),
    "scripted._PERL": Worst(
        ("\n a", "\n a(", "\n a() called at ", "\n a called at a line ", "\n require ", "\n a(" + ")" * 99, " \t"),
        MAX_READ,
    ),
    "scripted._PERL_HEAD": Worst(
        (" at ", " at a line ", " at a line 1, <", " at a line 1\n", "at "), MAX_READ, ask="search"
    ),
    "scripted._PERL_OF_LIBRARY": Worst(("/perl", "/", "/perl5"), 300, ask="search"),
    "scripted._POWERSHELL": Worst(("\nat ", "\nat a", "\nat a, ", "\nat a, a: line ", "\n" + " " * 9), MAX_READ),
    "scripted._R": Worst(("\n1: a", "\n1: a(", "\n1: a( at ", "\n1: `", "\n1: a(  at a#", "  at "), MAX_READ),
    "symbols._ALIAS": Worst((" [as ", " [as a", "["), 500),
    "symbols._ANONYMOUS": Worst(("(anonymous", "`anonymous namespace'"), 500),
    "symbols._ARITY": Worst(("`", "`1"), 500),
    "symbols._BRACES": Worst(("{", "{{", "{a", "}", "{}"), 500),
    "symbols._CLONE": Worst((" [clone ", " [clone a]", ".cold", ".cold.1", "."), 500),
    "symbols._CLOSURE": Worst(("func", "1", "gowrap"), 500, ask="fullmatch"),
    "symbols._CLOSURE_OF": Worst(("{closure:", "{closure:a", "{closure:a():1", ":1"), 500),
    "symbols._DISPLAY": Worst(("+<>c", ".<>c", "+", "<>"), 500),
    "symbols._GENERATED": Worst(("$Proxy", "_jvst", "Generated", "$"), 500),
    "symbols._GROOVY": Worst(("_", "_a_closure", "_closure1"), 500, ask="fullmatch"),
    "symbols._DOM": Worst(("HTML", "Socket"), 500, ask="match"),
    "symbols._EFFECTS": Worst((" async", " throws", " "), 500),
    "symbols._ERLANG": Worst(("-", "-a/1-fun-", '"-a', "-a/1"), 500),
    "symbols._KINDS": Worst(("async ", "new get ", "set", " "), 500),
    "symbols._LENGTHS": Worst(("1", "1a", "a"), 500, ask="match"),
    "symbols._NAMELESS": Worst(("1", "func", "<", "<c", "<>c", "lambda", "<T>"), 500, ask="fullmatch"),
    "symbols._OBJECTIVE_C": Worst(("-[", "+[a", "-[a(", "-[a ", "-"), 500),
    "symbols._OCAML": Worst(("_", "_1", "1"), 500),
    "symbols._OPERATOR": Worst(("operator", "operator<", "operator[]"), 500),
    "symbols._PHP_CLASS": Worst(("@anonymous", "@", "@anonymous:1"), 500),
    "symbols._PHP_CLOSURE": Worst(("a\\", "\\", "a", "a\\{closure"), 500),
    "symbols._PLAIN": Worst(("a", "1", "a."), 500, ask="match"),
    "symbols._RUST_HASH": Worst(("::h", "::h0000000000000000"), 500),
    "symbols._SEPARATOR": Worst((":", "::", "->", "."), 500),
    "symbols._FUNCTION_OBJECT": Worst(("std::", "std::__a::", "boost::function", "const "), 500, ask="match"),
    "symbols._EXPRESSION": Worst(("lambda_method", "lambda_method1", "DynamicClass."), 500, ask="match"),
    "symbols._TEMPLATE": Worst(("_", "_erb", "_erb_1", "_erb__1_1", "1"), 500, ask="search"),
    "symbols._VALUE_CLASS": Worst(("-", "-a", "-aaaaaaa"), 500, ask="search"),
    "symbols._RUST_CRATE": Worst(("Cs", "Csa", "Csa_", "C"), 500),
    "symbols._STATES": Worst(("<", "<a", "<a>g__", "<a>b__|"), 500),
    "reading._UNITY_CALL": Worst(
        ("\na", "\na(", "\na:a (", "\na () (at ", "\na () [0x0] in ", "\na () (at a:1", "a ", " \t"), MAX_READ
    ),
    "reading._UNITY_PLATFORM": Worst(("Unity", "System", "DG."), 500, ask="match"),
    "reading._ARITY": Worst(("/1", "/"), 400),
    "reading._CALL": Worst(("\n (a", "\n a.ex", "\n (a 1) a.ex:1: ", "\n :a", "\n " + "a." * 200), MAX_READ),
    "reading._HEAD": Worst(("\n** (", "\n** (a"), MAX_READ),
    "reading._PLATFORM": Worst(("a", "elixir"), 100, ask="match"),
    "reading._TEXT": Worst(('"', '"\\', "\\"), 400),
    "bundles._DEBUG_ID": Worst(("a", "a-", "0" * 8 + "-"), ask="fullmatch"),
    "first._ARGUMENTS": Worst(("a(", "(", ")", "a()", "a() const"), 500),
    "first._COMPILED": Worst((".cold", ".cold.1", ".", "."), 500),
    "first._CONTENT_HASH": Worst((".", "-", ".a", "-aaaaaaaa", "-0aaaaaaa", "a", "0")),
    "first._NAME_PREFIX": Worst(("async ", "new get ", "set", " ")),
    "first._NAME_SUFFIX": Worst((" [as ", " [as a", "[", " [as a] ")),
    "first._OF_LIBRARY": Worst(("/", "/lib", "/lib/python3", "lib/python3", "node:")),
    "first._TAIL": Worst(("?", "#", "a")),
    "first._CAUSE": Worst(("\n", "\nCaused by: ", "\n" + " " * 8), first.MAX_READ),
    "first._CHAINED": Worst(("\n", "\n\nThe above exception was the direct cause", "\n\n"), first.MAX_READ),
    "first._JAVA": Worst(("\n at a", "\n at a(", "\n at a/", " \t"), first.MAX_READ),
    "first._JAVASCRIPT": Worst(("\n at a", "\n at a (", ":1", "\n at " + ":1" * 400, "a:"), first.MAX_READ),
    "first._OF_JAVA": Worst(("java", "java."), 300),
    "first._PYTHON": Worst(('\n  File "', '\n  File "a", line 1, in ' + "a" * 290, '  File "'), first.MAX_READ),
    "event_cutter._PLAIN": Worst(("a", "1", "-", "\\"), ask="match"),
    "event_cutter._REST": Worst(("a", "\\", '\\\\"', "\\u0041", "\\\n"), ask="match"),
    "event_cutter._SPACE": Worst((" ", "\n", "\t\r"), ask="match"),
    "event_cutter._TOKENS": Worst(('"', '"\\', '\\"', '"a', "[", "]", '"\\\\" ')),
    "telling._EMAIL": Worst(("@", "a@", "a@a.", "a@" + "a." * 9, "a@" + "a" * 64, "a@a.a-")),
    "telling._OWN_SECRET": Worst(("service_", "service_sk_", "service_sk_a")),
    "telling._PHONE": Worst(("+", "+1", "+1 ", "+1 1", "+11111111 ", "+1" + "1" * 15)),
    "telling._WORD": Worst(("a", "A", "Aa", "1", "_"), 160),
    "first._DATE_IN_WORDS": Worst(("mon, ", "1 jan", "jan 1 ", "1 january ", "jan 1 10:00:00.1"), 8192),
    "first._EMAIL": Worst(("a", "a@", "a@a.", ".", "a.a@"), 8192),
    "first._IPV6": Worst((":", "0:", "a:", "0", "a"), 8192),
    "first._QUOTED": Worst(("“", "‘", "„", "«", "‹", "「", "『", "“„"), 8192),
    "first._URL": Worst(("a", "a://", "a://a", "a://a/", "://", "a+"), 8192),
    "first._VARIABLE": Worst(('"', "'", "`", "0", "0x", "a", "1.", "aaaaaaaa-", "'a", " 'a"), 8192),
    "first._VARIABLE_2": Worst(
        ('"', "'", "`", "0", "0x", "a", "1.", "aaaaaaaa-", "'a", " 'a", "+", "+1", "1e", "1e+1", "0000-", " 0a"), 8192
    ),
    "compiled._DOTNET_CALL": Worst(
        ("\n at a", "\n at a(", "\n at a[", "\n at a() in ", "\n at a(" + "a) in " * 99), MAX_READ
    ),
    "compiled._CODE": Worst(("a", "a (", "a (0x", "a (1", "a (1)"), MAX_READ, ask="match"),
    "compiled._INSIDE": Worst((".<", ".<>c", ".<a>", ".<>c.<a>b__"), 500, ask="match"),
    "compiled._DOTNET_PLATFORM": Worst(("System.", "MS"), 500, ask="match"),
    "compiled._STATES": Worst((".<", ".<a>d", ".<a>d__1"), 500, ask="match"),
    "forms.ARRAY": Worst((" ", "\n"), ask="match"),
    "telling.MAY_BE_CARD": Worst(("4", "4000 ", "3000-000000", "2")),
    "telling._ISSUERS": Worst(("4", "6011"), ask="fullmatch"),
    "forms._JSON": Worst(("application/", "a+", "application/a+"), 8192, ask="fullmatch"),
    "errors._TYPE": Worst(("a.", "a::", "*&", "a\\"), ask="match"),
    "errors._IN_VALUE": Worst(
        ("[Errno ", "[WinError 1", "Error Domain=", "Error Domain=a Code=1", "SQLSTATE["), ask="match"
    ),
    "frames._DEBUG_ID": Worst(("a", "a-"), ask="fullmatch"),
    "gate._INTEGER": Worst(("9", "-", "9.", "9" * 15 + "e", "-9")),
    "gate._NUL": Worst(("\\", "\\\\u000", "\\u0000")),
    "compiled._GO_CALL": Worst(("a\n\t/a", "a(", "a(*a).", "a()\n\t:1", "created by a in goroutine 1\n\t"), MAX_READ),
    "compiled._GENERIC": Worst(("[", "[a", "[]"), 1000),
    "compiled._GOROUTINE": Worst(("goroutine 1", "\ngoroutine 1 [", "goroutine 1:\n"), MAX_READ),
    "compiled._OF_MODULES": Worst(("/pkg/mod", "vendor", "@v"), 500, ask="search"),
    "compiled._GO_PANIC": Worst(("panic", "\npanic:", "fatal error"), MAX_READ),
    "compiled._RAISED": Worst((" [recovered", "\n\tpanic:", "\n[signal"), MAX_READ),
    "compiled._STANDARD": Worst(("net", "net/"), 300, ask="match"),
    "scripted._HELD": Worst(("\n ", "\n  [cause]:", "\n" + " " * 9), MAX_READ),
    "scripted._GECKO": Worst(("@", "\na@", "\n@/", "\n@a:1:", "\n@/" + ":1" * 200, "async*"), MAX_READ),
    "scripted._V8": Worst(("\n at a", "\n at a (", ":1", "\n at " + ":1" * 400, "a:"), MAX_READ),
    "compiled._JVM_CALL": Worst(
        ("\n at a", "\n at a(", "\n at a/", " \t", "\n at a(a.a:1) [", "\n at " + "a/" * 99), MAX_READ
    ),
    "compiled._JVM_CAUSE": Worst(("\n ", "\n\tCaused by:", "\n" + " " * 9), MAX_READ),
    "compiled._COMMON": Worst(("\n ", "\n\t... ", "\n\t... 1", "\n\t... 1 more", "\n" + " " * 9), MAX_READ),
    "compiled._JVM_PLATFORM": Worst(("java", "java.", "com.sun"), 300, ask="match"),
    "scrubbing._ADDRESS": Worst(("://", "://a", ":", "://@")),
    "scrubbing._ESCAPED_ASCII": Worst(("\\", "\\u00", "\\u")),
    "compiled._CLONE": Worst((" [clone ", " [clone a]", "["), 400),
    "compiled._DEBUGGER": Worst(
        ("\n#0 a", "\n#0  0x0 in ", " at a", "\n#0 " + " /a:1" * 80, "\n#0 " + " (/a" * 90), MAX_READ
    ),
    "compiled._LIBRARY": Worst(("\n 0# a", "\n0# a at ", "\n0# " + " at a:1" * 50, "\n0# " + " in a" * 80), MAX_READ),
    "compiled._OF_SYSTEM": Worst(("/usr", "./"), 500, ask="match"),
    "compiled._NATIVE_PLATFORM": Worst(("a ", "a:", "std:", "* "), 400, ask="match"),
    "otlp_form.OTLP_JSON": Worst((" ", "{ "), ask="match"),
    "scripted._AS_JAVA": Worst(("\nat a", "\n at a(", "\n at a(a:1", "\t"), MAX_READ),
    "scripted._PHP_CALL_BEFORE": Worst(("\n#0 a(1): a", "\n#0 a(1", "\n#0 a" + "(1): " * 99, "\n#0 {main}"), MAX_READ),
    "scripted._PHP_CALL": Worst(
        (
            "\n#0 ",
            "\n#0 a(1",
            "\n#0 a(1): ",
            "\n#0 " + "(1" * 200,
            "\n#0 a(1): {closure:",
            "\n#0 " + "(1): {closure:}" * 60,
            "\n#0 [internal function]: ",
        ),
        MAX_READ,
    ),
    "scripted._CAUSE": Worst(("\n ", "\n\tCaused by:"), MAX_READ),
    "scripted._PHP_HEAD": Worst(
        ("\n", "\na", " in a", " in a:1", "PHP Fatal error: ", "\n a in a:1\n"), MAX_READ, ask="search"
    ),
    "bounds._RUN_OF_DIGITS": Worst(("0", "0 ", "0" + " " * 12, "-", "0a")),
    "scripted._PYTHON_CALL": Worst(('\n  File "', '\n  File "a", line 1, in ' + "a" * 290, '  File "'), MAX_READ),
    "scripted._CAUSED": Worst(("\n", "\n\nThe above exception was the direct cause", "\n\n"), MAX_READ),
    "scripted._GROUP": Worst(("\n  | ", "\n  ", "  + "), MAX_READ),
    "scripted._PYTHON_HEAD": Worst(("\na", "\na: ", "a.", "\n" + "a." * 200), MAX_READ),
    "scripted._SIZE": Worst((" (1", " (1 sub-exceptions", " (1 sub-exceptions)"), MAX_READ, ask="search"),
    "groups._NUL": Worst(("\\", "\\u0000", "\\\\u000")),
    "resolving._DRIVE": Worst(("a", "a:")),
    "resolving._SCHEME": Worst(("a", "a:", "a://"), ask="match"),
    "scripted._RUBY_CALL": Worst(
        ("\na:1:in '", "\n from a", "\n 1: from a:1", "\na:1:in 'a#", "\n<internal:", "a:"), MAX_READ
    ),
    "scripted._RUBY_NEXT": Worst(("\n", "\na:1", "\n 1: from", "\n " + "a:1:in" * 80), MAX_READ),
    "scripted._OF_LIBRARY": Worst(("/gems", "/ruby/", "/lib"), 600, ask="search"),
    "scripted._TYPE": Worst((" (A", " (A)", " (A:"), MAX_READ, ask="search"),
    "runners._EMAIL": Worst(("@", "a@", "a", "a.", "a@a.", "a@" + "a" * 63, "a@" + "a." * 9, "a@a.a-")),
    "compiled._BACKTRACE": Worst(("\nstack backtrace", "stack backtrace:\n"), MAX_READ),
    "compiled._RUST_CALL": Worst(
        ("\n 0: a", "\n0: a\n at ", "\n0: a\n at " + ":1" * 200, "\n0: 0x0 - ", "0: \n\t"), MAX_READ
    ),
    "compiled._HASH": Worst(("::h", "::h0000000000000000"), 400),
    "compiled._OF_LIBRARY": Worst(("rustc", "/.cargo/", "/rustlib"), 500, ask="search"),
    "compiled._RUST_PANIC": Worst(("\nthread '", "\nthread 'a' (", "panicked at"), MAX_READ),
    "compiled._PLACE": Worst(("a:1", ":1:1", "a:1:1:\n"), MAX_READ, ask="match"),
    "compiled._RUST_PLATFORM": Worst(("<", "&", "<dyn mut "), 400, ask="match"),
    "compiled._QUOTED": Worst(("'", "', a:1", "', a:1:1"), MAX_READ, ask="fullmatch"),
    "security._ADDRESS": Worst(("a", "a:", "a://", "a://a/", "a:/", "a+.-"), ask="fullmatch"),
    "security._DIRECTIVE": Worst(("a", "a-", "-"), ask="fullmatch"),
    "security._END": Worst(("/", "?", "#", "a"), ask="search"),
    "security._HOST": Worst(("a", ".", ":", "<"), ask="fullmatch"),
    "security._PORT": Worst(("1", "1/", "a"), ask="match"),
    "security._QUERY": Worst(("?", "#", "a"), ask="search"),
    "sentry_event._EVENT_ID": Worst(("0",), ask="fullmatch"),
    "several._LINE": Worst(("a", "\n", " ")),
    "several._TOKENS": Worst(('"', "\\", '"\\', "[")),
    "common._LONE": Worst(("\\", "\\u", "\\ud83c", "\\ud83c\\udf89", "\\ud8", "a")),
    "trace._TOLD": Worst(("a", 'Exception in thread "', "a [", "a: ", "Uncaught ", "a ("), MAX_READ, ask="fullmatch"),
}


def _modules() -> Iterator[ModuleType]:
    yield from KERNEL
    for room in ROOMS:
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not found.name.endswith(".trial"):  # a program, for a process of its own
                yield importlib.import_module(found.name)
    yield from EDGE


def _patterns() -> dict[str, re.Pattern[Any]]:
    """Every pattern of those modules by the module that made it, those of forms by their kinds."""
    found: dict[re.Pattern[Any], str] = {}
    for module in _modules():
        for name, value in vars(module).items():
            for held in value if isinstance(value, tuple) else (value,):
                if isinstance(held, re.Pattern):
                    found.setdefault(held, f"{module.__name__.rpartition('.')[2]}.{name}")
                elif isinstance(held, SecretForm):
                    found[held.pattern] = f"FORMS.{held.kind}"
                elif isinstance(held, forms.Form) and held.begins is not None:
                    found.setdefault(held.begins, f"{module.__name__.rpartition('.')[2]}.{name}")
    return {name: pattern for pattern, name in found.items()}


PATTERNS = _patterns()


@contextmanager
def in_time() -> Iterator[None]:
    """Give up on a search that does not end; the engine looks for signals while it searches."""

    def give_up(*_: object) -> None:
        pytest.fail("this takes more than linear time", pytrace=False)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def search(pattern: re.Pattern[Any], text: str, ask: str) -> None:
    given = text.encode() if isinstance(pattern.pattern, bytes) else text
    if ask == "finditer":
        for _ in pattern.finditer(given):
            pass
    else:
        getattr(pattern, ask)(given)


def test_each_pattern_has_its_worst_texts() -> None:
    """A new pattern needs an entry above: somebody has to think of what its worst text is."""
    assert sorted(PATTERNS) == sorted(WORST)


@pytest.mark.parametrize("name", sorted(WORST))
def test_a_pattern_is_linear_in_its_worst_texts(name: str) -> None:
    worst = WORST[name]
    for unit in worst.units:
        with in_time():
            search(PATTERNS[name], (unit * worst.most)[: worst.most], worst.ask)


@pytest.mark.parametrize("name", long_after(9, sorted(name for name, worst in WORST.items() if worst.most > CROSSED)))
def test_a_pattern_is_linear_in_the_worst_texts_of_the_others(name: str) -> None:
    for unit in sorted({unit for worst in WORST.values() for unit in worst.units}):
        with in_time():
            search(PATTERNS[name], (unit * CROSSED)[:CROSSED], WORST[name].ask)


UNITS = (
    " [as ",
    "a.",
    "/",
    "\\",
    "a/",
    "async ",
    "?",
    "-0aaaaaaa",
    "\n at a (",
    '"',
    "'",
    "eyJaaaaaaaaaaaaa.",
    "4000 ",
)


@pytest.mark.parametrize(
    "read",
    [
        lambda text: common.to_log(
            ForeignEvent("error", text, [ForeignError(text, text, [Frame(text, text, text, text, context_line=text)])])
        ),
        reading.read_trace,
        reading.read_before,
        lambda text: symbols.read_symbol(text, text),
        lambda text: first.filled(text[:8192], [text] * 9),
        lambda text: first.template_1(text[:8192]),
        lambda text: first.template_2(text[:8192]),
        lambda text: scrubbing.Scrubber().tree({text[:1000]: text}, EVERYTHING, scrubbing.Findings()),
    ],
    ids=["to_log", "read_trace", "read_before", "read_symbol", "filled", "template_1", "template_2", "scrub"],
)
def test_what_reads_them_is_linear_too(read: Callable[[str], object]) -> None:
    for unit in UNITS:
        with in_time():
            read((unit * LARGEST)[:LARGEST])
