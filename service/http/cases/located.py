"""What the operations on a case share, of whichever area."""

from __future__ import annotations

from projections.cases import CASES
from service.http.edge.declare.operations import Subject

CASE_LOCATED = Subject("case_id", CASES, "case_not_found", located=True)
"""The case that a path names. Only its name is taken from the row, which may be an older one."""
