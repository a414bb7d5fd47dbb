"""Requests sent again: the same after a lost answer or a wait, and never in a blind loop."""

from __future__ import annotations

from collections.abc import Iterator

from service.conformance.judging.breaches import Breach, breach
from service.conformance.stage.trial import Trial
from service.conformance.stage.wire import WRITES, Exchange

EARLY_SECONDS = 0.1
"""How much too early is on time: clocks of two programs."""
MOST_REFUSALS = 3
RULES = {202: "R-ERR-14", 429: "G-012", 503: "R-ERR-08"}
"""The rule of each status that tells a runner to wait."""


def next_of(trial: Trial, one: Exchange) -> Exchange | None:
    """The next request for the same operation of the same object."""
    return next((other for other in trial.exchanges if other.number > one.number and other.same_target(one)), None)


def looked_between(trial: Trial, one: Exchange, other: Exchange) -> bool:
    """Whether the runner read where it stands between two requests."""
    return any(each.looks and one.number < each.number < other.number for each in trial.exchanges)


def lost(trial: Trial) -> Iterator[Breach]:
    """After a lost answer comes the same request with the same key, or a look at the result."""
    for one in trial.of(*WRITES):
        again = next_of(trial, one) if one.status is None else None
        if again is None or again.repeats(one):
            continue
        looked = looked_between(trial, one, again)
        if not looked or (one.key is not None and again.intent == one.intent):
            told = "After a lost answer, the same request came with another key or body"
            yield breach("G-008", f"{told} than #{one.number} (key {one.key}).", again)


def waited(trial: Trial) -> Iterator[Breach]:
    """A refused request comes again after Retry-After, with its key."""
    for one in trial.exchanges:
        again = next_of(trial, one) if one.retry_after else None
        if again is None or one.status not in RULES:
            continue
        after = again.asked.at - one.answered_at
        if after < one.retry_after - EARLY_SECONDS:
            told = f"Retry-After of #{one.number} was {one.retry_after:.0f} s, and it came again after {after:.2f} s."
            yield breach(RULES[one.status], told, again)
        elif one.refused and one.operation in WRITES and not again.repeats(one):
            yield breach("R-ERR-08", f"The retry of #{one.number} has another key or body.", again)


def blind(trial: Trial) -> Iterator[Breach]:
    """A final refusal ends a request."""
    refused: dict[tuple[str, str, str | None, bytes], int] = {}
    for one in trial.exchanges:
        if not one.refused or one.retry_after or one.fault:
            continue
        same = (one.operation, one.asked.path, one.key, one.asked.body)
        refused[same] = refused.get(same, 0) + 1
        if refused[same] == MOST_REFUSALS + 1:
            yield breach("R-ERR-09", f"The same refused request came {refused[same]} times.", one)
