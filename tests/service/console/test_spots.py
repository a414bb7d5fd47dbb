"""The places of faults in a text of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.console.kit.texts import Spots

NAMES = st.text("abc_", min_size=1, max_size=4)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
)


def every_path(value: Any, path: str = "") -> list[str]:
    """The paths of all members."""
    if isinstance(value, dict):
        inner = [(f"{path}.{name}" if path else name, one) for name, one in value.items()]
    else:
        inner = [(f"{path}[{number}]", one) for number, one in enumerate(value if isinstance(value, list) else ())]
    return [path for path, _ in inner] + [deep for path, one in inner for deep in every_path(one, path)]


@given(DOCUMENTS)
def test_each_member_has_the_line_that_names_it(document: Any) -> None:
    text = json.dumps(document, indent=1)
    spots = Spots(text)
    for path in every_path(document):
        [line] = [line for line in spots.around(path) if line.at]
        assert text.split("\n")[line.number - 1] == line.text
        name = path.rpartition(".")[2]
        assert "[" in name or json.dumps(name) in line.text


def test_what_is_missing_is_shown_where_it_belongs() -> None:
    text = '{\n "a": {\n  "b": [1,\n   2]\n }\n}'
    for path, line in {"a.c": 2, "a.b[1]": 4, "a.b[7].x.y": 3, "other": 1, "": 1}.items():
        assert [one.number for one in Spots(text).around(path) if one.at] == [line], path
    assert [one.number for one in Spots(text).around("a.b")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("text", ["", "{", '{"a" 1}', "[1,", "nonsense", '{"a": nul}', "[" * 100_000])
def test_broken_text_has_no_places(text: str) -> None:
    assert Spots(text).around("a") == ()
