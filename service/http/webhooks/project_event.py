"""A project's events at the edge, for callers without a receiver (G-161)."""

from __future__ import annotations

from schemas.webhooks import ProjectEvent, ProjectEventList, ProjectEventQuery
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import KEY
from service.webhooks.queueing import events_of
from service.webhooks.testing import DOCUMENTED, TOPICS


@groups.WEBHOOKS.get(
    "/v1/projects/{project_id}/project-events",
    "List a project's events in the order of the log, as webhooks are told of them",
)
@Who(KEY)
@Docs(ProjectEventList, extension=True)
async def list_project_events(call: Call[None, ProjectEventQuery]) -> Answer:
    """List events after a position."""
    query = call.query
    names = DOCUMENTED if query.names is None else frozenset(query.names.split(","))
    if names - set(TOPICS):
        raise InvalidPayload(
            "A parameter is not acceptable.", invalid=[("names", "must be names of events, parted by commas")]
        )
    found, next_after = await events_of(call.services.store, call.project_id, names, query.after, query.limit)
    events = [
        ProjectEvent(
            id=one.told.id, event=one.told.event, position=one.position, created_at=one.told.created_at, data=one.data
        )
        for one in found
    ]
    shown = ProjectEventList(
        project_id=call.project_id,
        events=events,
        next_after=next_after,
        next_action="Poll on with after, as next_after says.",
    )
    return Answer(200, shown)


ENDPOINTS = [list_project_events]
