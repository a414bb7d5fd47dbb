"""The trial of a source map: a program of its own takes it apart first, and may die of it (P25).

The parsers behind `symbolic` go down into each bracket, and a file of a few kilobytes can overflow their stack, which
ends the process. So whoever wants to take a map apart starts this program, by `exec` and with the same bytes on its
standard input, and looks at how it ended. It has half the stack and little memory and time, so what it survives its
parent survives. It reads and writes nothing else, and imports nothing of the service: it starts in a tenth of a second.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, Literal

PARSER_STACK = 16 * 1024 * 1024
"""Bytes of stack of the thread in which maps are taken apart; a trial has half of it."""
MOST_MEMORY = 512 * 1024 * 1024
MOST_SECONDS = 5
MOST_SOURCES = 100_000
MOST_NAMES = 1_000_000
MOST_SOURCE_TEXT = 32 * 1024 * 1024
"""Characters of the names of all sources, each with the root that the parser writes before it."""
PATIENCE = 2 * MOST_SECONDS
"""Seconds after which a trial is given up that the machine has no processor for: that says nothing of the map."""
GIVES_WAY = 10  # how nice it is: whoever sends maps that are hard to try takes the processors from nobody
HEAD = 8  # bytes that say how long the map is; the minified file is what follows it

SURVIVED, CORRUPT, TOO_COMPLEX = 0, 3, 4
"""How it ends, unless it dies."""
_DEATHS = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGXCPU})
_ENDS: dict[int, Literal["map_corrupt", "map_too_complex"] | None] = {
    SURVIVED: None,
    CORRUPT: "map_corrupt",
    TOO_COMPLEX: "map_too_complex",
    **{-death: "map_too_complex" for death in _DEATHS},
}


class NotTried(Exception):
    """No trial could be started, or it was ended from outside; the text says how."""


def verdict_of(source_map: bytes, minified: bytes) -> Literal["map_corrupt", "map_too_complex"] | None:
    """Why a map must not be taken apart here; None: nothing speaks against it. Waits for the trial.

    Raises NotTried, which says nothing of the map.
    """
    try:
        with tempfile.TemporaryFile() as sent:
            sent.write(len(source_map).to_bytes(HEAD, "big"))
            sent.write(source_map)
            sent.write(minified)
            sent.seek(0)
            done = subprocess.run(  # It sees no setting and no secret of ours.
                [sys.executable, "-I", __file__],
                check=False,
                stdin=sent,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE,
                env={},
                cwd="/",
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotTried(type(error).__name__) from error
    if done.returncode not in _ENDS:
        raise NotTried(f"ended with {done.returncode}")
    return _ENDS[done.returncode]


class _TooMuch(Exception):
    pass


def _parts(document: Any) -> Iterator[dict[str, Any]]:
    """A map and the maps of its sections, however deep these lie. Raises _TooMuch for too many sections."""
    left, seen = [document], 0
    while left:
        part = left.pop()
        if not isinstance(part, dict):
            continue
        yield part
        sections = part.get("sections")
        for section in sections if isinstance(sections, list) else ():
            seen += 1
            if seen > MOST_SOURCES:
                raise _TooMuch
            if isinstance(section, dict):
                left.append(section.get("map"))


def weigh(document: Any) -> None:
    """Count what a parser makes of a map before it does. Raises _TooMuch.

    The root stands in a map once, and is written before each of its sources.
    """
    sources = names = text = 0
    for part in _parts(document):
        root = part.get("sourceRoot")
        before = len(root) if isinstance(root, str) else 0
        listed = part.get("sources")
        for source in listed if isinstance(listed, list) else ():
            sources += 1
            text += before + (len(source) if isinstance(source, str) else 0)
        named = part.get("names")
        names += len(named) if isinstance(named, list) else 0
        if sources > MOST_SOURCES or names > MOST_NAMES or text > MOST_SOURCE_TEXT:
            raise _TooMuch


def _take_apart(source_map: bytes, minified: bytes) -> int:
    """What the parent is going to do, as far as it can be survived."""
    content = source_map.partition(b"\n")[2] if source_map.startswith(b")]}'") else source_map
    try:
        weigh(json.loads(content))
    except ValueError:
        return CORRUPT
    except (_TooMuch, MemoryError, RecursionError):
        return TOO_COMPLEX
    from symbolic.exceptions import SymbolicError  # noqa: PLC0415 (what is too much needs none of it)
    from symbolic.sourcemap import SourceMapView  # noqa: PLC0415
    from symbolic.sourcemapcache import SourceMapCache  # noqa: PLC0415

    try:
        SourceMapView.from_json_bytes(content)
        SourceMapCache.from_bytes(minified, content)
    except (SymbolicError, ValueError):
        return CORRUPT
    except MemoryError:
        return TOO_COMPLEX
    return SURVIVED


def main() -> int:
    """Try the map on standard input; returns how it ended."""
    os.nice(GIVES_WAY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    try:
        sent = sys.stdin.buffer
        size = int.from_bytes(sent.read(HEAD), "big")
        source_map, minified = sent.read(size), sent.read()
    except MemoryError:
        return TOO_COMPLEX
    ended = [TOO_COMPLEX]

    def try_it() -> None:
        ended[0] = _take_apart(source_map, minified)

    threading.stack_size(PARSER_STACK // 2)
    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return ended[0]


if __name__ == "__main__":
    sys.exit(main())
