"""Whether a deployed fix holds: recurrence first, then traffic, both counted by the server (G-111, R-AUT-44, R-AUT-45).

Zero traffic is never success: it is pending until the deadline and a failure from then on.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from statemachines.contracts.policy import VerificationTerms

Outcome = Literal["pending", "no_recurrence", "recurred", "insufficient_traffic"]


class Counts(msgspec.Struct, frozen=True):
    """What a provider counted from the deploy up to `observed_to`: sample events, and errors of the fingerprint."""

    sample: int
    recurrences: int
    observed_to: int


class Sample(msgspec.Struct, frozen=True):
    """The evidence behind an outcome."""

    event: str
    count: int
    minimum: int
    recurrence_count: int
    observed_from: int
    observed_to: int


class Verdict(msgspec.Struct, frozen=True):
    """An outcome with its evidence; `passed` is true for `no_recurrence` alone."""

    outcome: Outcome
    sample: Sample
    passed: bool


def observation_end(terms: VerificationTerms, deployed_at: int, now: int) -> int:
    """Last instant that counts when reading at `now`: what happens after the deadline decides nothing."""
    return min(now, deployed_at + terms.max_wait_seconds)


def decide_verification(terms: VerificationTerms, deployed_at: int, counts: Counts, now: int) -> Verdict:
    """Judge the counts of a deploy made at `deployed_at`."""
    sample = Sample(
        event=terms.traffic_sample_event,
        count=counts.sample,
        minimum=terms.min_sample_size,
        recurrence_count=counts.recurrences,
        observed_from=deployed_at,
        observed_to=counts.observed_to,
    )
    outcome: Outcome = "pending"
    if counts.recurrences > 0:
        outcome = "recurred"
    elif counts.sample >= max(1, terms.min_sample_size) and now >= deployed_at + terms.observation_window_seconds:
        outcome = "no_recurrence"
    elif now >= deployed_at + terms.max_wait_seconds:
        outcome = "insufficient_traffic"
    return Verdict(outcome, sample, passed=outcome == "no_recurrence")
