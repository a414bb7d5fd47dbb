"""The difference for people, and the addresses to which a key is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.cli.apply.difference import changes
from service.cli.apply.remote import BadAddress, check_address


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["~ a: 1 → true"]),
        ({"a": 0}, {"a": False}, ["~ a: 0 → false"]),
        ({"a": {"b": "é"}}, {"a": {"c": None}}, ['- a.b: "é"', "+ a.c: null"]),
        ({"l": ["x", "y"]}, {"l": ["x", "z"]}, ['~ l[1]: "y" → "z"']),
        ({"l": ["x"]}, {"l": ["w", "x"]}, ['~ l: ["x"] → ["w", "x"]']),
        ({"a": {"b": 1}}, {"a": []}, ['~ a: {"b": 1} → []']),
        ({"b": 1, "a": 1}, {"a": 2, "b": 2}, ["~ a: 1 → 2", "~ b: 1 → 2"]),
    ],
)
def test_each_changed_member_is_named(before: Any, after: Any, lines: list[str]) -> None:
    assert list(changes(before, after)) == lines


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)


def _typed(value: Any) -> Any:
    """The value with each boolean as something unequal to a number."""
    match value:
        case bool():
            return ("bool", value)
        case dict():
            return {name: _typed(inner) for name, inner in value.items()}
        case list():
            return [_typed(inner) for inner in value]
    return value


@settings(max_examples=100, deadline=None)
@given(VALUES, VALUES)
def test_nothing_is_shown_of_equals_alone(before: Any, after: Any) -> None:
    assert (not list(changes(before, after))) == (_typed(before) == _typed(after))


@pytest.mark.parametrize(
    "url",
    [
        "https://service.example/",
        "https://service.example/api",
        "http://127.0.0.1:8000",
        "http://[::1]:1",
        "http://localhost",
    ],
)
def test_the_key_goes_to_https_or_this_machine(url: str) -> None:
    assert check_address(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://service.example",
        "http://10.0.0.1",
        "http://localhost.example",
        "https://user@service.example",
        "https://service.example?x=1",
        "https://service.example#x",
        "ftp://127.0.0.1",
        "service.example",
        "https://",
        "https://[::1",
        "https://a:99999",
        "",
    ],
)
def test_no_other_address_gets_it(url: str) -> None:
    with pytest.raises(BadAddress):
        check_address(url)
