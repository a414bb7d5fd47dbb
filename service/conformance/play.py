"""A scenario, its parts for a runner, and the play of one."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from service.conformance.judging import Breach, breach, judge_everywhere
from service.conformance.trial import Booking, Trial
from service.conformance.wire import Exchange, Tampering
from service.conformance.world import NOT_STARTED, Bounds, ServiceUnderPlay
from service.testing.shop import WorldFailed

# The kit's part in a scenario: how it meets requests, when the play is over, and its own rules.

APPROVE_SECONDS = 0.5
QUIET_SECONDS = 3.0
STARTS_AFTER = 2
DELIVERED = frozenset({"draft_pr_opened", "verifying", "succeeded"})


class KitPart:
    """Plays nothing special. `unpermitted` is the rule of an effect without permission.

    `approve_after` is how long an approval waits for its owner.
    """

    unpermitted = "R-AUT-31"
    approve_after: float | None = APPROVE_SECONDS

    def __init__(self) -> None:
        self.hit: Exchange | None = None
        self._hit_starts = 0
        self._met: set[str] = set()
        self._lock = threading.Lock()

    def error(self, trial: Trial) -> dict[str, Any] | None:  # noqa: ARG002
        """The error of the product. None: an ordinary one."""
        return None

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:  # noqa: ARG002
        """Do something about a request before it is passed on."""
        return None

    def tick(self, trial: Trial) -> None:
        """Do something between requests."""

    def over(self, trial: Trial) -> bool:
        """Whether the play is over."""
        return self.delivered(trial) or self.ended(trial)

    def judge(self, trial: Trial) -> Iterator[Breach]:  # noqa: ARG002
        """Breaches of this scenario alone."""
        yield from ()

    # ---- for parts

    def first(self, name: str) -> bool:
        """Whether this is the first call with a name."""
        with self._lock:
            new = name not in self._met
            self._met.add(name)
        return new

    def strike(self, trial: Trial, exchange: Exchange) -> None:
        """Remember the request of the turn."""
        self.hit = exchange
        self._hit_starts = trial.process.starts

    def delivered(self, trial: Trial) -> bool:
        """Whether the runner has reported its pull request."""
        return trial.run is not None and trial.run["status"] in DELIVERED

    def ended(self, trial: Trial) -> bool:
        """Whether the run has ended."""
        return trial.run is not None and trial.run["finished_at"] is not None

    def given_up(self, trial: Trial) -> bool:
        """Whether the runner has had its turn after the scenario's, and does nothing more."""
        if self.hit is None or trial.process.running:
            return self.hit is not None and time.time() - max(trial.active_at, self.hit.asked.at) > QUIET_SECONDS
        return trial.process.starts >= self._hit_starts + STARTS_AFTER

    def after_hit(self, trial: Trial, *operations: str) -> list[Exchange]:
        """The requests of some operations since the answer to the remembered one."""
        if self.hit is None:
            return []
        return [one for one in trial.of(*operations) if one.asked.at >= self.hit.answered_at and one is not self.hit]


class Scenario(NamedTuple):
    """A scenario of the kit. `rule` is named when the runner does not come to the end of it.

    One `on_request` is played by its name alone: not every right runner has to come to its end.
    """

    name: str
    rule: str
    plays: str
    right: str
    part: Callable[[], KitPart]
    bounds: Bounds = Bounds()
    moves_clock: bool = False
    on_request: bool = False


# The play itself: the runner is started as a scheduler does it, until the scenario is over, and once more.

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
    """Play one scenario to a new runner. Raises WorldFailed when the kit cannot."""
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
            raise WorldFailed(f"The runner could not be started: {trial.process.output().strip()[-500:]}")
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
