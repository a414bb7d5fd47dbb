"""Canonical JSON: the fast way and the library agree wherever the fast way is taken, and everywhere else too."""

import math
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from statemachines.kernel.canonical import canonical

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LEAVES = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT
VALUES = st.recursive(
    LEAVES | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_the_form_is_the_librarys(value: Any) -> None:
    """Any value a JSON parser makes, floats and astral keys included."""
    assert canonical(value) == rfc8785.dumps(value)


@given(st.floats(-1e16, 1e16) | st.floats(-1, 1) | st.decimals(-(10**6), 10**6, places=6).map(float))
def test_so_is_that_of_an_amount(amount: float) -> None:
    """Most floats of requests are amounts: those take the fast way, beside others that have to be told apart."""
    assert canonical({"amount": amount}) == rfc8785.dumps({"amount": amount})


@pytest.mark.parametrize("amount", [0.0, -0.0, 1.0, 1e-5, 9.999e-6, 1e15, 1e21, 5e-324, 0.1 + 0.2, 123456789012345.6])
def test_so_is_that_of_an_amount_on_the_edge(amount: float) -> None:
    assert canonical([amount]) == rfc8785.dumps([amount])


def test_order_is_by_utf_16() -> None:
    """A key beyond the basic plane sorts before one at its end, because its first code unit is lower."""
    value = {"\uffff": 1, "\U0001f600": 2}
    assert canonical(value) == '{"\U0001f600":2,"\uffff":1}'.encode()


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53, {1: 2}, object()])
def test_what_has_no_form_is_refused(value: Any) -> None:
    """Nothing is hashed that another program could not hash to the same."""
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical(value)
