"""Stack traces as text, taken apart: what OpenTelemetry sends of an exception (G-142, G-175). Pure.

Each language has a module with a function `find`. The first that finds calls has the trace. A line that is none of
its forms is passed over. Work is linear in the text, of which a bounded part is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from service.ingest.stacks import (
    apps,
    dotnet,
    functional,
    go,
    javascript,
    jvm,
    native,
    php,
    python,
    ruby,
    rust,
    scripts,
)
from service.ingest.stacks.trace import Trace

MAX_KNOWN = 4096
"""Characters of the longest stack trace that is remembered once it is read: errors repeat themselves."""

_READERS: Sequence[Callable[[str], Trace]] = (
    python.find,
    javascript.find,
    php.find,  # before what its SDK imitates
    jvm.find,
    dotnet.find,
    go.find,
    ruby.find,
    functional.find,
    rust.find,
    native.find,
)
_NEWER: Sequence[Callable[[str], Trace]] = (
    apps.find_unity,
    apps.find_dart,
    apps.find_apple,
    functional.find_clojure,
    functional.find_haskell,
    functional.find_ocaml,
    scripts.find_lua,
    scripts.find_perl,
    scripts.find_powershell,
    scripts.find_r,
)
"""Readers since version 3 of the grouping (G-198)."""
_BEFORE: Mapping[Callable[[str], Trace], Callable[[str], Trace]] = {
    javascript.find: javascript.find_before,
    jvm.find: jvm.find_before,
    php.find: php.find_before,
}


def read_trace(stack: str) -> Trace:
    """Read a stack trace: the exception that was reported, not its causes. An unknown form has no calls."""
    return _known(stack) if len(stack) <= MAX_KNOWN else _read(stack)


def read_before(stack: str) -> Trace:
    """Read a stack trace as before version 3 of the grouping (G-198)."""
    return _first([_BEFORE.get(find, find) for find in _READERS], stack)


def _read(stack: str) -> Trace:
    found = _first(_READERS, stack)
    return found if found.calls else _first(_NEWER, stack)._replace(newer=True)


def _first(readers: Sequence[Callable[[str], Trace]], stack: str) -> Trace:
    for find in readers:
        trace = find(stack)
        if trace.calls:
            return trace
    return Trace()


_known = lru_cache(512)(_read)
