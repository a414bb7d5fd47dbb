"""Comments of members on cases, as rows (G-145)."""

from __future__ import annotations

from projections.kernel.projection import Row, projection
from statemachines.cases.comment import CommentWritten
from statemachines.kernel.machine import Recorded


class CommentRow(Row, frozen=True, kw_only=True):
    """A comment; `commented_at` in epoch seconds."""

    case_id: str
    user_id: str
    text: str
    commented_at: int


def fold(row: CommentRow | None, recorded: Recorded) -> CommentRow | None:
    """Fold an event of a comment into its row."""
    match recorded.event:
        case CommentWritten() as event:
            return CommentRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                case_id=event.case_id,
                user_id=event.user_id,
                text=event.text,
                commented_at=event.commented_at,
            )
    return row


PROJECTION = projection("case_comments", CommentRow, ("cmt",), fold)
