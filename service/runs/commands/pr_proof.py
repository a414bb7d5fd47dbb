"""What a trusted CI says: take in its proof of the pull request, and bind its deploy to the run (G-110, R-AUT-43)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from projections.cases import CASE_NOTES, CaseNotesRow
from projections.runs import RunRow
from service.eventstore.declare.commands import Intent, Lookup, Refused, Unit
from service.runs.commands.noting import notes_of
from service.runs.commands.scope import Ran, RunScope
from statemachines.cases import case as cases
from statemachines.cases import comment
from statemachines.kernel.machine import derived_id
from statemachines.runs.steps.book import Book, Effects
from statemachines.runs.steps.prove_pull_request import CLOSED_UNMERGED, ObservedPr, record_proof
from statemachines.runs.steps.results import bind_deploy
from statemachines.runs.verdict import BoundDeploy

AUTHOR = "system"
"""Who writes a comment that nobody wrote."""


def record(row: RunRow, observed: ObservedPr, notes: CaseNotesRow | None = None) -> Intent[Ran[str]]:
    """Take in what a CI observed; the result is the proof's id.

    `notes` are those of the run's case. With them a run that ends with its pull request leaves a comment (G-187).
    """

    def act(book: Book, now: int) -> tuple[str, Effects]:
        settled = record_proof(book, observed, now)
        return settled.proof_id, settled.effects

    intent = RunScope.of(row).intent(act)
    return intent if notes is None else _with_comment(intent, row, observed.pr_number, notes)


def _with_comment(intent: Intent[Ran[str]], row: RunRow, number: int, there: CaseNotesRow) -> Intent[Ran[str]]:
    """Comment on the case in the same unit. A case that is full of comments gets none."""
    case = cases.stream(row.project_id, there.id)
    written = comment.stream(row.project_id, derived_id("cmt", row.id, CLOSED_UNMERGED))

    def decide(unit: Unit) -> Ran[str] | Refused:
        ran = intent.decide(unit)
        if isinstance(ran, Refused) or not ran.changed or ran.book.run.reason != CLOSED_UNMERGED:
            return ran
        notes = notes_of(unit, there)
        if notes.comments < comment.MAX_COMMENTS:
            text = f"Pull request {number} of {row.id} was closed without a merge. The run has failed."
            unit.append(written, comment.decide_write(unit.state(written), case.id, AUTHOR, text, unit.now))
            unit.put(case, CASE_NOTES, msgspec.structs.replace(notes, comments=notes.comments + 1))
        return ran

    return Intent(
        [*intent.streams, case, written],
        decide,
        reads=intent.reads,
        lookups=[*intent.lookups, Lookup(CASE_NOTES, row.project_id, case.id)],
    )


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
