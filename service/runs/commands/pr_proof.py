"""What a trusted CI says: take in its proof of the pull request, and bind its deploy to the run (G-110, R-AUT-43)."""

from __future__ import annotations

from dataclasses import dataclass

from projections.runs.run import RunRow
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from service.runs.commands.scope import Ran, RunScope
from statemachines.runs.events import BoundDeploy
from statemachines.runs.steps.bind_deploy import bind_deploy
from statemachines.runs.steps.book import Book, Effects
from statemachines.runs.steps.prove_pull_request import ObservedPr, record_proof


def record(row: RunRow, observed: ObservedPr) -> Intent[Ran[str]]:
    """Take in what a CI observed; the result is the proof's id."""

    def act(book: Book, now: int) -> tuple[str, Effects]:
        settled = record_proof(book, observed, now)
        return settled.proof_id, settled.effects

    return RunScope.of(row).intent(act)


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that waits for a deploy, as read before the locks: the deploy is bound in the deploy's own unit."""

    scope: RunScope

    @classmethod
    def of(cls, row: RunRow) -> WaitingRun:
        """Name what binding a deploy reads, and the run, which alone it writes."""
        return cls(RunScope.of(row, writes=frozenset({"run"})))

    def bind(self, unit: Unit, deploy: BoundDeploy) -> str | None:
        """Bind the deploy if the run still waits for it; returns the run's id then. Raises Moved."""
        effects = bind_deploy(self.scope.open(unit), deploy, unit.now)
        self.scope.carry_out(unit, effects)
        return self.scope.run_id if effects else None
