"""A shape of the wire is made of a row: what both have is written once."""

from __future__ import annotations

import msgspec
import pytest

from schemas.kernel.shape import shape_from


class Row(msgspec.Struct):
    id: str
    count: int
    at: int
    source: str
    ok: bool = False


class Shown(msgspec.Struct):
    item_id: str
    count: int
    at: int
    source: str
    next_action: str
    ok: bool = True


def test_it_has_the_members_of_both_and_what_is_computed() -> None:
    """A member may be called as a parameter is, and a default of the shape is its own."""
    row = Row("a", 3, 9, "ci", ok=False)
    assert shape_from(Shown, row, item_id=row.id, next_action="Wait.") == Shown("a", 3, 9, "ci", "Wait.", ok=True)
    assert shape_from(Shown, row, item_id="b", source="dsn", next_action="").source == "dsn"


def test_a_member_in_neither_is_a_bug() -> None:
    """It is noticed at the first use, and so is one that the shape does not have."""
    with pytest.raises(AttributeError, match="next_action"):
        shape_from(Shown, Row("a", 3, 9, "ci"), item_id="a")
    with pytest.raises(TypeError, match="unknown"):
        shape_from(Shown, Row("a", 3, 9, "ci"), item_id="a", next_action="", unknown=1)
