"""A map that is bounded by weight."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.fairness.bounds import Weighted


def made(**bounds: int) -> Weighted[int, str]:
    return Weighted(len, **{"max_bytes": 100, **bounds})


def test_the_least_recently_used_go_first():
    held = made(max_entries=3)
    for n in range(3):
        assert held.put(n, "x" * 10)
    assert held.get(0) == "x" * 10
    assert held.peek(1) == "x" * 10, "a peek is no use"
    held.put(3, "x" * 10)
    assert [held.peek(n) is not None for n in range(4)] == [True, False, True, True]
    held.put(2, "x" * 85)
    assert [held.peek(n) is not None for n in range(4)] == [False, False, True, True]


def test_what_is_too_heavy_is_refused_and_drives_nothing_out():
    held = made(max_entry=50)
    held.put(1, "x" * 40)
    assert not held.put(2, "x" * 51)
    assert (held.peek(1) is not None, held.peek(2)) == (True, None)
    assert not held.put(1, "x" * 51), "and what it would have replaced is gone: it is out of date"
    assert (len(held), held.bytes) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60))))
def test_the_weight_is_kept_exactly(puts: list[tuple[int, int]]):
    held = made(max_entries=5, max_entry=50)
    for number, size in puts:
        held.put(number, "x" * size)
        kept = [value for n in range(10) if (value := held.peek(n)) is not None]
        assert held.bytes == sum(map(len, kept)) <= 100
        assert len(held) == len(kept) <= 5
    held.clear()
    assert (len(held), held.bytes) == (0, 0)
