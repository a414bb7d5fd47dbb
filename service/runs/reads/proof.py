"""The proof of a run: every event along its chain, for whoever wants to check it without the service.

The streams are those that the run's own row names, read in the snapshot in which the events are: a request, grant or
deploy that joins meanwhile is in the next proof with all of its links.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

import msgspec

from projections.runs.run import RunRow
from schemas.runs.proof import ProofInclusion, RunProof
from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.declare.codec import canonical
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.history.bundle import StreamBundle, StreamName, read_bundle, snapshot
from service.eventstore.store import EventStore
from service.eventstore.tree.proving import ProvenPositions, prove
from service.eventstore.tree.reading import PIN
from statemachines.runs.run import RunNotFound

NEXT = (
    "Save this answer and check it with scripts/verify_proof.py and the keys of the log, from `service log keys`. "
    "Without a key it checks the hashes alone."
)
_RUN_ROW = load_sql("runs", "run_row")


async def prove_run(store: EventStore, project_id: str, run_id: str) -> RunProof:
    """Read the proof of a run. Raises RunNotFound."""
    async with snapshot(store) as connection:
        cursor = await connection.execute(_RUN_ROW.encode(), {"project_id": project_id, "run_id": run_id})
        found = await cursor.fetchone()
        if found is None:
            raise RunNotFound("There is no such run.")
        row = msgspec.json.decode(found[0], type=RunRow)
        read = await read_bundle(connection, chain_of(row))
        events = (event for stream in read.streams for event in stream.events)
        proven = await prove(connection, {event.position for event in events if event.position is not None})
    if proven is not None:
        proven = await keep(store, proven)
    return seal(row, read, proven, made_at=found[1])


async def keep(store: EventStore, proven: ProvenPositions) -> ProvenPositions | None:
    """Pin the checkpoint of a proof for ever. None when it is gone, or cannot be kept now."""
    checkpoint = proven.checkpoint
    try:
        async with store.facts.connection() as connection:
            done = await connection.execute(PIN.encode(), {"origin": checkpoint.origin, "size": checkpoint.size})
    except NOT_WRITTEN:
        return None
    return proven if done.rowcount == 1 else None


def chain_of(row: RunRow) -> list[StreamName]:
    """Name the streams of a run's chain, in the order in which they began."""
    state = row.state
    ids = [
        row.receipt_id,
        row.claim_id,
        row.id,
        *(ref.approval_id for ref in state.approvals),
        *(ref.grant_id for ref in state.grants),
        None if state.deploy is None else state.deploy.deploy_id,
        state.report_id if isinstance(state.report_id, str) else None,
    ]
    return [(row.project_id, stream_id) for stream_id in ids if stream_id is not None]


def seal(row: RunRow, read: StreamBundle, proven: ProvenPositions | None, *, made_at: int) -> RunProof:
    """Put the document together. Its own hash covers what no stream's hashes do: links, heads, positions."""
    document = RunProof(
        project_id=row.project_id,
        run_id=row.id,
        made_at=made_at,
        streams=read.streams,
        links=read.links,
        checkpoint=None if proven is None else proven.checkpoint.text,
        inclusion=[] if proven is None else [show(position, path) for position, path in proven.hashes.items()],
        next_action=NEXT,
        document_sha256="",
    )
    plain = msgspec.to_builtins(document)
    del plain["document_sha256"]
    return msgspec.structs.replace(document, document_sha256=hashlib.sha256(canonical(plain)).hexdigest())


def show(position: int, path: Sequence[bytes]) -> ProofInclusion:
    """Show a proof of inclusion."""
    return ProofInclusion(position, [base64.b64encode(one).decode() for one in path])


def as_tlog_proof(document: RunProof) -> str | None:
    """Lay a proof out as a C2SP tlog-proof of its last event below the checkpoint. None without such an event."""
    if document.checkpoint is None or not document.inclusion:
        return None
    last = max(document.inclusion, key=lambda one: one.position)
    extra = base64.b64encode(msgspec.json.encode(document)).decode()
    lines = ["c2sp.org/tlog-proof@v1", f"extra {extra}", f"index {last.position - 1}", *last.hashes]
    return "\n".join(lines) + "\n\n" + document.checkpoint
