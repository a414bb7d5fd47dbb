"""The proof of a run: every event along its chain, for whoever wants to check it without the service.

The streams are those that the run's own row names, read in the snapshot in which the events are: a request, grant or
deploy that joins meanwhile is in the next proof with all of its links.
"""

from __future__ import annotations

import hashlib

import msgspec

from projections.runs.run import RunRow
from schemas.runs.proof import RunProof
from service.eventstore.declare.codec import canonical
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.history.bundle import StreamBundle, StreamName, read_bundle, snapshot
from service.eventstore.store import EventStore
from statemachines.runs.run import RunNotFound

NEXT = "Save this answer and check it with scripts/verify_proof.py, which needs Python and nothing else."
_RUN_ROW = load_sql("runs", "run_row")


async def prove_run(store: EventStore, project_id: str, run_id: str) -> RunProof:
    """Read the proof of a run. Raises RunNotFound."""
    async with snapshot(store) as connection:
        cursor = await connection.execute(_RUN_ROW.encode(), {"project_id": project_id, "run_id": run_id})
        found = await cursor.fetchone()
        if found is None:
            raise RunNotFound("There is no such run.")
        row = msgspec.json.decode(found[0], type=RunRow)
        return seal(row, await read_bundle(connection, chain_of(row)), made_at=found[1])


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


def seal(row: RunRow, read: StreamBundle, *, made_at: int) -> RunProof:
    """Put the document together. Its own hash covers what no stream's hashes do: links, heads, positions."""
    document = RunProof(
        project_id=row.project_id,
        run_id=row.id,
        made_at=made_at,
        streams=read.streams,
        links=read.links,
        next_action=NEXT,
        document_sha256="",
    )
    plain = msgspec.to_builtins(document)
    del plain["document_sha256"]
    return msgspec.structs.replace(document, document_sha256=hashlib.sha256(canonical(plain)).hexdigest())
