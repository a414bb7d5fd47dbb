"""The DSN of a project: read, verified, rotated (R-PROJ-03 to R-PROJ-06, G-026)."""

from functools import partial

from litestar.params import JSONBody

from schemas.projects import DsnBody, DsnRotatedBody, DsnVerified, PublicDsnRotatedBody, RotateDsn, VerifyDsn
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, OWNER
from service.projects import project as dsn_commands
from service.projects import project as reads
from service.projects import project as show


@groups.PROJECTS.get("/v1/projects/{project_id}/dsn", "Read the DSN from its recovery copy")
@Who(OWNER, owner=True, reveals=True)
@Docs(DsnBody, flows=frozenset({"install"}))
async def read_dsn(call: Call) -> Answer:
    """Show the DSN if its copy can be opened. Never rotates it (R-PROJ-03)."""
    settings = call.services.settings
    known = await reads.dsn_of(call.services.store, call.project_id, settings.encryption_key)
    return Answer(200, show.dsn(settings.base_url, call.project_id, known))


@groups.PROJECTS.post("/v1/projects/{project_id}/dsn/verify", "Check a DSN against the project")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(DsnVerified)
async def verify_dsn(call: Call, data: JSONBody[VerifyDsn]) -> Outcome:
    """Compare a DSN with the project's, and keep a missing recovery copy of it. Never rotates (R-PROJ-04)."""
    intent = dsn_commands.verify(call.project_id, data.dsn, call.services.settings.encryption_key)
    return await call.carry_out(intent, lambda checked: Answer(200, show.dsn_verified(checked)))


@groups.PROJECTS.post("/v1/projects/{project_id}/dsn/rotate", "Replace the DSN and stop the previous one at once")
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="optional")
@Docs(DsnRotatedBody)
async def rotate_dsn(
    call: Call,
    data: JSONBody[RotateDsn],  # noqa: ARG001 - only its form counts
) -> Outcome:
    """Replace the DSN as a fence: nothing that rests on the old one commits after the answer (R-PROJ-06)."""
    settings = call.services.settings
    intent = dsn_commands.rotate(call.project_id, settings.encryption_key)
    outcome = await call.carry_out(intent, partial(_rotated, settings.base_url))
    call.services.authenticator.forget()
    return outcome


@groups.PROJECTS.post(
    "/v1/projects/{project_id}/public-dsn/rotate", "Replace the public DSN and stop the previous one at once"
)
@Who(OWNER, owner=True, fresh=True)
@Fencing(idempotency="optional")
@Docs(PublicDsnRotatedBody, extension=True)
async def rotate_public_dsn(
    call: Call,
    data: JSONBody[RotateDsn],  # noqa: ARG001 - only its form counts
) -> Outcome:
    """Replace the public DSN as a fence, or make the first one of an older project (G-184)."""
    settings = call.services.settings
    intent = dsn_commands.rotate(call.project_id, settings.encryption_key, public=True)
    outcome = await call.carry_out(intent, partial(_rotated_public, settings.base_url))
    call.services.authenticator.forget()
    return outcome


def _rotated(base_url: str, issued: show.IssuedDsn) -> Answer:
    shown, stored = (show.dsn_rotated(base_url, issued, raw=raw) for raw in (True, False))
    return Answer(200, shown, stored=stored)


def _rotated_public(base_url: str, issued: show.IssuedDsn) -> Answer:
    shown, stored = (show.public_dsn_rotated(base_url, issued, raw=raw) for raw in (True, False))
    return Answer(200, shown, stored=stored)


ENDPOINTS = [read_dsn, verify_dsn, rotate_dsn, rotate_public_dsn]
