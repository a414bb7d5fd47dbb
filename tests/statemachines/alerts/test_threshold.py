"""When rows cross a threshold, and which of their numbers says so (G-092, G-162)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.alerts.threshold import Op, RowMatch, Threshold, read_number, write_number

NUMBERS = st.integers(-9, 9) | st.sampled_from([-0.5, 0.25, 2.5])
CELLS = st.none() | NUMBERS


def rows_of(*cells: Any) -> list[dict[str, Any]]:
    return [{"n": cell, "other": 99} for cell in cells]


@pytest.mark.parametrize(
    ("op", "cells", "crossed", "observed"),
    [
        (Op.GT, (1, 5, 6, 9), True, 6),
        (Op.GT, (1, 5, 4), False, 5),
        (Op.GTE, (1, 5, 6), True, 5),
        (Op.GTE, (1, 4.5), False, 4.5),
        (Op.LT, (5, 4, 1), True, 4),
        (Op.LT, (9, 5), False, 5),
        (Op.LTE, (9, 5, 1), True, 5),
        (Op.LTE, (9, 6, 8), False, 6),
        (Op.EQ, (4, 5.0, 6), True, 5.0),
        (Op.EQ, (9, 4, 7), False, 4),
        (Op.EQ, (6, 4), False, 6),
        (Op.NEQ, (5, 5, 7, 1), True, 7),
        (Op.NEQ, (5, None), False, 5),
        (Op.LT, (None, None), False, None),
        (Op.NEQ, (), False, None),
        (Op.LT, (None, 0), True, 0),
    ],
)
def test_the_first_number_that_crosses_else_the_nearest(
    op: Op, cells: tuple[Any, ...], crossed: bool, observed: Any
) -> None:
    found = Threshold("n", op, 5).judge(rows_of(*cells))
    assert (found.crossed, found.observed) == (crossed, observed)


def test_of_the_first_row_alone() -> None:
    """A first row without a number is no number, whatever follows."""
    first = Threshold("n", Op.GT, 5, RowMatch.FIRST)
    assert not first.judge(rows_of(1, 9)).crossed
    assert first.judge(rows_of(9, 1)).observed == 9
    assert first.judge(rows_of(None, 9)).observed is None
    assert not first.judge([]).crossed


@given(op=st.sampled_from(Op), value=NUMBERS, cells=st.lists(CELLS), match=st.sampled_from(RowMatch))
def test_against_the_words_of_the_rule(op: Op, value: Any, cells: list[Any], match: RowMatch) -> None:
    found = Threshold("n", op, value, match).judge(rows_of(*cells))
    numbers = [cell for cell in (cells[:1] if match is RowMatch.FIRST else cells) if cell is not None]
    crosses = {
        Op.GT: lambda n: n > value,
        Op.GTE: lambda n: n >= value,
        Op.LT: lambda n: n < value,
        Op.LTE: lambda n: n <= value,
        Op.EQ: lambda n: n == value,
        Op.NEQ: lambda n: n != value,
    }[op]
    crossing = [n for n in numbers if crosses(n)]
    assert found.crossed is bool(crossing)
    if crossing:
        assert found.observed == crossing[0]
    elif not numbers:
        assert found.observed is None
    else:
        nearest = min(abs(n - value) for n in numbers)
        expected = {Op.GT: max, Op.GTE: max, Op.LT: min, Op.LTE: min}.get(op)
        assert found.observed == expected(numbers) if expected else abs(found.observed - value) == nearest


@given(st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_survives_as_a_decimal(number: float) -> None:
    assert read_number(write_number(number)) == number


def test_a_whole_number_has_one_form() -> None:
    assert (write_number(5.0), write_number(5), write_number(0.05)) == ("5", "5", "0.05")
