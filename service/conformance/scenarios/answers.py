"""Answers that are lost, late or refused for a while."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.conformance.judging.breaches import Breach, breach
from service.conformance.judging.effects import granted, permission
from service.conformance.play.part import KitPart
from service.conformance.stage.trial import Trial
from service.conformance.stage.wire import Exchange, Given, Tampering

RETRY_AFTER = "2"
_TOO_MANY, _UNAVAILABLE = 429, 503


def refusal(code: str, message: str, **details: Any) -> dict[str, Any]:
    """The body of a refusal, in the form of automation's operations."""
    return {"error": {"code": code, "message": message, "next_action": "Read the guide.", "details": details}}


class Happy(KitPart):
    """Nothing goes wrong. CI proves the pull request and records its deploy."""

    def __init__(self) -> None:
        super().__init__()
        self._proven = False

    def tick(self, trial: Trial) -> None:
        """Be CI, once."""
        grant = granted(trial)
        if not self._proven and grant is not None and trial.run and trial.run["status"] == "draft_pr_opened":
            trial.project.prove(trial.run, grant.body)
            trial.project.deploy(grant.body["head_sha"])
            self._proven = True

    def over(self, trial: Trial) -> bool:
        """When the deploy is verified, or the run has ended."""
        return (self._proven and self.delivered(trial)) or self.ended(trial)

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """The whole sequence, with one pull request."""
        if not self.delivered(trial):
            status = trial.run["status"] if trial.run else "not started"
            yield breach("R-AUT-36", f"The run should have opened its pull request, and is {status}.")
        elif permission(trial) is None:
            yield breach("R-AUT-36", "The pull request has no consumed grant.")
        elif trial.host.visits and not trial.host.pulls:
            yield breach("R-AUT-36", "The code host has no pull request.")


class LostAnswers(KitPart):
    """The first answer to each write but the consume is lost, after the service has done it."""

    LOST = frozenset({"claim", "start", "usage", "approval", "authorize", "report"})

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:  # noqa: ARG002
        """Lose the first of each."""
        if exchange.operation in self.LOST and self.first(exchange.operation):
            return Tampering("its answer is lost", lost=True)
        return None

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """There is one run."""
        if len(trial.latest) > 1:
            yield breach("R-AUT-29", f"One receipt led to {len(trial.latest)} runs.")


class LostConsume(KitPart):
    """The answer to the consume is lost: nobody may act on that grant any more."""

    unpermitted = "R-AUT-32"

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:
        """Lose it."""
        if exchange.operation == "consume" and self.first("consume"):
            self.strike(trial, exchange)
            return Tampering("its answer is lost", lost=True)
        return None

    def over(self, trial: Trial) -> bool:
        """When the run has ended, or the runner leaves it alone."""
        return self.hit is not None and (super().over(trial) or self.given_up(trial))


class TooBusy(KitPart):
    """Some requests are refused for two seconds."""

    STATUS = _TOO_MANY
    CODE = "rate_limited"
    REFUSED = frozenset({"start", "consume"})

    def meet(self, trial: Trial, exchange: Exchange) -> Tampering | None:  # noqa: ARG002
        """Refuse the first of each."""
        if exchange.operation in self.REFUSED and self.first(exchange.operation):
            headers = {"retry-after": RETRY_AFTER}
            given = Given.of(self.STATUS, refusal(self.CODE, "Wait, then send it again."), headers)
            return Tampering(f"{self.STATUS}, Retry-After: {RETRY_AFTER}", given)
        return None


class Down(TooBusy):
    """The service is out of order for two seconds, several times."""

    STATUS = _UNAVAILABLE
    CODE = "service_unavailable"
    REFUSED = frozenset({"read", "usage", "authorize"})
