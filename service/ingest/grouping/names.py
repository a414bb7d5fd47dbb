"""How files and functions are called in a grouping: the base name of a file, and the bare name of a function.

SDKs disagree on paths and on qualified names. These two every one of them can tell. Pure functions.
"""

from __future__ import annotations

import re
from functools import lru_cache

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
