"""What to do next in a project (R-PROJ-08 to R-PROJ-11, G-024)."""

from __future__ import annotations

from functools import cache

from schemas.projects import NextSteps
from service.eventstore.declare.commands import Answer
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import KEY
from service.http.edge.routes import all_endpoints
from service.onboarding.evidence import ask_about
from service.projects.next_steps import next_steps, standing_of

_CONNECTING = frozenset({"POST /v1/auth/provider", "POST /v1/auth/provider/poll"})
"""What answers 503 where no analytics provider is configured, or no key to seal its tokens with."""


@groups.PROJECTS.get("/v1/projects/{project_id}/next-steps", "Read a project's progress and its next steps")
@Who(KEY)
@Docs(NextSteps, errors=("rate_limited", "upstream_error", "upstream_timeout"), flows=frozenset({"install"}))
async def get_next_steps(call: Call[None, None]) -> Answer:
    """Show the project's state and what follows from it for the one who asks."""
    services = call.services
    asked = await ask_about(services.store, services.queries, call.project_id, call.principal.tenant)
    standing = await standing_of(services.store, asked, call.project_id, call.user_id)
    there = _built() if services.providers.oauth.configured else _built() - _CONNECTING
    return Answer(200, next_steps(standing, there, _of_owners()))


@cache
def _built() -> frozenset[str]:
    """The operations that do something, by method and path."""
    return frozenset(f"{e.operation.method} {e.operation.path}" for e in all_endpoints())


@cache
def _of_owners() -> frozenset[str]:
    """The operations that only an owner may call."""
    return frozenset(f"{e.operation.method} {e.operation.path}" for e in all_endpoints() if e.operation.owner)


ENDPOINTS = [get_next_steps]
