"""Facts outside streams: how many comments and agents' runs a case has (G-145, R-CASE-01)."""

from __future__ import annotations

import msgspec

from projections.kernel.projection import Table


class CaseNotesRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted under the lock of a case, whose id is `id`. A case without a row: nothing yet."""

    project_id: str
    id: str
    comments: int = 0
    agent_runs: int = 0


CASE_NOTES = Table("case_notes", CaseNotesRow, ("project_id", "id"))
