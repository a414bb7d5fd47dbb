"""Projects: the list, and a new one (R-PROJ-01, R-PROJ-02, R-PROJ-15, G-023)."""

from functools import cache, partial

from litestar.di import NamedDependency
from litestar.params import JSONBody

from schemas.kernel.shape import PageQuery
from schemas.projects import CreateProject, HealthQuery, NextSteps, ProjectCreatedBody, ProjectHealth, ProjectList
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.http.edge.routes import all_endpoints
from service.onboarding.evidence import ask_about
from service.projects import project as project_commands
from service.projects import project as reads
from service.projects import project as show
from service.projects.health import health_of, project_health
from service.projects.next_steps import next_steps, standing_of
from service.webhooks.webhook import health as show_webhooks
from service.webhooks.webhook import webhooks_of


@groups.PROJECTS.get("/v1/projects", "List your projects")
@Who(KEY)
@Docs(ProjectList, flows=frozenset({"install", "provider"}))
async def list_projects(call: Call, params: NamedDependency[PageQuery]) -> Answer:
    """List the caller's projects, newest first."""
    found = await reads.projects_of(call.services.store, call.user_id, start_of(params), params.limit + 1)
    projects, cursor = page(found, params, lambda project: PageEnd(project.created_at, project.id))
    can_unseal = call.services.settings.encryption_key is not None
    return Answer(200, show.project_list(projects, cursor, can_unseal=can_unseal))


@groups.PROJECTS.post("/v1/projects", "Create a project and receive its DSN")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs({201: ProjectCreatedBody}, flows=frozenset({"install", "onboarding", "provider"}))
async def create_project(call: Call, data: JSONBody[CreateProject]) -> Outcome:
    """Make a project that the caller owns. A replay of the request shows everything but the DSN."""
    intent = project_commands.create(call.user_id, data.name, call.services.settings.encryption_key)
    return await call.carry_out(intent, partial(_created, call.services.settings.base_url))


def _created(base_url: str, issued: show.IssuedDsn) -> Answer:
    shown, stored = (show.project_created(base_url, issued, raw=raw) for raw in (True, False))
    return Answer(201, shown, stored=stored)


# Whether a project's data arrives (R-PROJ-12). Open also when the account's quota is locked.


@groups.PROJECTS.get("/v1/projects/{project_id}/health", "Read the health of a project's data")
@Who(KEY)
@Docs(ProjectHealth)
async def get_project_health(call: Call, params: NamedDependency[HealthQuery]) -> Answer:
    """Show when data last arrived, how much of it, and what waits for attention."""
    health = await health_of(call.services.store, call.project_id, params.days)
    webhooks = show_webhooks(await webhooks_of(call.services.store, call.project_id))
    return Answer(200, project_health(call.project_id, health, call.services.settings.new_cases_per_hour, webhooks))


# What to do next in a project (R-PROJ-08 to R-PROJ-11, G-024).

_CONNECTING = frozenset({"POST /v1/auth/provider", "POST /v1/auth/provider/poll"})
"""What answers 503 where no analytics provider is configured, or no key to seal its tokens with."""


@groups.PROJECTS.get("/v1/projects/{project_id}/next-steps", "Read a project's progress and its next steps")
@Who(KEY)
@Docs(NextSteps, errors=("rate_limited", "upstream_error", "upstream_timeout"), flows=frozenset({"install"}))
async def get_next_steps(call: Call) -> Answer:
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
    return frozenset(f"{e.operation.method} {e.operation.path}" for e in all_endpoints() if e.operation.who.owner)


ENDPOINTS = [list_projects, create_project, get_project_health, get_next_steps]
