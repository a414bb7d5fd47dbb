"""The pace of a polling device: it slows the hasty down, and starves nobody (G-020)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statemachines.accounts.pace import PACE_TOLERANCE, Pace, next_pace


@given(st.lists(st.integers(0, 20), min_size=1, max_size=60))
def test_an_interval_grows_by_five_for_each_early_poll_and_by_nothing_else(gaps: list[int]):
    now, pace = 1_000, None
    pace, early = next_pace(pace, now)
    assert not early
    for gap in gaps:
        now += gap
        before = pace
        pace, early = next_pace(before, now)
        assert early == (gap < before.interval - PACE_TOLERANCE)
        assert pace == Pace(now, min(before.interval + 5, 60) if early else before.interval)


@given(st.lists(st.integers(-400, 400), min_size=2, max_size=200), st.integers(0, 999))
def test_a_client_at_the_pace_it_was_told_is_never_slowed_down(jitters: list[int], phase: int):
    """Polls every five seconds, each up to 0.4 s off, on a clock of whole seconds."""
    pace = None
    for number, jitter in enumerate(jitters):
        milliseconds = 1_000_000 + phase + number * 5_000 + jitter
        pace, early = next_pace(pace, milliseconds // 1_000)
        assert not early
