"""Reading the signal map (R-MAP-01 to R-MAP-03, G-060)."""

from __future__ import annotations

from schemas.kernel.as_of import AsOfQuery
from schemas.onboarding.signal_map import SignalMap
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.operations import KEY
from service.onboarding import reads, show


@groups.SIGNAL_MAP.operation(
    method="GET",
    path="/v1/projects/{project_id}/signal-map",
    operation_id="get_signal_map",
    summary="Read the signal map of a project",
    principals=KEY,
    responses={200: SignalMap},
    flows=frozenset({"install", "onboarding", "automation"}),
    as_of=True,
    errors=("signal_map_not_found",),
)
async def get_signal_map(call: Call[None, AsOfQuery]) -> Answer:
    """Show the approved plan as a map; 404 while none is approved."""
    return Answer(200, show.signal_map(await reads.signal_map(call.rows, call.project_id)))


ENDPOINTS = [get_signal_map]
