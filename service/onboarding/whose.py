"""The source of a project's evidence: our own records, or the connected provider (G-183)."""

from __future__ import annotations

import msgspec

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.kernel.readings import EvidenceSource
from statemachines.projects.project import ProjectNotFound

_WHOSE = load_sql("onboarding", "whose_evidence")


class WhoseEvidence(msgspec.Struct, frozen=True):
    """The source of evidence of a project: of its proof, else of a proof made now (G-183)."""

    evidence_source: EvidenceSource


async def whose_evidence(store: EventStore, project_id: str) -> WhoseEvidence:
    """Read the source of evidence of a project. Raises ProjectNotFound."""
    rows = await store.fetch(_WHOSE, project_id=project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    return msgspec.json.decode(rows[0][0], type=WhoseEvidence)
