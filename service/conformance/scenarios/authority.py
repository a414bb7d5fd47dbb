"""Authority that ends or moves while the runner works."""

from __future__ import annotations

from collections.abc import Iterator

from service.conformance.judging.breaches import Breach, breach
from service.conformance.judging.repeats import looked_between
from service.conformance.play.part import KitPart
from service.conformance.scenarios.answers import refusal
from service.conformance.stage.trial import Trial
from service.conformance.stage.wire import ON_RUN, Exchange, Given, Tampering

MOST_WRITES = 2
MOST_TRIES = 3
MOST_LOOKS = 4
"""Reads a second while a person decides."""
_PRECONDITION_FAILED = 412


class LeaseOver(KitPart):
    """The lease ends while the runner works."""

    unpermitted = "R-AUT-30"

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:
        """Move the clock before the service sees the request."""
        if exchange.operation in {"renew", "approval", "authorize"} and self.first("lease"):
            self.strike(trial, exchange)
            trial.project.end_lease()
        return None

    def over(self, trial: Trial) -> bool:
        """When the runner has had its turn."""
        return self.hit is not None and self.given_up(trial)

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """No write under the old epoch."""
        for one in self.after_hit(trial, *ON_RUN):
            yield breach("R-AUT-30", "The runner went on writing after its lease had ended.", one)


class RunMoved(KitPart):
    """Another runner of the automation writes first, twice: the state revision is stale."""

    TIMES = ("authorize 1", "authorize 2")

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:
        """Move the run before the service sees the authorize."""
        if exchange.operation == "authorize" and any(self.first(name) for name in self.TIMES):
            trial.project.move(exchange.asked.path.split("/")[3])
        return None

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """A stale revision is sent once, and the loop has an end."""
        writes = trial.of(*ON_RUN)
        stale = [one for one in writes if one.code == "stale_state_revision"]
        for one in stale:
            later = next((other for other in writes if other.number > one.number), None)
            if later is not None and later.revision == one.revision:
                yield breach("R-AUT-30", f"The stale revision {one.revision} was sent again.", later)
        if len(stale) > len(self.TIMES):
            yield breach("R-AUT-30", f"{len(stale)} writes had a stale revision.", stale[-1])


class Precondition(KitPart):
    """One write is refused with 412."""

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:
        """Refuse the first authorize."""
        if exchange.operation == "authorize" and self.first("412"):
            self.strike(trial, exchange)
            body = refusal("precondition_failed", "The resource has changed.", current_etag='"run:2"')
            return Tampering("412 in its place", Given.of(_PRECONDITION_FAILED, body))
        return None

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """The runner looks before it writes again."""
        [*later] = self.after_hit(trial, *ON_RUN)
        if self.hit and later and not looked_between(trial, self.hit, later[0]):
            yield breach("G-009", "After 412 the runner wrote again without reading the run.", later[0])


class Pending(KitPart):
    """The owner takes three seconds to decide."""

    approve_after = 3.0

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """Wait, and do not hammer."""
        asked = next((one for one in trial.of("approval") if one.heard), None)
        if asked is None or not trial.decided_at:
            return
        waiting = [one for one in trial.exchanges if asked.answered_at <= one.asked.at < trial.decided_at]
        for one in waiting:
            if one.operation in {"authorize", "consume"}:
                yield breach("G-108", "The runner went on before the owner had decided.", one)
        seconds = max(trial.decided_at - asked.answered_at, 1.0)
        if len(waiting) > MOST_LOOKS * (seconds + 2):
            yield breach("G-012", f"{len(waiting)} requests in {seconds:.1f} s of waiting.", waiting[-1])


class Cancelled(KitPart):
    """The owner cancels the run just before its grant is consumed."""

    unpermitted = "R-AUT-51"

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:
        """Cancel before the service sees the consume."""
        if exchange.operation == "consume" and self.first("cancel"):
            self.strike(trial, exchange)
            trial.project.cancel(exchange.asked.path.split("/")[3])
        return None

    def over(self, trial: Trial) -> bool:
        """When the runner has had its turn."""
        return self.hit is not None and self.given_up(trial)

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """Stop."""
        later = self.after_hit(trial, *ON_RUN)
        if len(later) > MOST_WRITES:
            yield breach("R-AUT-51", f"{len(later)} writes after the run was cancelled.", later[-1])


class OutOfBounds(KitPart):
    """No change fits the contract."""

    unpermitted = "R-AUT-38"

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:
        """Take note of the first try."""
        if exchange.operation == "authorize" and self.first("authorize"):
            self.strike(trial, exchange)
        return None

    def over(self, trial: Trial) -> bool:
        """When the run has ended, or the runner leaves it alone."""
        return super().over(trial) or self.given_up(trial)

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """Declare what was changed, and take the refusal as an answer."""
        tries = trial.of("authorize")
        for one in tries:
            if one.accepted:
                yield breach("R-AUT-38", "The runner declared another change than the one it made.", one)
        if len(tries) > MOST_TRIES:
            yield breach("R-AUT-38", f"The runner tried {len(tries)} times to leave the bounds.", tries[-1])
