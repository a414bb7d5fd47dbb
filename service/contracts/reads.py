"""Reads of the automation contract: as it was saved, and what an input would still need (R-AUT-01, R-AUT-04)."""

from __future__ import annotations

from typing import Any, NamedTuple

from projections.contracts.contract import AUTOMATION_CONTRACTS, AutomationContractRow
from schemas.contracts.contract import AutomationGap
from service.contracts.readiness import gather
from service.eventstore.history.as_of import RowSource
from service.eventstore.store import EventStore
from statemachines.contracts import contract
from statemachines.contracts.contract import ContractNotFound
from statemachines.contracts.documents import WORKFLOW, Checked
from statemachines.contracts.readiness import find_gaps


class Examined(NamedTuple):
    """An input held against the server's own rendering, and what its automations still need."""

    entries: list[Any]
    checked: Checked
    gaps: list[AutomationGap]

    @property
    def valid(self) -> bool:
        """Whether it could be saved."""
        return not self.checked.errors


async def find_contract(rows: RowSource, project_id: str) -> AutomationContractRow:
    """Read the contract of a project. Raises ContractNotFound."""
    row = await rows.get(AUTOMATION_CONTRACTS, project_id, contract.stream(project_id).id)
    if row is None:
        raise ContractNotFound(
            "The project has no automation contract.", next_action="Render a playbook and save the contract."
        )
    return row


async def examine(store: EventStore, project_id: str, entries: list[Any], checked: Checked) -> Examined:
    """Find everything that an enable of checked entries would miss, beside what a save would refuse (R-AUT-01)."""
    evidence = await gather(store, project_id, checked.automations)
    facts = evidence.facts(await store.now())
    gaps = [
        AutomationGap(automation.automation_id, gap.code, gap.message)
        for automation in checked.automations
        for gap in find_gaps(automation, facts)
    ]
    gaps += [
        AutomationGap(automation_id, WORKFLOW, "The workflow is not the one that this playbook enables.")
        for automation_id in checked.other_workflows
    ]
    return Examined(entries, checked, gaps)
