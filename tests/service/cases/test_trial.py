"""The trial of a map dies in the place of the process that would have taken it apart (P25)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from service.cases.sourcemaps import trial
from service.cases.sourcemaps.resolving import ReadyMap
from service.cases.sourcemaps.trial import NotTried, verdict_of
from tests.support.mappings import Segment, document

BUNDLE = Path(__file__).parent / "bundle"
MAP, MINIFIED = (BUNDLE / "shop.min.js.map").read_bytes(), (BUNDLE / "shop.min.js").read_bytes()
ONE = document([[Segment(0, 0)]], ["a.js"])
NESTED = 20_000
RECURSIVE = ("(", "!", "a=>", "[", "typeof ", "{", "a.b(", "function f(){")


def map_of(**parts: Any) -> bytes:
    return json.dumps({"version": 3, "sources": ["a"], "names": [], "mappings": "AAAA"} | parts).encode()


@pytest.mark.parametrize("text", RECURSIVE)
def test_a_file_that_overflows_the_parser_is_too_complex(text: str):
    assert verdict_of(ONE, text.encode() * NESTED) == "map_too_complex"


def test_without_a_trial_such_a_file_ends_the_process():
    """What the trial is for: the parser itself gives no error that could be caught."""
    made = (
        "import sys; from service.cases.sourcemaps.resolving import ReadyMap\n"
        f"ReadyMap(sys.stdin.buffer.read(), b'(' * {NESTED})"
    )
    ended = subprocess.run([sys.executable, "-c", made], input=ONE, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGSEGV


def test_what_survives_half_the_stack_survives_the_whole():
    """The deepest file that a trial lets through is taken apart here, in a thread of a stack of twice the size."""
    low, high = 10, NESTED
    while high - low > low // 8:
        middle = (low + high) // 2
        low, high = (middle, high) if verdict_of(ONE, b"(" * middle) is None else (low, middle)
    assert low > 100
    made = (
        "import sys, threading; from service.cases.sourcemaps import trial, resolving\n"
        "threading.stack_size(trial.PARSER_STACK)\n"
        f"thread = threading.Thread(target=resolving.ReadyMap, args=(sys.stdin.buffer.read(), b'(' * {low}))\n"
        "thread.start(); thread.join()"
    )
    assert subprocess.run([sys.executable, "-c", made], input=ONE, check=False).returncode == 0


@pytest.mark.parametrize(
    ("source_map", "verdict"),
    [
        (MAP, None),
        (b")]}'\n" + MAP, None),
        (b"{nothing", "map_corrupt"),
        (b"\xff\xfe{}", "map_corrupt"),
        (b"[]", "map_corrupt"),
        (map_of(sources=5, names="x"), "map_corrupt"),
        (map_of(mappings="AA"), "map_corrupt"),
        (b'{"version":3,"sources":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "map_too_complex"),
        (map_of(sourceRoot="r" * 50_000, sources=["a"] * 15_000), "map_too_complex"),
        (map_of(sources=[""] * (trial.MOST_SOURCES + 1)), "map_too_complex"),
        (map_of(sources=[None] * (3 << 20)), "map_too_complex"),
        (map_of(names=["n"] * (trial.MOST_NAMES + 1)), "map_too_complex"),
    ],
)
def test_a_map_is_read_counted_and_weighed_before_it_is_made(source_map: bytes, verdict: str | None):
    assert verdict_of(source_map, MINIFIED) == verdict


def test_sections_count_together_however_deep_they_lie():
    half = {"version": 3, "sourceRoot": "r" * 20_000, "sources": ["a"] * 1000, "names": [], "mappings": "AAAA"}
    at = {"line": 0, "column": 0}
    one = {"version": 3, "sections": [{"offset": at, "map": half}]}
    assert verdict_of(json.dumps(one).encode(), b"") is None
    both = {"version": 3, "sections": [{"offset": at, "map": half}, {"offset": at, "map": one}]}
    assert verdict_of(json.dumps(both).encode(), b"") == "map_too_complex"


def test_what_needs_much_memory_ends_the_trial_alone():
    """Some thirty megabytes of statements take the parser more than half a gigabyte."""
    assert verdict_of(ONE, b"var a=1;\n" * 3_000_000) == "map_too_complex"


def test_what_says_nothing_of_a_map_is_no_verdict(monkeypatch: pytest.MonkeyPatch):
    """A trial that was killed, or that could not begin, or for which the machine had no time."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(NotTried, match="FileNotFoundError"):
        verdict_of(ONE, b"")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(NotTried, match="ended with 1"):
        verdict_of(ONE, b"")
    monkeypatch.undo()
    monkeypatch.setattr(trial, "PATIENCE", 0.001)
    with pytest.raises(NotTried, match="TimeoutExpired"):
        verdict_of(ONE, b"")


def test_a_trial_costs_little():
    """Beside it a request waits for much else; the bound is loose, for machines that are busy."""
    began = time.perf_counter()
    assert verdict_of(MAP, MINIFIED) is None
    assert ReadyMap(MAP, MINIFIED).weight > 0
    assert time.perf_counter() - began < 5
