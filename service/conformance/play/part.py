"""The kit's part in a scenario: how it meets requests, when the play is over, and its own rules."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from service.conformance.judging.breaches import Breach
from service.conformance.stage.trial import Trial
from service.conformance.stage.wire import Exchange, Tampering
from service.conformance.stage.world import Bounds

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
