"""Stack traces as text, taken apart: what OpenTelemetry sends of an exception (G-142, G-175). Pure.

Each language has a module with a function `find`. The first that finds calls has the trace. A line that is none of
its forms is passed over. Work is linear in the text, of which a bounded part is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from service.ingest.stacks import beam, dotnet, go, javascript, jvm, native, php, python, ruby, rust
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
    beam.find,
    rust.find,
    native.find,
)


def read_trace(stack: str) -> Trace:
    """Read a stack trace: the exception that was reported, not its causes. An unknown form has no calls."""
    return _known(stack) if len(stack) <= MAX_KNOWN else _read(stack)


def _read(stack: str) -> Trace:
    for find in _READERS:
        trace = find(stack)
        if trace.calls:
            return trace
    return Trace()


_known = lru_cache(512)(_read)
