"""The play itself: the runner is started as a scheduler does it, until the scenario is over, and once more."""

from __future__ import annotations

import time
from typing import NamedTuple

from service.conformance.judging.breaches import Breach, breach
from service.conformance.judging.everywhere import judge_everywhere
from service.conformance.play.part import KitPart, Scenario
from service.conformance.stage.trial import Booking, Trial
from service.conformance.stage.world import NOT_STARTED, CannotPlay, ServiceUnderPlay

EVERY_SECONDS = 1.0
"""How soon after its end the runner is started again."""
STEP_SECONDS = 0.05
LOOK_SECONDS = 0.25
SETTLE_SECONDS = 1.0
LAST_SECONDS = 10.0


class Played(NamedTuple):
    """How one scenario went."""

    scenario: Scenario
    breaches: list[Breach]
    seconds: float
    starts: int
    requests: int

    @property
    def passed(self) -> bool:
        """Whether no rule was broken."""
        return not self.breaches


def play(scenario: Scenario, installation: ServiceUnderPlay, order: Booking, timeout: float) -> Played:
    """Play one scenario to a new runner. Raises CannotPlay when the kit cannot."""
    began = time.monotonic()
    part = scenario.part()
    with Trial(installation, order) as trial:
        trial.set_up(lambda exchange: part.meet(trial, exchange), part.error(trial))
        late = not _until_over(part, trial, timeout)
        if not late:
            _once_more(trial)
        trial.process.stop()
        trial.look(None)
        if not trial.exchanges and set(trial.process.codes) & NOT_STARTED:
            raise CannotPlay(f"The runner could not be started: {trial.process.output().strip()[-500:]}")
        breaches = [*part.judge(trial), *judge_everywhere(trial, part.unpermitted)]
        if late:
            breaches.append(_too_late(scenario, trial, timeout))
        unique = list(dict.fromkeys(breaches))
        return Played(scenario, unique, time.monotonic() - began, trial.process.starts, len(trial.exchanges))


def _until_over(part: KitPart, trial: Trial, timeout: float) -> bool:
    """Start the runner again and again. Whether the scenario came to its end in time."""
    until = time.monotonic() + timeout
    looked = 0.0
    trial.process.start()
    while time.monotonic() < until:
        time.sleep(STEP_SECONDS)
        if time.monotonic() - looked >= LOOK_SECONDS:
            looked = time.monotonic()
            trial.look(part.approve_after)
            part.tick(trial)
            if part.over(trial):
                return True
        ready = max(trial.process.ended_at + EVERY_SECONDS, trial.proxy.busy_until)
        if not trial.process.running and time.time() >= ready:
            if not trial.exchanges and set(trial.process.codes) & NOT_STARTED:
                return True
            trial.process.start()
    return False


def _once_more(trial: Trial) -> None:
    """Let the runner finish, and start it once more: a right one finds nothing to do."""
    _let_end(trial)
    if not trial.process.running and trial.proxy.busy_until - time.time() < EVERY_SECONDS:
        time.sleep(max(0.0, trial.proxy.busy_until - time.time()))
        trial.process.start()
        _let_end(trial)


def _let_end(trial: Trial) -> None:
    """Wait until the runner has ended, or stays and is quiet."""
    began = time.time()
    until = began + LAST_SECONDS
    while trial.process.running and time.time() < until:
        if time.time() - max(trial.active_at, began) > SETTLE_SECONDS and trial.active_at > 0:
            return
        time.sleep(STEP_SECONDS)


def _too_late(scenario: Scenario, trial: Trial, timeout: float) -> Breach:
    sent = trial.exchanges
    if not sent:
        return breach(scenario.rule, f"The runner asked the service nothing within {timeout:.0f} s.")
    said = trial.process.output().strip().splitlines()
    last = f" Its last line: {said[-1][:200]}" if said else ""
    return breach(scenario.rule, f"It came to no end within {timeout:.0f} s.{last}", sent[-1])
