"""Projects: the list, and a new one (R-PROJ-01, R-PROJ-02, R-PROJ-15, G-023)."""

from __future__ import annotations

from functools import partial

from schemas.kernel.shape import PageQuery
from schemas.projects import CreateProject, ProjectCreatedBody, ProjectList
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import PageEnd
from service.http.edge.answer.paging import page, start_of
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import KEY
from service.projects import project as project_commands
from service.projects import project as reads
from service.projects import project as show
from service.projects.project import IssuedDsn


@groups.PROJECTS.get("/v1/projects", "List your projects")
@Who(KEY)
@Docs(ProjectList, flows=frozenset({"install", "provider"}))
async def list_projects(call: Call[None, PageQuery]) -> Answer:
    """List the caller's projects, newest first."""
    found = await reads.projects_of(call.services.store, call.user_id, start_of(call.query), call.query.limit + 1)
    projects, cursor = page(found, call.query, lambda project: PageEnd(project.created_at, project.id))
    can_unseal = call.services.settings.encryption_key is not None
    return Answer(200, show.project_list(projects, cursor, can_unseal=can_unseal))


@groups.PROJECTS.post("/v1/projects", "Create a project and receive its DSN")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs({201: ProjectCreatedBody}, flows=frozenset({"install", "onboarding", "provider"}))
async def create_project(call: Call[CreateProject, None]) -> Outcome:
    """Make a project that the caller owns; a replay of the request shows everything but the DSN."""
    intent = project_commands.create(call.user_id, call.body.name, call.services.settings.encryption_key)
    return await call.carry_out(intent, partial(_created, call.services.settings.base_url))


def _created(base_url: str, issued: IssuedDsn) -> Answer:
    shown, stored = (show.project_created(base_url, issued, raw=raw) for raw in (True, False))
    return Answer(201, shown, stored=stored)


ENDPOINTS = [list_projects, create_project]
