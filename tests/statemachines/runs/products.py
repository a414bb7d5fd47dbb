"""Simulated products whose repairs are looked at by every sweep, to hold the promises of error probabilities (G-173).

Errors come as a Poisson process of the traffic, some cases open with a burst, and a repair begins once a case has its
least number of errors. Without another error the probability only falls with the traffic. So the last look before an
error has the smallest of all looks since the one before it, and looking there alone is looking at all of them.
"""

from __future__ import annotations

import math
import random
from typing import Final, NamedTuple

from statemachines.runs.statistics import BEFORE_DAYS, Before, Hour, comparable, compare, needed_exposure, say

LOOKS_AN_HOUR: Final = 12
TRAFFIC: Final = 120
"""Sample events of an hour: ten between two looks."""
LEAST_ERRORS: Final = 3
"""Errors of a case before its repair begins."""
HOURS: Final = BEFORE_DAYS * 24
LEAST_RATE: Final = 1 / 48
MOST_RATE: Final = 3.0
"""Errors an hour."""
MOST_ERRORS: Final = 100
"""Errors since a deploy after which nobody looks any longer."""
WATCHED_HOURS: Final = 10 * HOURS
"""How long a deploy is watched: long enough for every true verdict that is looked for."""


class Product(NamedTuple):
    """Errors an hour, the share of them that is left after the repair, and the hours before the deploy."""

    rate: float
    left: float
    before: Before


class Seen(NamedTuple):
    """What the looks at a product concluded: "fixed" after so many hours, or how few errors were called fewer."""

    fixed_after: float | None
    fewer: bool
    shortest: float
    """Hours after which somebody who knows the rate would be as sure."""


def poisson(rng: random.Random, mean: float) -> int:
    """Draw from a Poisson distribution."""
    count, at = 0, rng.expovariate(1)
    while at < mean:
        count, at = count + 1, at + rng.expovariate(1)
    return count


def make(rng: random.Random, left: float, least: float) -> Product:
    """Make a product with `least` errors an hour to MOST_RATE, every fourth with a burst at its beginning."""
    rate = math.exp(rng.uniform(math.log(least), math.log(MOST_RATE)))
    hours = [Hour(60 if rng.random() < 0.25 else 0, TRAFFIC)]
    found, wait = 1, rng.randint(6, 96)
    while wait and len(hours) < HOURS:
        errors = poisson(rng, rate)
        hours.append(Hour(errors, TRAFFIC))
        found += errors
        wait -= found >= LEAST_ERRORS
    return Product(rate, left, comparable(hours, 0))


def watch(rng: random.Random, product: Product, level: float) -> Seen:
    """Look at a product until it is called fixed, or for WATCHED_HOURS."""
    rate, errors, at, fewer = product.rate * product.left, 0, 0.0, False
    shortest = -math.log(level) / product.rate
    while at < WATCHED_HOURS and errors <= MOST_ERRORS:
        at = min(WATCHED_HOURS, at + rng.expovariate(rate)) if rate else WATCHED_HOURS
        look = math.floor(at * LOOKS_AN_HOUR)
        told = compare(product.before, errors, look * TRAFFIC // LOOKS_AN_HOUR)
        if not errors and told.reaches(level):
            return Seen(_first_look(product.before, level) / LOOKS_AN_HOUR, fewer, shortest)
        fewer = fewer or (errors > 0 and "fewer, not fixed" in say(told))
        errors += 1
    return Seen(None, fewer, shortest)


def _first_look(before: Before, level: float) -> int:
    """The number of the first look at which a product without an error is called fixed."""
    per_look = TRAFFIC // LOOKS_AN_HOUR
    first = -(-needed_exposure(before.errors, before.exposure, level) // per_look)
    assert compare(before, 0, first * per_look).reaches(level)
    assert not compare(before, 0, (first - 1) * per_look).reaches(level)
    return first


class Tally(NamedTuple):
    """Of many products: the shares called fixed and fewer, and the median of the time to "fixed" by the shortest."""

    fixed: float
    fewer: float
    delay: float


def simulate(seed: int, products: int, left: float, level: float, least: float = LEAST_RATE) -> Tally:
    """Watch so many products."""
    rng = random.Random(seed)
    seen = [watch(rng, make(rng, left, least), level) for _ in range(products)]
    delays = sorted(math.inf if one.fixed_after is None else one.fixed_after / one.shortest for one in seen)
    fixed = sum(one.fixed_after is not None for one in seen)
    return Tally(fixed / products, sum(one.fewer for one in seen) / products, delays[products // 2])
