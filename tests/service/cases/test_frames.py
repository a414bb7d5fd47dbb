"""Frames as engines write them and as reporters list them, and text that only looks like some."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cases.sourcemaps.frames import MOST_FRAMES, RecordedFrame, frames_of, may_be_mapped, parse_stack

URL = "https://shop.example/assets/app.min.js?v=1"
DEBUG_ID = "0b87f1a0-7c4b-4a25-8d3c-7a3a4c4ea1b2"


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (f"    at divided ({URL}:1:73)", RecordedFrame(URL, 1, 73, "divided")),
        (f"    at {URL}:1:205", RecordedFrame(URL, 1, 205, None)),
        (f"    at async load ({URL}:1:9)", RecordedFrame(URL, 1, 9, "load")),
        (f"    at async {URL}:1:9", RecordedFrame(URL, 1, 9, None)),
        (f"    at new Purse ({URL}:1:9)", RecordedFrame(URL, 1, 9, "Purse")),
        (f"    at Object.run [as go] ({URL}:1:9)", RecordedFrame(URL, 1, 9, "Object.run")),
        ("    at Array.map (<anonymous>)", RecordedFrame(None, None, None, "Array.map")),
        ("    at Array.map (native)", RecordedFrame(None, None, None, "Array.map")),
        (f"    at eval (eval at go ({URL}:1:30), <anonymous>:1:1)", RecordedFrame(URL, 1, 30, "eval")),
        (f"    at eval (eval at a (eval at b ({URL}:2:4), <anonymous>:1:1), <anonymous>:1:1)",
         RecordedFrame(URL, 2, 4, "eval")),
        ("    at C:\\shop (1)\\app.js:3:4", RecordedFrame("C:\\shop (1)\\app.js", 3, 4, None)),
        ("    at Module._compile (node:internal/modules/cjs/loader:1521:14)",
         RecordedFrame("node:internal/modules/cjs/loader", 1521, 14, "Module._compile")),
        (f"divided@{URL}:1:73", RecordedFrame(URL, 1, 73, "divided")),
        (f"@{URL}:1:205", RecordedFrame(URL, 1, 205, None)),
        (f"async*load@{URL}:1:9", RecordedFrame(URL, 1, 9, "load")),
        ("f@https://cdn.example/@shop/app.js:1:9", RecordedFrame("https://cdn.example/@shop/app.js", 1, 9, "f")),
        (f"go@{URL} line 5 > eval:1:1", RecordedFrame(URL, 5, None, "go")),
        (f"{URL}:1:205", RecordedFrame(URL, 1, 205, None)),
        ("map@[native code]", RecordedFrame(None, None, None, "map")),
        (f"global code@{URL}:3:1", RecordedFrame(URL, 3, 1, "global code")),
    ],
)  # fmt: skip
def test_a_line_of_each_engine(line: str, frame: RecordedFrame):
    assert parse_stack(f"RangeError: at 12:30 see https://a.example/b.js:3:4 for more\n{line}\n") == [frame]


@pytest.mark.parametrize(
    "line",
    ["", "at ", "at (", "Error: 12:30:45", "write to a@example.com", "at eval (eval at x", "f@", "x:1:1", "@@@",
     "at f (https://a.example/a.js:99999999999:99999999999)", "see https://a.example/b.js:3:4 there"],
)  # fmt: skip
def test_text_that_is_no_frame(line: str):
    assert parse_stack(line) == []


def test_objects_count_before_text_and_under_whatever_names():
    house = {"file": URL, "line": 1, "column": 2, "function": "f", "in_app": "yes"}
    other = {"filename": URL, "lineno": 1, "colno": 2, "function": "f", "debug_id": DEBUG_ID.replace("-", "").upper()}
    images = {"debug_meta": {"images": [{"type": "sourcemap", "code_file": URL, "debug_id": DEBUG_ID}, 7]}}
    stack = f"Error\n    at g ({URL}:9:9)"
    frame = RecordedFrame(URL, 1, 2, "f")
    known = frame._replace(debug_id=DEBUG_ID)
    own = {**house, "in_app": True, "context_line": "raise it"}
    told = frame._replace(in_app=True, context_line="raise it")
    assert frames_of({"exception": {"frames": [own], "stack": stack}}, "m") == [told]
    assert frames_of({"exception": {"frames": [other, 7, None]}}, "m") == [known]
    beside = {
        "file": "app.min.js",
        "filename": "/app.min.js",
        "abs_path": URL,
        "lineno": 1,
        "colno": 2,
        "function": "f",
    }
    assert frames_of({"exception": {"frames": [beside]}, **images}, "m") == [known]
    assert frames_of({"exception": {"stacktrace": {"frames": [other]}}}, "m") == [known]
    assert frames_of({"exception": {"frames": [house]}, **images}, "m") == [known]
    assert frames_of({"exception": {"frames": [house], "debug_ids": {URL: DEBUG_ID}}}, "m") == [known]
    assert frames_of({"exception": {"stack": stack}} | images, "m") == [RecordedFrame(URL, 9, 9, "g", DEBUG_ID)]
    assert frames_of({"stack": stack}, "m") == frames_of({}, stack) == [RecordedFrame(URL, 9, 9, "g")]
    strange = {"file": 7, "line": "1", "column": -2, "function": "", "debug_id": "x"}
    assert frames_of({"exception": {"frames": [strange]}}, "m") == [RecordedFrame(None, None, None, None)]
    assert frames_of({"exception": {"frames": [{"line": True}]}}, "m") == [RecordedFrame(None, None, None, None)]
    for odd in ({}, {"exception": 7}, {"exception": {"frames": {}}}, {"debug_meta": {"images": 7}}, {"debug_ids": []}):
        assert frames_of(odd, "boom") == []


def test_only_so_many_frames_and_characters_are_looked_at():
    line = f"    at f ({URL}:1:1)\n"
    assert len(parse_stack(line * 10_000)) == MOST_FRAMES
    assert len(frames_of({"exception": {"frames": [{"file": URL}] * 1000}}, "m")) == MOST_FRAMES


@pytest.mark.parametrize(
    "text", ["at eval (eval at " * 5000, "@" * 60_000, ":1" * 30_000, "at (" * 20_000, "a@b " * 9000]
)
def test_no_text_takes_long(text: str):
    began = time.process_time()
    parse_stack(text)
    assert time.process_time() - began < 0.5


@given(st.text(max_size=300), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["exception", "frames", "stack", "debug_meta", "images", "debug_ids", "error", "line"]),
        inner, max_size=4), max_leaves=12))  # fmt: skip
def test_anything_may_come(text: str, extra: object):
    found = frames_of(extra if isinstance(extra, dict) else {"exception": extra}, text)
    assert all(frame.line is None or frame.line >= 0 for frame in found)


@pytest.mark.parametrize(
    ("file", "mapped"),
    [
        (URL, True), ("https://shop.example/", True), ("https://shop.example/cart.php?id=1", True),
        ("app:///index.android.bundle", True), ("app:///main", True), ("webpack:///./src/cart.ts?1a", True),
        ("~/assets/shop.min.js#x", True), ("C:\\shop\\APP.MJS", True), ("shop.css", True), ("cart_bg.wasm", True),
        ("/app/cart.py", False), ("app/models/cart.rb", False), ("Cart.java", False), ("/go/src/cart/cart.go", False),
        ("C:\\shop\\Cart.cs", False), ("file:///app/cart.py", False), ("/app/cart.php", False), ("src/main.rs", False),
        ("<frozen importlib._bootstrap>", False), ("<stdin>", False), ("cart", False), ("/app.js/cart.py", False),
        ("node:internal/modules/cjs/loader", False), ("internal/loader.js", False), ("", False), (".", False),
    ],
)  # fmt: skip
def test_maps_describe_scripts_and_no_other_code(file: str, mapped: bool):
    assert may_be_mapped(file) == mapped


@given(st.text())
def test_any_name_of_a_file_is_told_apart(file: str):
    """Whatever it is, and a URL of a page has scripts."""
    assert may_be_mapped(file) in {True, False}
    assert may_be_mapped(f"https://{file}")
