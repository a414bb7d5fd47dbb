"""What `sentry-cli sourcemaps upload` (2.x and 3.x) asks for: its own paths and its own answers (G-141, G-142).

It asks how to send, says which bundle it has, sends the parts that are missing, and says it again. An organization is
whatever the caller calls it: who may do what hangs on the key and the project alone, which goes by its id.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from litestar.params import FromPath, JSONBody, RequestBody

from schemas.cases.foreign import AssembleBundle, Assembled, ChunksStored, ChunkUpload
from service.auth.refusals import InvalidPayload, require_extra
from service.cases.sourcemaps import bundles
from service.cases.sourcemaps.unmangling import EXTRA
from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.http.declare import groups
from service.http.declare.bound import is_project_id
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import KEY
from statemachines.projects.project import ProjectNotFound

_CHUNKS = "/api/0/organizations/{organization}/chunk-upload/"


@groups.CASES.get(_CHUNKS, "Read how sentry-cli uploads source maps")
@Who(KEY)
@Docs(ChunkUpload, extension=True, sealed=True)
async def get_chunk_upload(call: Call, organization: FromPath[str]) -> Answer:
    """Show where parts go and how large they may be."""
    require_extra(EXTRA)
    base = call.services.settings.base_url.rstrip("/")
    body = ChunkUpload(
        url=f"{base}/api/0/organizations/{organization}/chunk-upload/",
        chunkSize=bundles.CHUNK_BYTES,
        chunksPerRequest=bundles.CHUNKS_A_REQUEST,
        maxFileSize=bundles.MOST_BUNDLE,
        maxRequestSize=bundles.CHUNK_BYTES * bundles.CHUNKS_A_REQUEST,
    )
    return Answer(200, body)


@groups.CASES.post(_CHUNKS, "Upload parts of a bundle from sentry-cli")
@Who(KEY)
@Body(max_body=bundles.MOST_REQUEST, media_type="multipart/form-data")
@Fencing(mutation=False)
@Docs(ChunksStored, extension=True, sealed=True)
async def upload_chunks(call: Call, data: RequestBody[bytes]) -> Answer:
    """Keep parts for an hour, until a bundle names them."""
    require_extra(EXTRA)
    store, worker = call.services.store, call.services.unmangler.packer
    kept = await bundles.store_form(store, worker, call.principal, call.header("content-type") or "", data)
    return Answer(200, ChunksStored(stored=[chunk.id for chunk in kept]))


async def admit_to(call: Call, project_ids: list[str]) -> None:
    """Let the caller in to each of these projects. Raises InvalidPayload, and as `admit` for the first refusal."""
    if len(project_ids) != len(set(project_ids)):
        raise InvalidPayload("A project is named twice.", invalid=[("projects", "must name each project once")])
    for project_id in project_ids:
        if not is_project_id(project_id):
            raise ProjectNotFound("There is no such project.")
        await call.services.authenticator.admit(call.principal, project_id, call.operation)


async def _assemble(call: Call, data: AssembleBundle, project_ids: list[str]) -> Answer:
    """Store what a bundle holds in each of its projects. Raises ProjectNotFound before anything is stored."""
    require_extra(EXTRA)
    await admit_to(call, project_ids)
    wish = bundles.BundleWish(data.checksum, data.chunks, data.version, project_ids)
    packer = call.services.unmangler.packer
    try:
        done = await bundles.assemble(call.services.store, packer, call.user_id, wish, partial(carry_out_in, call))
    finally:
        for project_id in project_ids:
            call.services.intake.forget_maps(project_id)
    return Answer(200, Assembled(state=done.state, missingChunks=done.missing, detail=done.detail))


def require_named(project_ids: list[str]) -> None:
    """Refuse a body without a project. Raises InvalidPayload."""
    if not project_ids:
        raise InvalidPayload("No project is named.", invalid=[("projects", "must hold the id of a project")])


async def carry_out_in(call: Call, project_id: str, intent: Intent[Any]) -> Outcome:
    """Carry an intent out in one of the projects of a request. Its answer is for nobody."""
    return await replace(call, scope_id=project_id).carry_out(intent, lambda _: Answer(204, None))


@groups.CASES.post(
    "/api/0/organizations/{organization}/artifactbundle/assemble/", "Store the source maps of an uploaded bundle"
)
@Who(KEY)
@Body(strict=False)
@Docs(
    Assembled,
    errors=("project_not_found", "project_deletion_in_progress", "invalid_payload"),
    extension=True,
    sealed=True,
)
async def assemble_bundle(call: Call, data: JSONBody[AssembleBundle]) -> Answer:
    """Say which parts are missing, or store what the bundle holds in the projects that it is for."""
    require_named(data.projects)
    return await _assemble(call, data, list(data.projects))


@groups.CASES.post(
    "/api/0/projects/{organization}/{project_id}/artifactbundle/assemble/",
    "Store the source maps of an uploaded bundle in the project of the path",
)
@Who(KEY)
@Body(strict=False)
@Docs(Assembled, extension=True, sealed=True)
async def assemble_project_bundle(call: Call, data: JSONBody[AssembleBundle]) -> Answer:
    """Do the same for the one project that the path names."""
    return await _assemble(call, data, [call.project_id])


ENDPOINTS = [get_chunk_upload, upload_chunks, assemble_bundle, assemble_project_bundle]
