"""Reading the signal map (R-MAP-01 to R-MAP-03, G-060)."""

from __future__ import annotations

from projections.onboarding.signal_map import SIGNAL_MAPS
from schemas.onboarding.signal_map import SignalMap
from service.eventstore.commands import Answer
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY
from service.onboarding.show import evidence_status
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.signal_map import SignalMapNotFound


@groups.SIGNAL_MAP.operation(
    method="GET",
    path="/v1/projects/{project_id}/signal-map",
    operation_id="get_signal_map",
    summary="Read what a project's events and failures mean",
    principals=KEY,
    responses={200: SignalMap},
    flows=frozenset({"install", "onboarding", "automation"}),
    errors=("signal_map_not_found",),
)
async def get_signal_map(call: Call[None, None]) -> Answer:
    """Show the approved plan as a map; 404 while none is approved."""
    row = await call.services.store.get(SIGNAL_MAPS, call.project_id, signal_maps.stream(call.project_id).id)
    if row is None:
        raise SignalMapNotFound(
            "No plan has been approved for this project.",
            next_action="Start an onboarding, and have its plan approved by a human.",
        )
    plan = row.plan
    body = SignalMap(
        project_id=row.project_id,
        plan_sha256=row.plan_sha256,
        business_question=plan.business_question,
        plan_markdown=plan.plan_markdown,
        source_snapshot=plan.source_snapshot,
        historical_evidence=plan.historical_evidence,
        evidence_status=evidence_status(plan, row.receipt),
        milestones=plan.milestones,
        failures=plan.failures,
        deploy=plan.deploy,
        receipt=row.receipt,
    )
    return Answer(200, body)


ENDPOINTS = [get_signal_map]
