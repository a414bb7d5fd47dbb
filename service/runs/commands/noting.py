"""Comments and agents' runs of a case, counted under its lock: a case takes so many of either (G-145)."""

from __future__ import annotations

import msgspec

from projections.cases import CASE_NOTES, CaseNotesRow
from service.eventstore.declare.commands import Unit
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.cases import agent_run, comment

_NOTES = load_query("cases", "notes_of_case")


async def count_notes(store: EventStore, project_id: str, case_id: str) -> CaseNotesRow:
    """Count the stored comments and agents' runs, before any lock."""
    [[comments, agent_runs]] = await store.fetch(
        _NOTES,
        project_id=project_id,
        case_id=case_id,
        most_comments=comment.MAX_COMMENTS,
        most_agent_runs=agent_run.MAX_AGENT_RUNS,
    )
    return CaseNotesRow(project_id=project_id, id=case_id, comments=comments, agent_runs=agent_runs)


def notes_of(unit: Unit, there: CaseNotesRow) -> CaseNotesRow:
    """The comments and agents' runs of a case, under its lock."""
    # The row counts all by releases with this row, and earlier ones of the batch. Older releases write beside it: their
    # notes were there before the lock. Nothing is ever removed. Neither number is too high: the higher one holds.
    known = unit.row(CASE_NOTES, there.project_id, there.id)
    if known is None:
        return there
    return msgspec.structs.replace(
        there,
        comments=max(known.comments, there.comments),
        agent_runs=max(known.agent_runs, there.agent_runs),
    )
