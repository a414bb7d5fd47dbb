"""Projects and their DSN (R-PROJ-01 to R-PROJ-07, R-PROJ-15, G-023, G-026)."""

from __future__ import annotations

from projections.accounts.person import PROJECTION as PEOPLE
from projections.projects.project import DSN_COPIES, DsnCopyRow
from schemas.kernel.paging import PageQuery
from schemas.projects.project import (
    CreateProject,
    DsnBody,
    DsnRotatedBody,
    DsnVerified,
    ProjectCreatedBody,
    ProjectItem,
    ProjectList,
    RotateDsn,
    VerifyDsn,
)
from service.auth.sealing import DSN_COPY, seal, unseal
from service.auth.secrets import SecretKind, digest, equal, make, make_dsn, parse_dsn
from service.eventstore.commands import Answer, Lookup, Outcome, Unit
from service.eventstore.pages import Place
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY, OWNER
from service.http.edge.paging import page, start_of
from service.ids import new_id
from statemachines.accounts import membership as memberships
from statemachines.accounts.membership import OwnerAdded
from statemachines.projects import project as projects
from statemachines.projects.project import ProjectCreated, ProjectNotFound, decide_rotate

DEPLOYS_NOTE = "Deploys are recorded from CI, with the DSN or with a ci_deploy credential; never from a browser."
_LIST = (
    "select p.id, p.name, m.role, p.dsn_prefix, c.ciphertext is not null, p.created_at from memberships m "
    "join projects p on p.project_id = m.project_id and p.id = m.project_id "
    "left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash "
    "where m.user_id = %s and (p.created_at, p.id) < (%s, %s) order by p.created_at desc, p.id desc limit %s"
)
_DSN = (
    "select p.dsn_prefix, c.ciphertext from projects p "
    "left join dsn_copies c on c.project_id = p.project_id and c.id = p.id and c.dsn_hash = p.dsn_hash "
    "where p.project_id = %s and p.id = %s"
)


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
    start = start_of(call.query)
    rows = await call.services.store.fetch(_LIST, call.principal.user_id, start.at, start.id, call.query.limit + 1)
    can_unseal = call.services.settings.encryption_key is not None
    items = [
        ProjectItem(
            id=id_,
            project_id=id_,
            name=name,
            role=role,
            dsn_prefix=prefix,
            dsn_recoverable=copied and can_unseal,
            created_at=created_at,
        )
        for id_, name, role, prefix, copied, created_at in rows
    ]
    shown, cursor = page(items, call.query, lambda item: Place(item.created_at, item.id))
    return Answer(
        200,
        ProjectList(
            projects=shown,
            count=len(shown),
            next_cursor=cursor,
            next_action="Choose the project to work on, or create one with POST /v1/projects.",
        ),
    )


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
    user_id = call.principal.user_id
    assert user_id is not None
    settings = call.services.settings
    project_id, secret = new_id("proj"), make(SecretKind.DSN)
    project, membership = projects.stream(project_id), memberships.stream(project_id, user_id)
    copy = seal(settings.encryption_key, DSN_COPY, project_id, secret.text)

    def body(dsn: str | None, created_at: int, next_action: str) -> ProjectCreatedBody:
        return ProjectCreatedBody(
            id=project_id,
            project_id=project_id,
            name=call.body.name,
            role="owner",
            dsn=dsn,
            dsn_prefix=secret.prefix,
            dsn_recoverable=copy is not None,
            created_at=created_at,
            next_action=next_action,
            **_endpoints(settings.base_url),
        )

    def decide(unit: Unit) -> Answer:
        person = unit.row(PEOPLE.table, user_id, user_id)
        assert person is not None, "the authority check has read the caller's row"
        created = ProjectCreated(call.body.name, user_id, person.synthetic, secret.hash, secret.prefix, unit.now)
        unit.append(project, [created])
        unit.append(membership, [OwnerAdded(user_id, unit.now)])
        _keep_copy(unit, project_id, secret.hash, copy)
        dsn = make_dsn(settings.base_url, secret.text, project_id)
        return Answer(
            201,
            body(dsn, unit.now, "Put the DSN into SERVICE_DSN, then read the next steps of the project."),
            stored=body(
                None, unit.now, "The DSN was shown once; read it again with GET /v1/projects/{project_id}/dsn."
            ),
        )

    return await call.execute(decide, streams=[project, membership], lookups=[Lookup(PEOPLE.table, user_id, user_id)])


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
    project_id, settings = call.project_id, call.services.settings
    for prefix, sealed in await call.services.store.fetch(_DSN, project_id, project_id):
        key = unseal(settings.encryption_key, DSN_COPY, project_id, sealed)
        place = f"{settings.base_url}/v1/projects/{project_id}/dsn"
        return Answer(
            200,
            DsnBody(
                project_id=project_id,
                dsn_prefix=prefix,
                raw_available=key is not None,
                dsn=None if key is None else make_dsn(settings.base_url, key, project_id),
                verify_endpoint=f"{place}/verify",
                rotate_endpoint=f"{place}/rotate",
                next_action="Keep the DSN in SERVICE_DSN."
                if key is not None
                else "Verify the DSN you hold; if it is lost, rotate it.",
            ),
        )
    raise ProjectNotFound("There is no such project.")


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
    project_id, settings = call.project_id, call.services.settings
    project = projects.stream(project_id)
    sent = parse_dsn(call.body.dsn)
    sent_hash = digest(sent.key)
    copy = seal(settings.encryption_key, DSN_COPY, project_id, sent.key)

    def decide(unit: Unit) -> Answer:
        state = unit.state(project)
        matches = equal(sent_hash, state.dsn_hash) and sent.project_id in {None, project_id}
        if matches and copy is not None:
            # Also over a copy that exists: it may have been sealed under an earlier key.
            _keep_copy(unit, project_id, sent_hash, copy)
        body = DsnVerified(
            ok=matches,
            project_id=project_id,
            dsn_prefix=state.dsn_prefix,
            parsed_project_id=sent.project_id,
            stored_for_recovery=matches and copy is not None,
            next_action="Nothing to do." if matches else "Use the DSN of this project; an owner can read or rotate it.",
        )
        return Answer(200, body)

    return await call.execute(decide, streams=[project])


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
    project_id, settings = call.project_id, call.services.settings
    project, secret = projects.stream(project_id), make(SecretKind.DSN)
    copy = seal(settings.encryption_key, DSN_COPY, project_id, secret.text)

    def body(name: str, dsn: str | None, next_action: str) -> DsnRotatedBody:
        return DsnRotatedBody(
            id=project_id,
            name=name,
            dsn=dsn,
            dsn_recoverable=copy is not None,
            next_action=next_action,
            **_endpoints(settings.base_url),
        )

    def decide(unit: Unit) -> Answer:
        state = unit.append(project, decide_rotate(unit.state(project), secret.hash, secret.prefix, unit.now))
        _keep_copy(unit, project_id, secret.hash, copy)
        dsn = make_dsn(settings.base_url, secret.text, project_id)
        return Answer(
            200,
            body(state.name, dsn, "Replace SERVICE_DSN everywhere now; the previous DSN no longer works."),
            stored=body(state.name, None, "The DSN was shown once; read it with GET /v1/projects/{project_id}/dsn."),
        )

    outcome = await call.execute(decide, streams=[project], fence=True)
    call.services.authenticator.forget()
    return outcome


def _keep_copy(unit: Unit, project_id: str, dsn_hash: str, copy: str | None) -> None:
    """Put the sealed copy beside the project; None takes the place of a copy that no longer counts."""
    row = DsnCopyRow(project_id=project_id, id=project_id, dsn_hash=dsn_hash, ciphertext=copy)
    unit.put(projects.stream(project_id), DSN_COPIES, row)


def _endpoints(base_url: str) -> dict[str, str]:
    """The members of DsnEndpoints."""
    return {
        "logs_url": f"{base_url}/v1/logs/",
        "analytics_url": f"{base_url}/v1/analytics/",
        "deploys_url": f"{base_url}/v1/deploys/",
        "deploys_note": DEPLOYS_NOTE,
    }


ENDPOINTS = [list_projects, create_project, read_dsn, verify_dsn, rotate_dsn]
