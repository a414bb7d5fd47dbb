"""What agents did about cases, as members recorded it, as rows (R-CASE-01)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.cases.agent_run import AgentRunRecorded
from statemachines.kernel.machine import Recorded


class AgentRunRow(Row, frozen=True, kw_only=True):
    """A record; `status` is the outcome, `recorded_at` in epoch seconds."""

    case_id: str
    status: str
    summary_md: str | None
    pr_url: str | None
    recorded_at: int


def fold(row: AgentRunRow | None, recorded: Recorded) -> AgentRunRow | None:
    """Fold an event of a record into its row."""
    match recorded.event:
        case AgentRunRecorded() as event:
            return AgentRunRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                case_id=event.case_id,
                status=event.outcome,
                summary_md=event.summary_md,
                pr_url=event.pr_url,
                recorded_at=event.recorded_at,
            )
    return row


PROJECTION = projection("case_runs", AgentRunRow, ("arun",), fold)
