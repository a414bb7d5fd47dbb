"""Materiality decisions at the edge: what receipts and starts were decided on, to decide again (R-AUT-22)."""

from __future__ import annotations

from schemas.runs.decision import Decision, DecisionList, DecisionQuery
from service.eventstore.commands import Answer
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY
from service.http.runs.calls import read_receipts
from service.runs import show


@groups.AUTOMATION.operation(
    method="GET",
    path="/v1/projects/{project_id}/automation-decisions",
    operation_id="list_automation_decisions",
    summary="List the materiality decisions behind receipts and starts",
    principals=KEY,
    responses={200: DecisionList},
    extension=True,
)
async def list_decisions(call: Call[None, DecisionQuery]) -> Answer:
    """List decisions by receipt, newest first; `limit` counts receipts, each of which has one or two decisions."""
    found, cursor = await read_receipts(call, call.query, call.query.automation_id, None)
    items: list[Decision] = []
    for item in found:
        items += show.decisions(item.row.id, item.row.state)
    body = DecisionList(
        project_id=call.project_id,
        decisions=items,
        count=len(items),
        next_cursor=cursor,
        next_action="Decide any of them again from its inputs and thresholds; the answer is the same.",
    )
    return Answer(200, body)


ENDPOINTS = [list_decisions]
