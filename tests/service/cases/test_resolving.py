"""Places looked up in source maps: of a real bundle, of any mappings, and of what is no map (R-CASE-04)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cases.sourcemaps import resolving
from service.cases.sourcemaps.resolving import Corrupt, ReadyMap, SourcePlace, TooComplex, inside
from tests.support import few_or_many
from tests.support.mappings import Segment, document, find

BUNDLE = Path(__file__).parent / "bundle"
MAP = (BUNDLE / "shop.min.js.map").read_bytes()
MINIFIED = (BUNDLE / "shop.min.js").read_bytes()


def spot(found: Any) -> tuple[Any, ...]:
    assert isinstance(found, SourcePlace), found
    return found.source, found.line, found.function, (found.text or "").strip()


def test_the_frames_of_a_bundle_lead_to_its_sources():
    ready = ReadyMap(MAP, MINIFIED)
    assert spot(ready.look_up(1, 73)) == (
        "src/money.ts", 6, "Purse.divided", 'throw new RangeError("nobody to share with");',
    )  # fmt: skip
    assert spot(ready.look_up(1, 166)) == ("src/shop.ts", 5, "share", "return purse.divided(guests.length);")
    assert spot(ready.look_up(1, 193)) == (
        "src/shop.ts", 8, "checkout", "export const checkout = (total: number): number => share(total, []);",
    )  # fmt: skip
    found = ready.look_up(1, 205)
    assert isinstance(found, SourcePlace)
    assert (found.line, found.column, found.before[-1], found.after[0]) == (
        11, 3, "try {", "} catch (error) {",
    )  # fmt: skip


def test_without_the_minified_file_only_the_functions_are_unknown():
    ready = ReadyMap(MAP, b"")
    assert spot(ready.look_up(1, 73)) == (
        "src/money.ts", 6, None, 'throw new RangeError("nobody to share with");',
    )  # fmt: skip


def test_places_that_a_file_does_not_have():
    ready = ReadyMap(MAP, MINIFIED)
    assert ready.look_up(1, len(MINIFIED.split(b"\n")[0]) + 2) == "column_out_of_range"
    assert ready.look_up(9, 1) == "line_out_of_range"
    bare = ReadyMap(document([[], [Segment(4, 0)], [Segment(3)]], ["a.js"]), b"")
    assert (bare.look_up(1, 1), bare.look_up(9, 1)) == ("line_out_of_range", "line_out_of_range")
    assert bare.look_up(2, 4) == "column_out_of_range"
    assert spot(bare.look_up(2, 5))[:2] == ("a.js", 1)
    assert bare.look_up(3, 4) == "not_mapped_code"
    assert (bare.first_column(2), bare.first_column(1)) == (5, 1)
    wide = ReadyMap(document([[Segment(0, 0), Segment(5, 0, 1)]], ["a.js"]), '"\U0001f600";x'.encode())
    assert (spot(wide.look_up(1, 6))[1], wide.look_up(1, 8)) == (2, "column_out_of_range")


segments = st.lists(
    st.builds(Segment, st.integers(0, 400), st.integers(0, 2) | st.none(), st.integers(0, 50), st.integers(0, 90)),
    max_size=12,
    unique_by=lambda one: one.column,
).map(sorted)


@few_or_many(30, 150)
@given(st.lists(segments, max_size=6), st.integers(0, 6), st.integers(0, 420))
def test_any_mappings_say_what_they_say(lines: list[list[Segment]], line: int, column: int):
    sources = ["a.js", "b.js", "c.js"]
    found = ReadyMap(document(lines, sources), b"").look_up(line + 1, column + 1)
    expected = find(lines, line, column)
    if expected is None:
        assert found in {"line_out_of_range", "column_out_of_range"}
    elif expected.source is None:
        assert found == "not_mapped_code"
    else:
        assert isinstance(found, SourcePlace)
        assert (found.source, found.line, found.column) == (
            sources[expected.source], expected.line + 1, expected.original_column + 1,
        )  # fmt: skip


CORRUPT = [
    b"", b"{", b"null", b"[]", b"7", b"\xff\xfe", b'{"version":3,"sources":"a","mappings":"AAAA"}',
    b'{"version":3,"sources":["a"],"names":[],"mappings":"!"}',
    b'{"version":3,"sources":["a"],"names":[],"mappings":"ACAA"}',
    b'{"version":3,"sources":["a"],"names":[],"mappings":"AADA"}',
    b'{"version":3,"sources":["a"],"names":[],"mappings":"AAAAC"}',
    b'{"version":3,"sources":["a"],"names":[],"mappings":"AA"}',
    b'{"version":3,"sources":["a"],"names":[],"mappings":"AAgggggggggggggggggggggA"}',
    b'{"version":3,"sections":[{"offset":{"line":0,"column":0}}]}',
    b'{"version":3,"sections":[{"offset":{"line":-1,"column":0},"map":{}}]}',
    b'{"version":3,"sources":[' + b"[" * 100_000,
    MAP[: len(MAP) // 2],
]  # fmt: skip


@pytest.mark.parametrize("content", CORRUPT, ids=range(len(CORRUPT)))
def test_what_is_no_map_is_told_so_or_knows_nothing(content: bytes):
    try:
        ready = ReadyMap(content, MINIFIED)
    except Corrupt:
        return
    assert not isinstance(ready.look_up(1, 1), SourcePlace)


def test_a_map_that_was_damaged_anywhere_breaks_nothing():
    chance = random.Random(4711)
    outcomes = set()
    for _ in range(400):
        damaged = bytearray(MAP)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(damaged))
            damaged[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        try:
            ready = ReadyMap(bytes(damaged), MINIFIED)
        except Corrupt:
            outcomes.add("corrupt")
            continue
        found = ready.look_up(1, chance.randint(1, 300))
        outcomes.add("place" if isinstance(found, SourcePlace) else found)
        if isinstance(found, SourcePlace):
            assert ".." not in found.source.split("/")
    assert {"corrupt", "place"} <= outcomes


def test_a_map_of_very_many_tokens_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resolving, "MOST_MARKS", 100)
    with pytest.raises(TooComplex):
        ReadyMap(json.dumps({"version": 3, "sources": ["a"], "names": [], "mappings": "AAAA," * 101}).encode(), b"")


def test_a_source_of_one_long_line_is_named_and_not_copied():
    long = document([[Segment(0, 0, 0, 3)]], ["a.js"], sourcesContent=["x" * 100_000])
    found = ReadyMap(long, b"").look_up(1, 1)
    assert isinstance(found, SourcePlace)
    assert (found.source, found.line, found.text) == ("a.js", 1, None)


def test_a_map_knows_what_it_weighs():
    small, large = ReadyMap(MAP, MINIFIED), ReadyMap(MAP + b" " * 1_000_000, MINIFIED)
    assert large.weight - small.weight >= 1_000_000


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("../src/component.js", "src/component.js"),
        ("../../../../etc/passwd", "etc/passwd"),
        ("/etc/passwd", "etc/passwd"),
        ("file:///etc/passwd", "etc/passwd"),
        ("C:\\shop\\..\\..\\a.js", "shop/a.js"),
        ("\\\\host\\share\\a.js", "host/share/a.js"),
        ("webpack:///./src/../../a.js", "webpack:///src/a.js"),
        ("webpack://shop/./src/a.ts?1", "webpack://shop/src/a.ts?1"),
        ("webpack://../../a.js", "webpack:a.js"),
        ("https://shop.example/../../a.js", "https://shop.example/a.js"),
        ("http://[bad/../a.js", "http://[bad/a.js"),
        ("a\x00\n.js", "a\ufffd\ufffd.js"),
        ("..", ""),
    ],
)
def test_no_name_of_a_source_leads_outside(source: str, name: str):
    assert inside(source) == name
    assert inside(name) == name


@given(st.text(alphabet="./\\ab:?C\x00", max_size=30))
def test_no_name_at_all_leads_outside(source: str):
    name = inside(source)
    assert ".." not in name.replace("\\", "/").split("/")
    assert not name.startswith(("/", "\\"))


TWO_SOURCES: dict[str, Any] = {
    "version": 3, "sources": ["src/cart.js", "lib/a.js"], "names": [], "mappings": "AAAA,oGCAA,oGDAA",
}  # fmt: skip
"""A map with columns 1 and 201 of its first source, and column 101 of its second."""


@pytest.mark.parametrize(
    ("more", "library"),
    [
        ({"ignoreList": [1]}, [False, True, False]),
        ({"x_google_ignoreList": [1]}, [False, True, False]),
        ({"ignoreList": [0], "x_google_ignoreList": [1]}, [True, True, True]),
        ({"ignoreList": [1], "sourceRoot": "webpack:///"}, [False, True, False]),
        ({"ignoreList": [1], "sourceRoot": "/app"}, [False, True, False]),
        ({"ignoreList": [1], "sourceRoot": "webpack://"}, [False, True, False]),
        ({"ignoreList": [1], "sources": [None, "lib/a.js"]}, [False, True, False]),
        ({"ignoreList": [0], "sources": ["../lib/./a.js", "src/cart.js"]}, [True, False, True]),
        ({"ignoreList": []}, [False, False, False]),
        ({"ignoreList": [7]}, [False, False, False]),
    ],
)
def test_a_map_lists_its_sources_of_third_parties(more: dict[str, Any], library: list[bool]) -> None:
    """Under either name, and below any root (G-198). A number of no source lists nothing."""
    told = {**TWO_SOURCES, **more}
    for sent in (told, {"version": 3, "sections": [{"offset": {"line": 0, "column": 0}, "map": told}]}):
        ready = ReadyMap(json.dumps(sent).encode(), b"")
        found = [ready.look_up(1, column) for column in (1, 101, 201)]
        assert [isinstance(place, SourcePlace) and place.library for place in found] == library
