"""How an answered query is shown (G-066). Every `next_action` is a fixed sentence."""

from __future__ import annotations

from schemas.analytics.query import QueryAnswer
from service.analytics.bounded.answers import Table

_ANSWER = "Answer with the rows, and say how fresh they are and what they rest on."
_INCOMPLETE = "Say that the window is not whole: it begins before evidence.kept_from."
_TRUNCATED = "Raise limit, or ask for less: there are more rows than these."
_NOTHING = "Nothing was found. Check the filters, the window and the names of events and properties."


def answer(project_id: str, table: Table) -> QueryAnswer:
    """An answered query."""
    return QueryAnswer(
        project_id=project_id,
        rows=table.rows,
        columns=table.columns,
        row_count=len(table.rows),
        truncated=table.truncated,
        evidence=table.evidence,
        freshness=table.freshness,
        next_action=_advice(table),
    )


def _advice(table: Table) -> str:
    if table.truncated:
        return _TRUNCATED
    if not table.rows:
        return _NOTHING
    return _ANSWER if table.evidence.complete else _INCOMPLETE
