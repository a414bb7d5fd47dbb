"""Auto-merge: the runner turns it on under a second grant, once, and the code host merges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.conformance.judging.breaches import Breach, breach
from service.conformance.judging.effects import granted
from service.conformance.play.part import KitPart
from service.conformance.stage.trial import Trial
from service.conformance.stage.wire import HostVisit
from service.conformance.stage.world import BY_HOST, CHECKS

MERGED = "c" * 40
PROTECTED = {
    "branch_protection_enforced": True,
    "bypass_used": False,
    "required_status_checks": [{"name": name, "conclusion": "success"} for name in CHECKS],
}
OBSERVATIONS = ("pr_opened", "checks_passed", "auto_merge_enabled", "merged")


class AutoMerge(KitPart):
    """CI proves each step as soon as it has come to be. The checks succeed once the pull request is proven open."""

    def __init__(self) -> None:
        super().__init__()
        self._proven: list[str] = []

    def tick(self, trial: Trial) -> None:
        """Be CI and the code host: take the one next step."""
        grant = granted(trial)
        if grant is None or not self.delivered(trial) or self.ended(trial) or trial.run is None:
            return
        facts = self._next(trial)
        if facts is not None and not _unpermitted(trial):
            observation = OBSERVATIONS[len(self._proven)]
            trial.project.prove(trial.run, grant.body, observation, **facts)
            self._proven.append(observation)
            if observation == "merged":
                trial.project.deploy(MERGED)

    def _next(self, trial: Trial) -> dict[str, Any] | None:
        """The facts of the next observation. None while there is nothing to observe."""
        method = BY_HOST["merge_method"]
        match len(self._proven):
            case 0:
                return {}
            case 1:
                trial.host.checks = dict.fromkeys(CHECKS, "success")
                return PROTECTED | {"auto_merge_enabled": False}
            case 2 if any(pull["merges_by"] is not None for pull in trial.host.pulls):
                return PROTECTED | {"auto_merge_enabled": True, "merge_method": method}
            case 3:
                return PROTECTED | {"merge_method": method, "merge_commit_sha": MERGED}
        return None

    def over(self, trial: Trial) -> bool:
        """When the merge is proven, the run has ended, or auto-merge was asked for without permission."""
        return self._proven == list(OBSERVATIONS) or self.ended(trial) or bool(_unpermitted(trial))

    def judge(self, trial: Trial) -> Iterator[Breach]:
        """Auto-merge is on, by the contract's method, and was asked for with permission alone."""
        if len(self._proven) < len(OBSERVATIONS):
            last = self._proven[-1] if self._proven else "nothing"
            yield breach("R-AUT-40", f"The host should have merged by itself. The last that CI saw was {last}.")
        for visit in _unpermitted(trial):
            told = "Auto-merge was asked for without a consume of its own that said call_authorized."
            yield breach("R-AUT-40", told, visit)
        for pull in trial.host.pulls:
            if pull["merges_by"] not in (None, BY_HOST["merge_method"]):
                yield breach("R-AUT-40", f"Auto-merge is on with {pull['merges_by']}, which was not granted.")


def _permission(trial: Trial) -> float:
    """When the runner heard that it may turn auto-merge on."""
    heard = [one for one in trial.of("consume_merge") if one.heard and one.answer.get("call_authorized") is True]
    return heard[0].answered_at if heard else float("inf")


def _unpermitted(trial: Trial) -> list[HostVisit]:
    """The requests for auto-merge before that."""
    allowed = _permission(trial)
    return [visit for visit in trial.host.visits if visit.asked.path == "/graphql" and visit.asked.at < allowed]
