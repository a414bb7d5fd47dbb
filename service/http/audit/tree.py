"""The tree over the log at the edge: for anybody, and hashes alone (G-169)."""

from http import HTTPStatus

from litestar.di import NamedDependency
from litestar.params import FromPath

from schemas.audit import ConsistencyProof, ConsistencyQuery, InclusionProof, InclusionQuery
from service.audit import tree
from service.auth.refusals import InvalidPayload, refusal
from service.eventstore.declare.commands import Answer, Outcome
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.operations import ANYONE
from service.tlog.hashing import parse_tile_path

CHECKPOINT_TYPE = "text/plain; charset=utf-8"
TILE_TYPE = "application/octet-stream"
BRIEFLY = {"cache-control": "public, max-age=1"}
FOR_GOOD = {"cache-control": "public, max-age=31536000, immutable"}


@groups.LOG.get("/v1/log/checkpoint", "Read the newest signed checkpoint of the log")
@Who(ANYONE)
@Docs(str, errors=("checkpoint_not_found",), extension=True, content_type=CHECKPOINT_TYPE)
async def get_log_checkpoint(call: Call) -> Outcome:
    """Show the note as it was signed, with the signatures of witnesses."""
    found = await call.services.tree.signed()
    return Outcome(HTTPStatus.OK, found.text.encode(), BRIEFLY)


@groups.LOG.get("/v1/log/tile/{level}/{tile}", "Read a tile of the log's Merkle tree")
@Who(ANYONE)
@Docs(bytes, errors=("tile_not_found",), extension=True, content_type=TILE_TYPE)
async def get_log_tile(call: Call, level: FromPath[str], tile: FromPath[str]) -> Outcome:
    """Show the hashes of a tile of the signed tree, full or partial."""
    wanted = parse_tile_path(level, tile.removeprefix("/"))
    hashes = None if wanted is None else await call.services.tree.tile(wanted)
    if hashes is None:
        raise refusal("tile_not_found")
    return Outcome(HTTPStatus.OK, hashes, FOR_GOOD)


@groups.LOG.get("/v1/log/proof/inclusion", "Prove that a position is in the log")
@Who(ANYONE)
@Docs(InclusionProof, errors=("invalid_payload", "checkpoint_not_found", "log_size_not_found"), extension=True)
async def get_inclusion_proof(call: Call, params: NamedDependency[InclusionQuery]) -> Answer:
    """Prove it for any tree up to the signed size."""
    position, size = params.position, params.size
    if position is None or (size is not None and position > size):
        raise InvalidPayload(invalid=[("position", "must be a position from 1 up to the size")])
    size = await call.services.tree.signed_size(size)
    if position > size:
        raise refusal("log_size_not_found")
    try:
        proven = await call.services.tree.inclusion(position, size)
    except tree.NotInTree as missing:
        raise refusal("log_size_not_found") from missing
    return Answer(HTTPStatus.OK, tree.inclusion(position, size, proven))


@groups.LOG.get("/v1/log/proof/consistency", "Prove that the log has only grown between two sizes")
@Who(ANYONE)
@Docs(ConsistencyProof, errors=("invalid_payload", "checkpoint_not_found", "log_size_not_found"), extension=True)
async def get_consistency_proof(call: Call, params: NamedDependency[ConsistencyQuery]) -> Answer:
    """Prove it between any trees up to the signed size."""
    old, new = params.old, params.new
    if old is None or (new is not None and old > new):
        raise InvalidPayload(invalid=[("from", "must be a size from 0 up to the other one")])
    new = await call.services.tree.signed_size(new)
    if old > new:
        raise refusal("log_size_not_found")
    try:
        proven = await call.services.tree.consistency(old, new)
    except tree.NotInTree as missing:
        raise refusal("log_size_not_found") from missing
    return Answer(HTTPStatus.OK, tree.consistency(old, new, proven))


ENDPOINTS = [get_log_checkpoint, get_log_tile, get_inclusion_proof, get_consistency_proof]
