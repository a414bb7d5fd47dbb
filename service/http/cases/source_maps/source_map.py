"""Source maps at the edge: stored while they arrive, listed, removed (G-141; extensions of the document)."""

from collections.abc import AsyncIterator

from litestar.di import NamedDependency
from litestar.params import FromPath

from schemas.cases import source_map as wire
from service.auth.refusals import InvalidPayload, require_extra
from service.cases.sourcemaps import blobs, keeping
from service.cases.sourcemaps.unmangling import EXTRA
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import PageEnd
from service.http.answer.errors import UnsupportedMediaType
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import KEY

_SPACE = b" \t\r\n"
_BEGINNINGS = (b"{", b")]}'")


@groups.CASES.put("/v1/projects/{project_id}/source-maps", "Store a source map or its minified source")
@Who(KEY)
@Body(max_body=wire.MAX_MAP_BYTES, streams=True, media_type="application/octet-stream")
@Fencing(idempotency="optional")
@Docs(wire.SourceMapStored, extension=True)
async def upload_source_map(call: Call, params: NamedDependency[wire.UploadSourceMapQuery]) -> Outcome:
    """Store a file in the place of the one that its debug id, or its release and URL, found before."""
    require_extra(EXTRA)
    name, arriving = _name_of(params), call.arriving
    assert arriving is not None, "the operation streams"
    if (call.header("content-encoding") or "identity").strip().lower() not in {"identity", ""}:
        raise UnsupportedMediaType("The body must not have a content coding.")
    total = await keeping.total_of(call.services.store, call.project_id)
    announced = call.header("content-length") or "0"
    if total.size + (int(announced) if announced.isdigit() else 0) > wire.MAX_PROJECT_BYTES + wire.MAX_MAP_BYTES:
        raise keeping.ProjectFull(
            total.size
        )  # Whatever it takes the place of; what comes nearer is judged under the lock.
    facts, tenant = call.services.store.facts, call.principal.tenant
    place = blobs.Destination(facts, call.project_id, tenant, call.services.unmangler.packer)
    staged = await blobs.stage(place, _checked(arriving, json=name.kind == "source_map"))
    call.request_hash = f"{call.request_hash}:{name.map_id(call.project_id)}:{staged.sha256}"
    try:
        return await call.carry_out(keeping.keep(call.project_id, [keeping.File(name, staged)]), _stored)
    finally:
        call.services.intake.forget_maps(call.project_id)
        await blobs.drop(facts, call.project_id, staged.blob_id)


def _stored(kept: list[keeping.Kept]) -> Answer:
    [one] = kept
    return Answer(200, keeping.stored(one))


@groups.CASES.get("/v1/projects/{project_id}/source-maps", "List source maps")
@Who(KEY)
@Docs(wire.SourceMapList, extension=True)
async def list_source_maps(call: Call, params: NamedDependency[wire.SourceMapQuery]) -> Answer:
    """List what is kept, newest first, without contents: open also while the quota is used up (R-BILL-15)."""
    store = call.services.store
    found = await keeping.newest(store, call.project_id, params.release, start_of(params), params.limit + 1)
    shown, cursor = page(found, params, lambda row: PageEnd(row.stored_at, row.id))
    total = await keeping.total_of(store, call.project_id)
    return Answer(200, keeping.listed(call.project_id, shown, total, cursor))


@groups.CASES.delete("/v1/projects/{project_id}/source-maps/{source_map_id}", "Remove a source map")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.SourceMapRemoved, errors=("not_found",), extension=True)
async def remove_source_map(call: Call, source_map_id: FromPath[str]) -> Outcome:
    """Take a file away, which gives its room back."""
    intent = keeping.remove(call.project_id, source_map_id)
    outcome = await call.carry_out(intent, lambda row: Answer(200, keeping.removed(row)))
    call.services.intake.forget_maps(call.project_id)
    return outcome


def _name_of(query: wire.UploadSourceMapQuery) -> keeping.Name:
    """What the file will be found by. Raises InvalidPayload for one that nobody could find."""
    if query.debug_id is None and (query.release is None or query.source_url is None):
        without = [name for name in ("release", "source_url") if getattr(query, name) is None]
        raise InvalidPayload(
            "Name the file by its debug_id, or by its release and source_url.",
            missing=["debug_id"] if len(without) > 1 else without,
        )
    debug_id = None if query.debug_id is None else keeping.normal_debug_id(query.debug_id)
    return keeping.Name(query.kind, debug_id, query.release, query.source_url)


async def _checked(pieces: AsyncIterator[bytes], *, json: bool) -> AsyncIterator[bytes]:
    """Pass a body on that can be what it is said to be; more is known of it once it is used."""
    empty = True
    async for piece in pieces:
        if empty and json and not piece.lstrip(_SPACE).startswith(_BEGINNINGS):
            raise InvalidPayload("The body is not a source map.", invalid=[("", "the body must be a JSON object")])
        empty = False
        yield piece
    if empty:
        raise InvalidPayload("The body is empty.", invalid=[("", "the body must hold the file")])


ENDPOINTS = [upload_source_map, list_source_maps, remove_source_map]
