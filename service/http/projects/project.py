"""Projects and their DSN (R-PROJ-01 to R-PROJ-07, R-PROJ-15, G-023, G-026)."""

from __future__ import annotations

from functools import partial

from schemas.kernel.paging import PageQuery
from schemas.projects.project import (
    CreateProject,
    DsnBody,
    DsnRotatedBody,
    DsnVerified,
    ProjectCreatedBody,
    ProjectList,
    RotateDsn,
    VerifyDsn,
)
from service.eventstore.commands import Answer, Outcome
from service.eventstore.pages import Place
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY, OWNER
from service.http.edge.paging import page, start_of
from service.projects import commands
from service.projects.commands import IssuedDsn
from service.projects.reads import project as reads
from service.projects.show import project as show


@groups.PROJECTS.operation(
    method="GET",
    path="/v1/projects",
    operation_id="list_projects",
    summary="List the projects one belongs to",
    principals=KEY,
    responses={200: ProjectList},
    flows=frozenset({"install"}),
)
async def list_projects(call: Call[None, PageQuery]) -> Answer:
    """List the caller's projects, newest first."""
    found = await reads.projects_of(call.services.store, call.user_id, start_of(call.query), call.query.limit + 1)
    projects, cursor = page(found, call.query, lambda project: Place(project.created_at, project.id))
    can_unseal = call.services.settings.encryption_key is not None
    return Answer(200, show.project_list(projects, cursor, can_unseal=can_unseal))


@groups.PROJECTS.operation(
    method="POST",
    path="/v1/projects",
    operation_id="create_project",
    summary="Make a project and receive its DSN",
    principals=KEY,
    responses={201: ProjectCreatedBody},
    idempotency="optional",
    flows=frozenset({"install"}),
)
async def create_project(call: Call[CreateProject, None]) -> Outcome:
    """Make a project that the caller owns; a replay of the request shows everything but the DSN."""
    intent = commands.create(call.user_id, call.body.name, call.services.settings.encryption_key)
    return await call.carry_out(intent, partial(_created, call.services.settings.base_url))


def _created(base_url: str, issued: IssuedDsn) -> Answer:
    shown, stored = (show.project_created(base_url, issued, raw=raw) for raw in (True, False))
    return Answer(201, shown, stored=stored)


@groups.PROJECTS.operation(
    method="GET",
    path="/v1/projects/{project_id}/dsn",
    operation_id="read_dsn",
    summary="Read the DSN, where a recovery copy exists",
    principals=OWNER,
    owner=True,
    responses={200: DsnBody},
    flows=frozenset({"install"}),
)
async def read_dsn(call: Call[None, None]) -> Answer:
    """Show the DSN if its copy can be opened; never rotates it (R-PROJ-03)."""
    settings = call.services.settings
    known = await reads.dsn_of(call.services.store, call.project_id, settings.encryption_key)
    return Answer(200, show.dsn(settings.base_url, call.project_id, known))


@groups.PROJECTS.operation(
    method="POST",
    path="/v1/projects/{project_id}/dsn/verify",
    operation_id="verify_dsn",
    summary="Ask whether a DSN is the project's",
    principals=KEY,
    responses={200: DsnVerified},
    idempotency="optional",
)
async def verify_dsn(call: Call[VerifyDsn, None]) -> Outcome:
    """Compare a DSN with the project's, and keep a missing recovery copy of it; never rotates (R-PROJ-04)."""
    intent = commands.verify_dsn(call.project_id, call.body.dsn, call.services.settings.encryption_key)
    return await call.carry_out(intent, lambda checked: Answer(200, show.dsn_verified(checked)))


@groups.PROJECTS.operation(
    method="POST",
    path="/v1/projects/{project_id}/dsn/rotate",
    operation_id="rotate_dsn",
    summary="Replace the DSN; the one before stops working at once",
    principals=OWNER,
    owner=True,
    responses={200: DsnRotatedBody},
    idempotency="optional",
)
async def rotate_dsn(call: Call[RotateDsn, None]) -> Outcome:
    """Replace the DSN as a fence: nothing that rests on the old one commits after the answer (R-PROJ-06)."""
    settings = call.services.settings
    intent = commands.rotate_dsn(call.project_id, settings.encryption_key)
    outcome = await call.carry_out(intent, partial(_rotated, settings.base_url))
    call.services.authenticator.forget()
    return outcome


def _rotated(base_url: str, issued: IssuedDsn) -> Answer:
    shown, stored = (show.dsn_rotated(base_url, issued, raw=raw) for raw in (True, False))
    return Answer(200, shown, stored=stored)


ENDPOINTS = [list_projects, create_project, read_dsn, verify_dsn, rotate_dsn]
