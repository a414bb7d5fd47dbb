"""Version 1 and 2 of the grouping: the first frame of a text, templates and names (G-031, G-174). Pure.

Version 1 read Python, JavaScript and Java alone. Its cases keep the errors that it put into them. So for its
fingerprint a trace is read as it was then, however much more is read of it now. Work is linear in the bounded part that
is read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

# Templates of logged messages: with their parameters filled in, and their words (G-198). Pure functions. Languages
# write a placeholder as `%s`, `%(name)s`, `%1$s`, `{}`, `{0}`, `{name:format}` or `${name}`.

MAX_TEMPLATE = 8192
MOST_PLACEHOLDERS = 100
MAX_PARAMETER = 500
"""Characters of a parameter, at most."""
LEFT_OPEN = "…"
"""Stands for a placeholder without its parameter."""

_PLACEHOLDER = re.compile(
    r"%(?:\((?P<named>[^()%\s]{1,100})\)|(?P<at>[0-9]{1,3})\$)?[-+#0 ]{0,4}[0-9*]{0,4}(?:\.[0-9*]{1,4})?"
    r"(?:hh?|ll?|[jztLq])?[@a-zA-Z]|%%|"
    r"\{\{(?P<doubled>[^{}]{0,100})\}\}|\$?\{(?P<braced>[\w.@$-]{0,100})(?:[,:!][^{}]{0,50})?\}"
)
_SAYS = re.compile(r"[^\W\d_]{2}")
_NUMBERED = re.compile(r"[0-9]{1,3}\Z")

Parameters = Sequence[Any] | Mapping[str, Any]


_TEMPLATES = ("{OriginalFormat}", "message_template.text", "message.template", "log.template")
"""Attributes of OpenTelemetry with the template of a message."""


def template_of(extra: Mapping[str, Any]) -> str:
    """The template of a logged message, as the doors of SDKs store it. Empty for none, and for one without words."""
    logged, attributes = extra.get("logentry"), extra.get("attributes")
    found = logged.get("message") if isinstance(logged, dict) else attribute_of(attributes)
    return found if isinstance(found, str) and says_something(found) else ""


def attribute_of(attributes: Any) -> str | None:
    """The template among the attributes of a log record."""
    if not isinstance(attributes, Mapping):
        return None
    found = (attributes.get(name) for name in _TEMPLATES)
    return next((text for text in found if isinstance(text, str) and text), None)


def says_something(template: str) -> bool:
    """Whether a template has words beside its placeholders: `%s` alone is none."""
    return _SAYS.search(_PLACEHOLDER.sub("", template[:MAX_TEMPLATE])) is not None


def filled(template: str, parameters: Parameters | None) -> str:
    """A template with its parameters in their places. A placeholder without one is left open."""
    if "%" not in template and "{" not in template:
        return template
    text = template[:MAX_TEMPLATE]
    given = parameters if parameters is not None else ()
    listed = list(given.values()) if isinstance(given, Mapping) else list(given)
    named = given if isinstance(given, Mapping) else listed[0] if listed and isinstance(listed[0], dict) else {}
    place = 0

    def fill(found: re.Match[str]) -> str:
        nonlocal place
        if found[0] == "%%":
            return "%"
        if found["doubled"] is not None and found["doubled"].strip() not in named:
            return f"{{{found['doubled']}}}"  # Two brackets stand for one.
        name = found["named"] or found["braced"] or (found["doubled"] or "").strip()
        if name in named or name.lstrip("@$") in named:
            return shown(named[name] if name in named else named[name.lstrip("@$")])
        at = int(found["at"]) - 1 if found["at"] else int(name) if _NUMBERED.match(name) else None
        if at is None:
            at, place = place, place + 1
        return shown(listed[at]) if 0 <= at < len(listed) else LEFT_OPEN

    return _PLACEHOLDER.sub(fill, text, count=MOST_PLACEHOLDERS)


def shown(value: Any) -> str:
    """A value as a text: a number or an object as JSON writes it."""
    if isinstance(value, str):
        return value[:MAX_PARAMETER]
    return msgspec.json.encode(value).decode()[:MAX_PARAMETER]


# What the repetitions of a message share: its template, in each version of the grouping. Pure functions. A template is
# lowercase, has `#` in the place of each variable part, and one space between words. A version never changes: a case
# keeps the errors of its fingerprint.

TEMPLATE_LENGTH = 500

# What varies between repetitions of a message: quoted text, UUIDs, runs of eight hexadecimal digits or more, numbers.
# An apostrophe ("can't") quotes nothing: a single quote opens only where no word ends. The first line lets the engine
# pass over most characters with one look, which makes the whole three times as fast.
_VARIABLE = re.compile(
    r"""(?=["'`0-9a-f])(?:
        [0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} | [0-9a-f]*)
        | 0x[0-9a-f]+
        | \d+(?:[.,]\d+)*
        | "[^"]*"
        | '(?<!\w')[^']*'(?!\w)
        | `[^`]*`
    )""",
    re.VERBOSE,
)

# The same, and what version 1 tears apart or leaves in: signs and exponents, short hashes, ISO dates. Numbers and
# hashes are told by their first character, which leaves the others fewer forms to try.
_VARIABLE_2 = re.compile(
    r"""(?=["'`0-9a-f+\-])(?:
        \d(?:
            [0-9a-f]{7}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
            | (?=\d*[a-f])[0-9a-f]{7,}
            | x[0-9a-f]+
            | (?<!\w\d)\d{3}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:z|[ ]?[+-]\d\d:?\d\d)?)?(?!\w)
            | (?<!\w\d)(?=\d{0,6}[a-f])[0-9a-f]{6}(?!\w)
            | \d*(?:[.,]\d+)*(?:e[+-]?\d+(?!\w))?
        )
        | [a-f][0-9a-f]{6}(?: [0-9a-f](?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} | [0-9a-f]*) | (?<!\w[0-9a-f]{7})(?!\w))
        | [+-](?<![\w.)\]].)\d+(?:[.,]\d+)*(?:e[+-]?\d+(?!\w))?
        | "[^"]*"
        | '(?<!\w')[^']*'(?!\w)
        | `[^`]*`
    )""",
    re.VERBOSE,
)
# A quote that only closes ("can’t") opens nothing.
_QUOTED = re.compile("“[^“”]*”|‘[^‘’]*’|„[^„“”]*[“”]|«[^«»]*»|‹[^‹›]*›|「[^「」]*」|『[^『』]*』")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_CLOCK = r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?(?:z|utc|gmt|[+-]\d\d:?\d\d))?"
_DATE_IN_WORDS = re.compile(
    rf"(?<!\w)(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}},? )?"
    rf"(?:\d\d?[ -]{_MONTH}[ -]\d{{4}}(?:,? {_CLOCK})?"
    rf"|{_MONTH} \d\d?(?:,? {_CLOCK})?,? \d{{4}}(?:,? {_CLOCK})?)(?!\w)"
)
_URL = re.compile(r"(?<![\w+.-])([a-z][a-z0-9+.-]{1,20}://[^\s/?#\"'<>()`]{1,253})[/?#][^\s\"'<>`]*")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_IPV6 = re.compile(r"(?<![\w:])(?=[a-f:]{0,36}\d)[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])")
_SHORTEST_IPV6 = 7  # colons of an address written out


def template_1(message: str) -> str:
    """The template of version 1 (G-031)."""
    return " ".join(_VARIABLE.sub("#", message.lower()).split())[:TEMPLATE_LENGTH]


def template_2(message: str) -> str:
    """The template of version 2 (G-174): of a URL its scheme and host stay, dates and addresses go as a whole.

    Each further pattern is tried on texts that can hold one: most hold none.
    """
    text = message.lower()
    if "://" in text:
        text = _URL.sub(r"\1/#", text)
    if "@" in text:
        text = _EMAIL.sub("#", text)
    if "20" in text or "19" in text:
        text = _DATE_IN_WORDS.sub("#", text)
    if "::" in text or text.count(":") >= _SHORTEST_IPV6:
        text = _IPV6.sub("#", text)
    if not text.isascii():
        text = _QUOTED.sub("#", text)
    return " ".join(_VARIABLE_2.sub("#", text).split())[:TEMPLATE_LENGTH]


# How files and functions are called in a grouping: the base name of a file, and the bare name of a function. SDKs
# disagree on paths and on qualified names. These two every one of them can tell. Pure functions.

MAX_TEXT = 500
"""Characters of a name."""
KNOWN = 2048
"""Names that are remembered."""

_OF_LIBRARY = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|node_modules|lib[/\\]python\d[^/\\]*|\.yarn|vendor)[/\\]"
    r"|^(?:node:|internal/|native$|<frozen |<__array_function__)"
)
_TAIL = re.compile(r"[?#].*", re.DOTALL)
# A bundler's mark of the content: letters and digits between two stops, of a script in its last extension.
_CONTENT_HASH = re.compile(r"[.-](?=[A-Za-z_]*[0-9])[0-9A-Za-z_]{8,}(?=\.(?:[cm]?js|css)$)")
_NAME_PREFIX = re.compile(r"^(?:async |new |get |set |static )+")
# A bracket within it is none of a name: without one it would be looked for from each of many beginnings (P25).
_NAME_SUFFIX = re.compile(r" \[as [^\[\]]*\]$")
# What a compiler adds to the part of a function that it moved, and the arguments that some symbols name.
_COMPILED = re.compile(r"(?:\.(?:cold|isra|part|constprop|lto_priv|llvm)(?:\.[0-9]{1,20})?)+$")
_ARGUMENTS = re.compile(r"(?<=[\w>])\([^()]*\)(?: const)?$")
_NAMELESS = frozenset({"", "?", "<anonymous>", "(anonymous)", "anonymous", "<unknown>"})


def is_library(path: str) -> bool:
    """Whether a file lies where libraries and runtimes do."""
    return _OF_LIBRARY.search(path) is not None


def base_name(path: str) -> str:
    """The base name of a path or URL, without query and without a bundler's content hash."""
    return _known_base(path) if len(path) <= MAX_TEXT else _base(path)


def bare_name(function: str) -> str:
    """A function without its class, its module, and the kind of its call. Empty for an anonymous one."""
    return _known_bare(function) if len(function) <= MAX_TEXT else _bare(function)


def bare_symbol(symbol: str) -> str:
    """The bare name of a function by its whole symbol, without arguments and a compiler's marks (G-174)."""
    return _known_symbol(symbol) if len(symbol) <= MAX_TEXT else _bare_symbol(symbol[:MAX_TEXT])


def _bare_symbol(symbol: str) -> str:
    return _bare(_ARGUMENTS.sub("", _COMPILED.sub("", symbol)))


def _base(path: str) -> str:
    bare = _TAIL.sub("", path)
    return _CONTENT_HASH.sub("", bare[max(bare.rfind("/"), bare.rfind("\\")) + 1 :])[:MAX_TEXT]


def _bare(function: str) -> str:
    name = _NAME_SUFFIX.sub("", _NAME_PREFIX.sub("", function.strip()))
    if name in _NAMELESS:
        return ""
    bare = name.rpartition(".")[2]
    return ("" if bare in _NAMELESS else bare)[:MAX_TEXT]


# Frames recur, as errors do.
_known_base, _known_bare, _known_symbol = (lru_cache(KNOWN)(read) for read in (_base, _bare, _bare_symbol))


# The frame that version 1 of the grouping takes from a stack trace as text (G-031, G-174). Pure.

MAX_READ = 64 * 1024
MAX_LOOKED_AT = 100  # frames
MAX_KNOWN = 4096
"""Characters of the longest trace whose frame is remembered: errors repeat themselves."""

_PYTHON = re.compile(r'^ {2,4}File "([^"\n]{1,500})", line \d{1,9}(?:, in ([^\n]{1,300}))?$', re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = re.compile(
    r"\n\n(?:The above exception was the direct cause|During handling of the above exception, another)[^\n]{0,80}\n{2}"
)
_JAVASCRIPT = re.compile(
    r"^[ \t]{1,8}at (?:([^\n()]{1,300}?) \()?((?:[a-z][a-z+.-]{0,20}:)?[^\n()]{1,500}?):\d{1,9}:\d{1,9}\)?$",
    re.MULTILINE,
)
_JAVA = re.compile(
    r"^[ \t]{1,8}at (?:[\w.@-]{1,100}/{1,2})?([\w.$<>]{1,300})\(([^():\n]{1,200})(?::\d{1,9})?\)$", re.MULTILINE
)
_OF_JAVA = re.compile(r"^(?:java|javax|jdk|sun|kotlin|scala|groovy)\.")
_CAUSE = re.compile(r"\n[ \t]{0,8}(?:Caused by: |\[cause\]: )")


def first_frame(stack: str) -> str | None:
    """Name the innermost own call of a trace as `file:function`, as version 1 does."""
    return _known(stack) if len(stack) <= MAX_KNOWN else _find(stack)


def _find(stack: str) -> str | None:
    is_python = _TRACEBACK in stack
    stack = stack[-MAX_READ:] if is_python else stack[:MAX_READ]
    if is_python or _PYTHON.search(stack):
        calls = list(_PYTHON.finditer(_CHAINED.split(stack)[-1]))
        return next((_named(*call.groups()) for call in calls[: -MAX_LOOKED_AT - 1 : -1] if _is_own(call[1])), None)
    until_cause = _CAUSE.split(stack, maxsplit=1)[0]
    if _JAVASCRIPT.search(until_cause):
        files = ((call[2].removeprefix("file://"), call[1]) for call in _first(_JAVASCRIPT, until_cause))
        return next((_named(file, function) for file, function in files if _is_own(file)), None)
    own = (call for call in _first(_JAVA, until_cause) if _OF_JAVA.match(call[1]) is None)
    return next((_named(call[2], call[1].rpartition(".")[2]) for call in own), None)


def _first(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    return islice(pattern.finditer(text), MAX_LOOKED_AT)


def _is_own(file: str) -> bool:
    return bool(file) and not is_library(file)


def _named(file: str, function: str | None) -> str:
    return f"{base_name(file)}:{bare_name(function or '')}"


_known = lru_cache(512)(_find)
