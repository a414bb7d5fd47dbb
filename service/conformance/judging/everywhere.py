"""The rules of every scenario, in one place."""

from __future__ import annotations

from collections.abc import Iterator

from service.conformance.judging import effects, repeats, secrets
from service.conformance.judging.breaches import Breach
from service.conformance.stage.trial import Trial


def judge_everywhere(trial: Trial, unpermitted: str) -> Iterator[Breach]:
    """Look for every breach. `unpermitted` is the rule of an effect without permission."""
    yield from secrets.leaks(trial)
    yield from secrets.astray(trial)
    yield from effects.unpermitted(trial, unpermitted)
    yield from effects.once(trial)
    yield from effects.as_granted(trial)
    yield from effects.charged(trial)
    yield from repeats.lost(trial)
    yield from repeats.waited(trial)
    yield from repeats.blind(trial)
