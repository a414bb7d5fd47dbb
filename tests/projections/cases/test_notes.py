"""Comments and records of agents' runs as rows (G-145, R-CASE-01)."""

from __future__ import annotations

from projections.cases import agent_run, comment
from statemachines.cases.agent_run import AgentRunRecorded
from statemachines.cases.comment import CommentWritten
from tests.projections.rows import check_row


def test_rows_show_their_streams():
    written = CommentWritten("case_1", "usr_1", "Seen.", 5)
    check_row(comment.PROJECTION, [written], {
        "revision": 1, "case_id": "case_1", "user_id": "usr_1", "text": "Seen.", "commented_at": 5,
    })  # fmt: skip
    recorded = AgentRunRecorded("case_1", "failed", None, "https://code.example/1", 5)
    check_row(agent_run.PROJECTION, [recorded], {
        "revision": 1, "case_id": "case_1", "status": "failed", "summary_md": None,
        "pr_url": "https://code.example/1", "recorded_at": 5,
    })  # fmt: skip
