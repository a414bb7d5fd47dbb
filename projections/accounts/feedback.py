"""Feedback of a person: facts outside streams, in the scope of the person (G-158)."""

from __future__ import annotations

import msgspec

from projections.kernel.projection import Table


class FeedbackRow(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback as it was first sent. `project_id` is the scope, the user id; `about_project` the project, if any.

    `details` is JSON. `occurrences` counts the first one too. Times are in epoch seconds.
    """

    project_id: str
    id: str
    kind: str
    fingerprint: str
    title: str
    body_md: str | None
    severity: str | None
    about_project: str | None
    operation: str | None
    request_id: str | None
    details: str | None
    occurrences: int
    created_at: int
    last_at: int


class FeedbackCountRow(msgspec.Struct, frozen=True, kw_only=True):
    """The number of rows of a person, by the stream of the person. A view, no table."""

    project_id: str
    id: str
    kept: int


FEEDBACK = Table("feedback", FeedbackRow, ("project_id", "id"))
FEEDBACK_COUNTS = Table("feedback_counts", FeedbackCountRow, ("project_id", "id"))
