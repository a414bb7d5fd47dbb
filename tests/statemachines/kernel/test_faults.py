"""Every fault of a value at once, in agreement with the decoder, and what a declaration says beyond types."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, inspect

from schemas.kernel.patterns import form
from statemachines.kernel.shapes import INVALID, MAX_NAME, MISSING, UNKNOWN, Fault, find_faults
from tests.support import few_or_many


class Square(msgspec.Struct, tag_field="kind", tag="square", forbid_unknown_fields=True):
    side: Annotated[int, Meta(ge=1)]


class Circle(msgspec.Struct, tag_field="kind", tag="circle", forbid_unknown_fields=True):
    radius: Annotated[float, Meta(gt=0)]


class Drawing(msgspec.Struct, forbid_unknown_fields=True):
    shape: Square | Circle
    frame: Square | None = None
    names: Annotated[list[str], Meta(max_length=3)] = []
    note: Annotated[str, Meta(max_length=2, pattern=form("[a-z]*", "of letters"))] | int | None = None


class Vow(msgspec.Struct):
    sworn: Annotated[bool, Meta(extra_json_schema={"const": True})]
    witnesses: Annotated[list[str], Meta(extra_json_schema={"uniqueItems": True})]


def faults(shape: Any, value: Any, path: str = "") -> list[Fault]:
    return list(find_faults(value, inspect.type_info(shape), path))


SHAPE = {"kind": "square", "side": 1}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"shape": SHAPE}, []),
        ({"shape": {"kind": "square"}, "x": 1}, [Fault("x", UNKNOWN), Fault("shape.side", MISSING)]),
        ({"shape": {"side": 1}}, [Fault("shape.kind", MISSING)]),
        ({"shape": {"kind": "line"}}, [Fault("shape.kind", INVALID, "one of square, circle")]),
        ({"shape": SHAPE, "frame": {"side": 2}}, []),  # of one kind only: the decoder asks for no tag
        ({"shape": SHAPE, "frame": {"kind": "circle", "side": 2}}, [Fault("frame.kind", INVALID, "one of square")]),
        ({"shape": SHAPE, "names": ["a", 1]}, [Fault("names[1]", INVALID, "a string")]),
        ({"shape": SHAPE, "note": "A"}, [Fault("note", INVALID, "a string of at most 2 characters, of letters")]),
        ([], [Fault("", INVALID, "an object")]),
    ],
)
def test_faults_by_place(value: Any, found: list[Fault]) -> None:
    """Each is named with its path and with what the declaration says of it."""
    assert faults(Drawing, value) == found


def test_what_only_the_schema_says_counts_where_the_type_is_right() -> None:
    """A constant and different items are demanded, and not of what is no list or no boolean anyway."""
    assert faults(Vow, {"sworn": True, "witnesses": ["a", "b"]}) == []
    assert faults(Vow, {"sworn": False, "witnesses": ["a", "b", "a", "b"]}, "vow") == [
        Fault("vow.sworn", INVALID, "true"),
        Fault("vow.witnesses[2]", INVALID, "different from every other item"),
        Fault("vow.witnesses[3]", INVALID, "different from every other item"),
    ]
    assert [fault.path for fault in faults(Vow, {"sworn": 1, "witnesses": ["a", {}, "a"]})] == ["sworn", "witnesses[1]"]


def test_an_endless_name_is_cut() -> None:
    """A name is the one thing that is repeated, and not for ever."""
    [fault] = faults(Drawing, {"shape": SHAPE, "n" * 10_000: 1})
    assert fault == Fault("n" * MAX_NAME, UNKNOWN)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.floats(-1, 2)
    | st.sampled_from(["", "a", "B", "square", "circle"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["kind", "side", "radius", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@few_or_many(80, 1000)
@given(st.dictionaries(st.sampled_from([*Drawing.__struct_encode_fields__, "x"]), VALUES, max_size=4))
def test_faults_are_found_where_the_decoder_refuses_and_nowhere_else(value: dict[str, Any]) -> None:
    """For the kinds of types that are judged, the walk and the decoder are of one mind."""
    try:
        msgspec.json.decode(msgspec.json.encode(value), type=Drawing)
    except msgspec.ValidationError:
        assert faults(Drawing, value)
    else:
        assert faults(Drawing, value) == []
