"""The archive of a project at the edge: one file with all that is stored of it, for its owners and auditors."""

from __future__ import annotations

from service.archives.archive import ArchiveUnderWay
from service.http.edge.answer.errors import RateLimited
from service.http.edge.answer.streamed import Streamed
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Who
from service.http.edge.declare.operations import OWNER

TAR = "application/x-tar"


@groups.EVENTS.get("/v1/projects/{project_id}/archive", "Download everything that is stored of a project")
@Who(OWNER, owner=True)
@Docs(bytes, extension=True, content_type=TAR, sealed=True)
async def get_project_archive(call: Call[None, None]) -> Streamed:
    """Make an archive in one snapshot, and send it as it grows."""
    try:
        archive = await call.services.archives.begin(call.project_id, call.principal.tenant)
    except ArchiveUnderWay:
        raise RateLimited(
            "This account is sent an archive already.",
            next_action="Let the other one end, then repeat the request.",
            max_waiting=1,
        ) from None
    name = f'attachment; filename="{call.project_id}.tar"'
    return Streamed(archive.pieces(call.readmit), headers={"content-disposition": name}, let_go=archive.let_go)


ENDPOINTS = [get_project_archive]
