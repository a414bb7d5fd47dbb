"""What to do next in a project (R-PROJ-08 to R-PROJ-11, G-024)."""

from __future__ import annotations

from schemas.projects.next_steps import NextSteps
from service.eventstore.commands import Answer
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY
from service.projects.reads.next_steps import standing_of
from service.projects.show.next_steps import next_steps


@groups.PROJECTS.operation(
    method="GET",
    path="/v1/projects/{project_id}/next-steps",
    operation_id="get_next_steps",
    summary="Read how far a project has come and what to do next",
    principals=KEY,
    responses={200: NextSteps},
    flows=frozenset({"install"}),
)
async def get_next_steps(call: Call[None, None]) -> Answer:
    """Show the project's state and what follows from it."""
    return Answer(200, next_steps(await standing_of(call.services.store, call.project_id)))


ENDPOINTS = [get_next_steps]
