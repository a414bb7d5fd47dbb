"""Whether a project's data arrives (R-PROJ-12). Open also when the account's quota is locked."""

from __future__ import annotations

from schemas.projects import HealthQuery, ProjectHealth
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import KEY
from service.projects.health import health_of, project_health
from service.webhooks.webhook import health as show_webhooks
from service.webhooks.webhook import webhooks_of


@groups.PROJECTS.get("/v1/projects/{project_id}/health", "Read the health of a project's data")
@Who(KEY)
@Docs(ProjectHealth)
async def get_project_health(call: Call[None, HealthQuery]) -> Answer:
    """Show when data last arrived, how much of it, and what waits for attention."""
    health = await health_of(call.services.store, call.project_id, call.query.days)
    webhooks = show_webhooks(await webhooks_of(call.services.store, call.project_id))
    return Answer(200, project_health(call.project_id, health, call.services.settings.new_cases_per_hour, webhooks))


ENDPOINTS = [get_project_health]
