"""Verification: judge what was counted since the deploy of a run (G-111, R-AUT-44, R-AUT-45)."""

from __future__ import annotations

from projections.runs import RunRow
from service.eventstore.declare.commands import Intent, Unit
from service.runs.commands.scope import Ran, RunScope
from statemachines.cases import case as cases
from statemachines.runs.steps.end_run import telling_what_is_left
from statemachines.runs.steps.results import Counts, verify_run
from statemachines.runs.verdict import Verdict


def verify(row: RunRow, counts: Counts | None) -> Intent[Ran[Verdict]]:
    """Judge what was counted since the run's deploy; success closes the case (G-050, G-111).

    `counts` are None when the outcome stood already: whoever asks again is still judged by the authority of now.
    """
    scope = RunScope.of(row)
    stream = None if row.case_id is None else cases.stream(row.project_id, row.case_id)

    def decide(unit: Unit) -> Ran[Verdict]:
        book = scope.open(unit)
        with telling_what_is_left(book, unit.now):
            verdict, effects = verify_run(book, counts, unit.now)
        if verdict.passed and effects and stream is not None:
            deployed_at = verdict.sample.observed_from
            unit.append(stream, cases.decide_resolve(unit.state(stream), row.id, unit.now, deployed_at))
        return Ran(verdict, scope.carry_out(unit, effects), bool(effects))

    return Intent([*scope.streams, *([] if stream is None else [stream])], decide, reads=scope.reads)
