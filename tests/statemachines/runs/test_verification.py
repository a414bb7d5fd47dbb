"""Verification: recurrence, traffic, and silence that is never success (G-111, R-AUT-45)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.contracts.policy import VerificationTerms
from statemachines.runs.verification import Counts, decide_verification, observation_end

T0 = 1000
TERMS = VerificationTerms(
    observation_window_seconds=100, max_wait_seconds=500, min_sample_size=3, traffic_sample_event="checkout"
)


@pytest.mark.parametrize(
    ("sample", "recurrences", "after", "outcome"),
    [
        (0, 0, 0, "pending"),
        (3, 0, 99, "pending"),
        (3, 0, 100, "no_recurrence"),
        (2, 0, 100, "pending"),
        (2, 0, 499, "pending"),
        (2, 0, 500, "insufficient_traffic"),
        (0, 0, 499, "pending"),
        (0, 0, 500, "insufficient_traffic"),
        (3, 0, 500, "no_recurrence"),
        (0, 1, 0, "recurred"),
        (9, 1, 100, "recurred"),
        (9, 1, 500, "recurred"),
    ],
)
def test_every_row_of_the_table(sample, recurrences, after, outcome):
    verdict = decide_verification(TERMS, T0, Counts(sample, recurrences, T0 + after), T0 + after)
    assert (verdict.outcome, verdict.passed) == (outcome, outcome == "no_recurrence")
    assert (verdict.sample.count, verdict.sample.minimum, verdict.sample.recurrence_count) == (sample, 3, recurrences)
    assert (verdict.sample.observed_from, verdict.sample.observed_to) == (T0, T0 + after)


@given(
    st.builds(VerificationTerms, st.integers(0, 200), st.integers(0, 600), st.integers(0, 5), st.just("checkout")),
    st.integers(0, 5),
    st.integers(0, 2),
    st.integers(0, 2000),
)
def test_zero_traffic_and_recurrence_never_verify(terms, sample, recurrences, after):
    verdict = decide_verification(terms, T0, Counts(sample, recurrences, T0 + after), T0 + after)
    if sample == 0 or recurrences:
        assert not verdict.passed
    if after >= terms.max_wait_seconds:
        assert verdict.outcome != "pending" or after < terms.observation_window_seconds


def test_what_happens_after_the_deadline_is_not_counted():
    assert observation_end(TERMS, T0, T0 + 100) == T0 + 100
    assert observation_end(TERMS, T0, T0 + 9999) == T0 + 500
