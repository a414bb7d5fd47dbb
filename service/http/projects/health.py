"""Whether a project's data arrives (R-PROJ-12, R-PROJ-13). Open also when the account's quota is locked."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas.projects.health import ProjectHealth, UsageThisMonth
from service.billing.usage import events_since, last_event_received_at, project_usage
from service.eventstore.commands import Answer
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY

HOUR = 3600
_STANDING = (
    "select (select max(d.recorded_at) from deploys d where d.project_id = %s), "
    "(select count(*) from cases c where c.project_id = %s and c.status = 'open')"
)


@groups.PROJECTS.operation(
    method="GET",
    path="/v1/projects/{project_id}/health",
    operation_id="get_project_health",
    summary="Read whether a project's data arrives",
    principals=KEY,
    responses={200: ProjectHealth},
)
async def get_project_health(call: Call[None, None]) -> Answer:
    """Show when data last arrived, how much of it, and what waits for attention."""
    project_id, store = call.project_id, call.services.store
    now = await store.now()
    month = datetime.fromtimestamp(now, UTC).replace(day=1, hour=0, minute=0, second=0)
    days = await project_usage(store, project_id, int(month.timestamp()), now)
    [[last_deploy_at, open_cases]] = await store.fetch(_STANDING, project_id, project_id)
    last_event = await last_event_received_at(store, project_id)
    errors, analytics, deploys = (sum(day[column] for day in days) for column in (1, 2, 3))
    return Answer(
        200,
        ProjectHealth(
            project_id=project_id,
            last_event_received_at=last_event,
            last_deploy_at=last_deploy_at,
            seconds_since_last_event=None if last_event is None else max(0, now - last_event),
            open_cases=open_cases,
            events_last_hour=await events_since(store, project_id, now - HOUR),
            usage_this_month=UsageThisMonth(
                period=f"{month:%Y-%m}",
                total_events=errors + analytics + deploys,
                errors=errors,
                analytics=analytics,
                deploys=deploys,
            ),
            webhooks=[],
            next_action=_advice(last_event, open_cases),
        ),
    )


def _advice(last_event: int | None, open_cases: int) -> str:
    if last_event is None:
        return "Nothing has arrived yet: send a first event with the project's DSN."
    if open_cases:
        return "List the open cases and start with the one that affects the most people."
    return "Nothing waits for attention."


ENDPOINTS = [get_project_health]
