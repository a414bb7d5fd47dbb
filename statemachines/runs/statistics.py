"""How likely a "fixed" is wrong: errors and traffic before and after a deploy, compared (G-173).

Errors come as a Poisson process of the traffic, and nothing else is assumed. Of all errors before and after, so many
fall into the traffic after the deploy as of a binomial distribution, if nothing was fixed. Everything here may be
looked at at any time, as often as anybody likes:

- Without an error after the deploy, the probability is the reciprocal of a likelihood ratio: "wholly fixed" against
  "nothing fixed". It falls with the traffic alone, so the place at which it reaches a bound is known in advance.
- With errors after the deploy, it is the reciprocal of the same ratio, averaged over all partial fixes. Ville's
  inequality holds for both: https://en.wikipedia.org/wiki/Ville%27s_inequality. No unit of the traffic changes them, so
  they are martingales whatever the rate was: https://arxiv.org/abs/2208.07610.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

BEFORE_DAYS: Final = 14
"""Days before a deploy with which the time after it is compared."""
HOUR: Final = 3_600
OPENINGS: Final = (1, 6, 24)
"""Hours after the first error of a case in which a burst is looked for."""
BURST: Final = 0.001
"""A beginning is a burst if so many of the errors fall into it with at most this probability."""
LEVELS: Final = (0.05, 0.01)
"""The probabilities for which the missing traffic is told."""
CONFIDENCE: Final = 0.95
FEWER: Final = 0.05
"""A rate is lower than before if so few errors come with at most this probability."""
LEAST_PERCENT: Final = 0.1
"""Smaller probabilities are not told apart in a sentence."""
NEGLIGIBLE: Final = 1e-18
"""A share of a sum that no float sees."""
MOST_STEPS: Final = 100
"""Halvings of an interval, and more than a float has bits."""
PRECISION: Final = 1e-10
"""Of an end of an interval, six digits of which are shown."""
MOST_REMEMBERED: Final = 1_024
"""Intervals: a page of runs asks for those of the page before."""


class Hour(NamedTuple):
    """Errors of the case, and sample events, in an hour of the time before a deploy."""

    errors: int
    exposure: int


class Before(NamedTuple):
    """What the time after a deploy is compared with: errors, sample events, and since when (epoch seconds)."""

    errors: int
    exposure: int
    since: int


class Statistics(msgspec.Struct, frozen=True):
    """Errors of the case and sample events before and after a deploy. All else follows from them.

    `before_from` in epoch seconds. `error_probability`: of seeing so few errors if nothing was fixed, as it was judged.
    None: nobody can say. It is a decimal text, for events hold no floats.
    """

    errors_before: int
    exposure_before: int
    errors_after: int
    exposure_after: int
    before_from: int
    error_probability: str | None

    @property
    def probability(self) -> float | None:
        """The same as a number."""
        return None if self.error_probability is None else float(self.error_probability)

    def reaches(self, maximum: float) -> bool:
        """Whether the probability is known, and at or below the bound of a project (G-202)."""
        return self.probability is not None and self.probability <= maximum


def compare(before: Before, errors: int, exposure: int) -> Statistics:
    """Compare the time before a deploy with errors and sample events since."""
    found = error_probability(before.errors, before.exposure, errors, exposure)
    rounded = None if found is None else f"{found:.6g}"
    return Statistics(before.errors, before.exposure, errors, exposure, before.since, rounded)


def comparable(hours: Sequence[Hour], since: int) -> Before:
    """Choose what counts of the hours before a deploy, the first of which begins at `since`.

    A case that opened by a burst is judged by its rate since: hours are cut off as long as the beginning is a burst.
    """
    first = 0
    while cut := next((length for length in OPENINGS if _is_burst(hours[first:], length)), 0):
        first += cut
    left = hours[first:]
    return Before(sum(h.errors for h in left), sum(h.exposure for h in left), since + first * HOUR)


def _is_burst(hours: Sequence[Hour], length: int) -> bool:
    if len(hours) <= length:
        return False
    errors, exposure = sum(h.errors for h in hours), sum(h.exposure for h in hours)
    opening, share = sum(h.errors for h in hours[:length]), sum(h.exposure for h in hours[:length])
    return bool(opening) and 1 - at_most(opening - 1, errors, share / exposure if exposure else 0.0) <= BURST


def error_probability(errors_before: int, exposure_before: int, errors: int, exposure: int) -> float | None:
    """The probability of so few errors in the traffic since, if nothing was fixed. None without traffic before."""
    if not exposure_before:
        return None
    if not errors:
        return (exposure_before / (exposure_before + exposure)) ** errors_before
    if errors_before <= 1 or not exposure:
        return 1.0  # A single error before tells no partial fix from none.
    return math.exp(-max(0.0, _log_ratio(errors_before, errors, exposure / (exposure_before + exposure))))


def _log_ratio(before: int, after: int, share: float) -> float:
    """The logarithm of the likelihood ratio of all partial fixes, each as likely, to none: a beta-binomial mixture."""
    a, b = after + 1, before - 1
    tail = 1 - at_most(after, before + after - 1, share)
    if tail <= 0:
        return -math.inf
    beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return math.log(tail) + beta - a * math.log(share) - b * math.log1p(-share)


def missing_exposure(told: Statistics, level: float) -> int | None:
    """How many sample events without an error are missing to a probability.

    None where no traffic leads there: after a recurrence, and without errors or traffic before.
    """
    if told.errors_after or not told.errors_before or not told.exposure_before:
        return None
    return max(0, needed_exposure(told.errors_before, told.exposure_before, level) - told.exposure_after)


def needed_exposure(errors_before: int, exposure_before: int, level: float) -> int:
    """How many sample events without an error lead to a probability. `errors_before` is above 0."""
    exact = exposure_before * math.expm1(-math.log(level) / errors_before)
    return math.ceil(round(exact, 6))


@lru_cache(maxsize=MOST_REMEMBERED)
def rate_ratio(told: Statistics) -> tuple[float, float | None] | None:
    """The exact interval of the ratio of the rates after and before, at CONFIDENCE (Clopper-Pearson).

    The upper end is None if it is without bound. None without any error, or without traffic on one side.
    """
    before, after = told.errors_before, told.errors_after
    if not before + after or not told.exposure_before or not told.exposure_after:
        return None
    odds = told.exposure_before / told.exposure_after
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if not after else _share(lambda p: at_most(after - 1, before + after, p) - (1 - tail))
    high = 1.0 if not before else _share(lambda p: at_most(after, before + after, p) - tail)
    return _significant(odds * low / (1 - low)), None if high == 1 else _significant(odds * high / (1 - high))


def _share(falling: Callable[[float], float]) -> float:
    """Where a falling function of a share is 0, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(MOST_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
        if high - low <= high * PRECISION:
            break
    return (low + high) / 2


def at_most(successes: int, trials: int, share: float) -> float:
    """The probability of at most so many successes of a binomial distribution.

    The tail away from the mean is summed, whose terms fall: a case of millions of errors takes milliseconds.
    """
    if successes < 0:
        return 0.0
    if successes >= trials or share <= 0:
        return 1.0
    if share >= 1:
        return 0.0
    if successes < trials * share:
        return _tail(successes, trials, share)
    return 1.0 - _tail(trials - successes - 1, trials, 1 - share)  # at least so many failures


def _tail(successes: int, trials: int, share: float) -> float:
    """The same for a number below the mean."""
    ways = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(trials - successes + 1)
    term = math.exp(ways + successes * math.log(share) + (trials - successes) * math.log1p(-share))
    odds, total = (1 - share) / share, 0.0
    for k in range(successes, -1, -1):
        total += term
        term *= odds * k / (trials - k + 1)
        if term <= total * NEGLIGIBLE:
            break
    return min(1.0, total)


def _significant(number: float) -> float:
    return float(f"{number:.6g}")


def say(told: Statistics) -> str:
    """Say it in one sentence, made of our words and numbers alone."""
    before, after = told.errors_before, told.errors_after
    if not told.exposure_before:
        return "There was no traffic before the deploy to compare with, so nobody can say how many errors to expect."
    if not before:
        return "The error did not come in the traffic before the deploy either, so its absence says nothing."
    if not after:
        chance = _percent(told.probability or 0.0)
        return f"If nothing was fixed, so much traffic without the error would come with a probability of {chance}."
    expected = before * told.exposure_after / told.exposure_before
    counted = f"The error came {_times(after)} since the deploy, and {expected:.3g} times were to be expected"
    fewer = told.reaches(FEWER)
    return f"{counted}: {'fewer, not fixed' if fewer else 'not fixed'}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _percent(share: float) -> str:
    """A share in percent. The smallest ones share a word."""
    percent = share * 100
    if percent < LEAST_PERCENT:
        return f"less than {LEAST_PERCENT} %"
    return f"{percent:.0f} %" if percent >= 1 else f"{percent:.1f} %"
