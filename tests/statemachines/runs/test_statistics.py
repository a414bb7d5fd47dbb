"""How likely a "fixed" is wrong: published intervals, promises on simulated products, every sentence (G-173)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.runs.statistics import (
    Before,
    Hour,
    Statistics,
    at_most,
    comparable,
    compare,
    error_probability,
    missing_exposure,
    rate_ratio,
    say,
)
from tests.statemachines.runs.products import simulate

DAY = 1_000
"""Sample events of a day."""
VECTORS = json.loads((Path(__file__).parents[2] / "foreign/statsmodels/rate_ratios.json").read_text())["cases"]


def told(errors: int, days: int, after: int = 0, exposure: int = DAY) -> Statistics:
    return compare(Before(errors, days * DAY, 0), after, exposure)


@pytest.mark.parametrize(("errors", "percent"), [(10, "50 %"), (3, "81 %"), (100, "0.1 %"), (200, "less than 0.1 %")])
def test_one_quiet_day_after_fourteen_says_little_unless_errors_were_many(errors: int, percent: str) -> None:
    found = told(errors, 14)
    assert found.probability == pytest.approx((14 / 15) ** errors, rel=1e-5)
    assert say(found) == (
        f"If nothing was fixed, so much traffic without the error would come with a probability of {percent}."
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['errors_after']}-{v['errors_before']}")
def test_statsmodels_computes_the_same(vector: dict[str, float]) -> None:
    before, after = int(vector["errors_before"]), int(vector["errors_after"])
    share = vector["exposure_after"] / (vector["exposure_after"] + vector["exposure_before"])
    assert at_most(after, before + after, share) == pytest.approx(vector["smaller"], rel=1e-6)
    found = rate_ratio(compare(Before(before, int(vector["exposure_before"]), 0), after, int(vector["exposure_after"])))
    assert found is not None
    low, high = found
    assert low == pytest.approx(vector["low"], rel=1e-5)
    assert high == (vector["high"] and pytest.approx(vector["high"], rel=1e-5))


def test_the_published_interval_of_sixty_and_thirty() -> None:
    """`poisson.exact(c(60, 30), c(51477.5, 54308.7))` of R's exactci, central, as statsmodels' tests quote it."""
    found = rate_ratio(compare(Before(30, 543_087, 0), 60, 514_775))
    assert found == pytest.approx((1.339735721772650, 3.388365573616252), rel=1e-5)


def test_the_missing_traffic_leads_exactly_to_the_level() -> None:
    found = told(10, 14)
    for level in (0.05, 0.01):
        missing = missing_exposure(found, level)
        assert missing is not None
        there = compare(Before(10, 14 * DAY, 0), 0, DAY + missing)
        assert there.reaches(level)
        assert not compare(Before(10, 14 * DAY, 0), 0, DAY + missing - 1).reaches(level)
        assert missing_exposure(there, level) == 0
    assert [missing_exposure(nothing, 0.05) for nothing in (told(0, 14), told(10, 0), told(10, 14, 1))] == [None] * 3


@pytest.mark.parametrize(
    ("found", "probability", "sentence"),
    [
        (told(10, 0), None, "There was no traffic before the deploy to compare with"),
        (told(0, 14), 1.0, "The error did not come in the traffic before the deploy either"),
        (told(10, 14, 0, 0), 1.0, "with a probability of 100 %"),
        (told(1, 14, 1), 1.0, "came once since the deploy, and 0.0714 times were to be expected: not fixed."),
        (
            told(40, 14, 3, 14 * DAY),
            5.08999e-08,
            "came 3 times since the deploy, and 40 times were to be expected: f",
        ),
        (
            told(40, 14, 38, 14 * DAY),
            1.0,
            "38 times since the deploy, and 40 times were to be expected: not fixed.",
        ),
        (told(40, 14, 3, 0), 1.0, "not fixed."),
    ],
)
def test_every_sentence(found: Statistics, probability: float | None, sentence: str) -> None:
    assert found.probability == probability
    assert sentence in say(found)
    assert not found.reaches(0.001) or probability == 5.08999e-08


@given(st.integers(0, 2_000), st.integers(0, 10**9), st.integers(0, 1_000), st.integers(0, 10**9))
def test_any_counts_have_a_probability_a_sentence_and_an_interval(b: int, eb: int, a: int, ea: int) -> None:
    found = compare(Before(b, eb, 0), a, ea)
    assert found.probability is None or 0 <= found.probability <= 1
    assert say(found).endswith(".")
    interval = rate_ratio(found)
    assert interval is None or interval[1] is None or 0 <= interval[0] <= interval[1]
    assert msgspec.json.decode(msgspec.json.encode(found), type=Statistics) == found


@given(st.integers(1, 200), st.integers(1, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_without_an_error_more_traffic_never_makes_it_less_sure(errors: int, before: int, one: int, more: int) -> None:
    first, second = (error_probability(errors, before, 0, exposure) for exposure in (one, one + more))
    assert first is not None
    assert second is not None
    assert second <= first


def test_a_case_that_opened_by_a_burst_is_judged_by_its_rate_since() -> None:
    quiet = [Hour(int(hour % 24 == 0), 10) for hour in range(240)]
    assert comparable(quiet, 0) == Before(10, 2_400, 0)
    assert comparable([Hour(80, 10), *quiet], 100) == Before(10, 2_400, 3_700)
    over_three_hours = [Hour(30, 10), Hour(20, 10), Hour(9, 10)]
    assert comparable([*over_three_hours, *quiet], 0) == Before(10, 2_400, 3 * 3_600)
    slow = [Hour(1, 10) for _ in range(24)]
    assert comparable([*slow, *quiet], 0).since == 24 * 3_600
    assert comparable([Hour(80, 10)], 0) == Before(80, 10, 0), "nothing is known of the time since"
    assert comparable([], 5) == Before(0, 0, 5)
    steady = [Hour(3, 10) for _ in range(48)]
    assert comparable(steady, 0) == Before(144, 480, 0)
    traffic = [Hour(30, 100), *[Hour(3, 10) for _ in range(48)]]
    assert comparable(traffic, 0).since == 0, "many errors of much traffic are no burst"


SHORT, LONG = 400, pytest.param(10_000, marks=pytest.mark.release)


@pytest.mark.parametrize("products", [SHORT, LONG])
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_a_product_looked_at_by_every_sweep_is_rarely_called_fixed_if_nothing_was(products: int, level: float) -> None:
    tally = simulate(56, products, left=1.0, level=level)
    assert 0 < tally.fixed <= 1.1 * level
    assert tally.fewer <= 1.1 * 0.05


@pytest.mark.parametrize("products", [SHORT, LONG])
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_a_true_verdict_comes_soon(products: int, level: float) -> None:
    """The shortest possible time is that of somebody who knows the rate of errors before the repair."""
    tally = simulate(56, products, left=0.0, level=level)
    assert tally.fixed >= 0.999
    assert tally.delay <= 1.3


@pytest.mark.parametrize("products", [SHORT, LONG])
def test_a_partial_fix_is_called_fewer_and_not_fixed(products: int) -> None:
    """Of those that came back: one that never did is called fixed, for an error probability is about no fix at all."""
    tally = simulate(56, products, left=0.3, level=0.01, least=0.5)
    assert tally.fewer >= 0.9 * (1 - tally.fixed)
    assert tally.fixed <= 1.1 * 0.01**0.3


@pytest.mark.parametrize("number", [1_000, 1_000_000, 10_000_000])
def test_cases_of_millions_of_errors_are_compared_exactly(number: int) -> None:
    """Both tails fit together, and the middle of a fair coin is a half: the sums leave nothing out that counts."""
    half = at_most(number // 2, number, 0.5)
    fewer = at_most(number // 2 - 1, number, 0.5)
    assert half + fewer == pytest.approx(1, rel=1e-9)
    assert half - fewer == pytest.approx(math.sqrt(2 / (math.pi * number)), rel=1e-3)
    interval = rate_ratio(Statistics(number, 1_000, number, 1_000, 0, None))
    assert interval is not None
    low, high = interval
    assert high is not None
    assert low * high == pytest.approx(1, rel=1e-5)
    assert math.log(high) == pytest.approx(1.96 * math.sqrt(2 / number), rel=0.02)
