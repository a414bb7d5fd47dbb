"""Decisions at the edge: why cases were offered, started on or passed over, to decide again (R-AUT-22, G-137)."""

from __future__ import annotations

from schemas.runs.decision import DecisionList, DecisionQuery
from service.eventstore.declare.commands import Answer
from service.http.edge.answer.paging import page, start_of
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import KEY
from service.runs import decision as show_decision
from service.runs.decision import DecisionFilter, decisions


@groups.AUTOMATION.get(
    "/v1/projects/{project_id}/automation-decisions", "List the decisions to offer, start or pass over cases"
)
@Who(KEY)
@Docs(DecisionList, extension=True)
async def list_automation_decisions(call: Call[None, DecisionQuery]) -> Answer:
    """List decisions, newest first: one for each time that the answer for a case changed, while the plan keeps it."""
    query = call.query
    passed = None if query.verdict is None else query.verdict == "passed"
    wanted = DecisionFilter(query.case_id, query.automation_id, passed)
    found = await decisions(call.services.store, call.project_id, start_of(query), query.limit + 1, wanted)
    shown, cursor = page(found, query, lambda item: item.place)
    body = DecisionList(
        project_id=call.project_id,
        decisions=[show_decision.decision(item.row) for item in shown],
        count=len(shown),
        next_cursor=cursor,
        next_action="You can recompute each decision from its inputs and thresholds.",
    )
    return Answer(200, body)


ENDPOINTS = [list_automation_decisions]
