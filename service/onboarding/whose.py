"""The source of a project's evidence: our own records, or the connected provider (G-183)."""

from __future__ import annotations

import msgspec

from schemas.kernel.shape import EvidenceSource, HistoryCheck
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.onboarding.plan import HistoricalEvidence, Window
from statemachines.projects.project import ProjectNotFound

_WHOSE = load_query("onboarding", "whose_evidence")


class KeptReceipt(msgspec.Struct, frozen=True):
    """The receipt of an answer of a provider: the project asked there, and the window. It begins at 0 for a text query.

    Times are in epoch seconds.
    """

    provider_project_id: int
    since: int
    until: int

    def covers(self, window: Window) -> bool:
        """Whether a window is the one asked for. A text query has its own inside."""
        if self.since == 0:
            return window.to <= self.until
        return (window.from_, window.to) == (self.since, self.until)


class ComparedHistory(msgspec.Struct, frozen=True):
    """The history of a plan, and the receipt of ours that it names. None: it has none, or names another."""

    history: HistoricalEvidence | None
    receipt: KeptReceipt | None


class WhoseEvidence(msgspec.Struct, frozen=True):
    """The source of evidence of a project: of its proof, else of a proof made now (G-183).

    `connected_to` is the number of the connected project at the provider.
    """

    evidence_source: EvidenceSource
    connected_to: int | None
    compared: ComparedHistory

    @property
    def historical_evidence_check(self) -> HistoryCheck | None:
        """How the history of the plan compares with the connection. None without a history."""
        history, receipt = self.compared.history, self.compared.receipt
        if history is None:
            return None
        if self.connected_to is None:
            return "unconfirmed"
        if history.provider_project_id != self.connected_to:
            return "contradicted"
        if receipt is None:
            return "unconfirmed"
        agrees = receipt.provider_project_id == history.provider_project_id and receipt.covers(history.window)
        return "confirmed" if agrees else "contradicted"


async def whose_evidence(store: EventStore, project_id: str) -> WhoseEvidence:
    """Read the source of evidence of a project. Raises ProjectNotFound."""
    rows = await store.fetch(_WHOSE, project_id=project_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    return msgspec.json.decode(rows[0][0], type=WhoseEvidence)
