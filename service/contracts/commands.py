"""What may be done to an automation contract: save it disabled, enable, pause, turn one automation off (G-101, G-103).

Save, pause and disable are fences of the project: when one is acknowledged, nothing that began under the former
contract can commit any more. Enable grants authority and takes none away, so it is an ordinary command.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.contracts.contract import AUTOMATION_CONTRACTS, AutomationContractRow
from schemas.contracts.contract import EnableReceipt
from service.contracts.readiness import gather
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from statemachines.contracts import contract, stop
from statemachines.contracts.contract import EnableWish, KeptReceipt, Status
from statemachines.contracts.documents import Document
from statemachines.contracts.stop import InstallationStop


class Saved(NamedTuple):
    """The contract as it was saved, and whether it is the project's first."""

    row: AutomationContractRow
    first: bool


class Enabled(NamedTuple):
    """The contract as it stands, the receipt of the enable, and whether that had been carried out before."""

    row: AutomationContractRow
    receipt: EnableReceipt
    replay: bool


def save(project_id: str, document: Document, *, if_match: str | None, saved_by: str) -> Intent[Saved]:
    """Save a contract with everything off, the first or in place of the current one (R-AUT-02 to R-AUT-04).

    `saved_by` is a user id. Refused as decide_save refuses.
    """
    stream = contract.stream(project_id)

    def decide(unit: Unit) -> Saved:
        state = unit.state(stream)
        events = contract.decide_save(
            state, document, contract_id=stream.id, if_match=if_match, saved_by=saved_by, now=unit.now
        )
        unit.append(stream, events)
        return Saved(_row(unit, project_id), state.status is Status.ABSENT)

    return Intent([stream], decide, fence=True, saves=True)


async def enable(store: EventStore, project_id: str, wish: EnableWish, *, enabled_by: str) -> Intent[Enabled]:
    """Turn automations on, exactly as reviewed; the same wish again turns nothing on (R-AUT-05).

    `enabled_by` is a user id. Refused as decide_enable refuses, and while the installation is stopped.
    """
    stream, stopped = contract.stream(project_id), stop.stream()
    row = await store.get(AUTOMATION_CONTRACTS, project_id, stream.id)
    # Of a contract that is replaced after this read, the etag sent is stale: nothing is decided by these facts then.
    automations = [] if row is None else [automation.saved for automation in row.automations]
    evidence = await gather(store, project_id, automations)

    def decide(unit: Unit) -> Enabled:
        facts = evidence.facts_under_locks(unit)
        events = contract.decide_enable(unit.state(stream), wish, facts, enabled_by=enabled_by, now=unit.now)
        if events:
            stop.require_lifted(unit.state(stopped))
        unit.append(stream, events)
        kept = kept_receipt(unit, project_id, wish)
        assert kept is not None, "an enable that was carried out has its receipt"
        return Enabled(_row(unit, project_id), kept.receipt, replay=not events)

    return Intent([stream], decide, reads=[stopped], lookups=evidence.lookups, gates=[stop.GATE])


def enabled_before(unit: Unit, project_id: str, wish: EnableWish, answered: EnableReceipt) -> Enabled:
    """Answer an enable that was carried out before: its receipt, and the contract as it stands now."""
    kept = kept_receipt(unit, project_id, wish)
    return Enabled(_row(unit, project_id), answered if kept is None else kept.receipt, replay=True)


def kept_receipt(unit: Unit, project_id: str, wish: EnableWish) -> KeptReceipt | None:
    """The receipt that the contract keeps of a wish, if it still does."""
    return contract.find_receipt(unit.state(contract.stream(project_id)), wish.command)


def pause(project_id: str, *, reason: str | None, paused_by: str) -> Intent[AutomationContractRow]:
    """Stop everything, whatever revision the contract is at (R-AUT-06). Raises ContractNotFound."""
    stream = contract.stream(project_id)

    def decide(unit: Unit) -> AutomationContractRow:
        unit.append(stream, contract.decide_pause(unit.state(stream), reason=reason, paused_by=paused_by, now=unit.now))
        return _row(unit, project_id)

    return Intent([stream], decide, fence=True)


def disable(
    project_id: str, automation_id: str, *, reason: str | None, if_match: str | None, disabled_by: str
) -> Intent[AutomationContractRow]:
    """Disable one automation at the revision that was read (R-AUT-07). Refused as decide_disable refuses."""
    stream = contract.stream(project_id)

    def decide(unit: Unit) -> AutomationContractRow:
        events = contract.decide_disable(
            unit.state(stream),
            automation_id,
            reason=reason,
            if_match=if_match,
            disabled_by=disabled_by,
            now=unit.now,
        )
        unit.append(stream, events)
        return _row(unit, project_id)

    return Intent([stream], decide, fence=True)


def stop_installation(why: str) -> Intent[InstallationStop]:
    """Stop all enabling in this installation. No earlier enable commits after it (G-148)."""
    stream = stop.stream()

    def decide(unit: Unit) -> InstallationStop:
        state: InstallationStop = unit.append(stream, stop.decide_stop(unit.state(stream), why=why, now=unit.now))
        return state

    return Intent([stream], decide, fence=stop.GATE)


def resume_installation() -> Intent[InstallationStop]:
    """Lift the stop of the installation, and nothing else (G-148)."""
    stream = stop.stream()

    def decide(unit: Unit) -> InstallationStop:
        state: InstallationStop = unit.append(stream, stop.decide_resume(unit.state(stream), now=unit.now))
        return state

    return Intent([stream], decide, fence=stop.GATE)


def _row(unit: Unit, project_id: str) -> AutomationContractRow:
    row = unit.row(AUTOMATION_CONTRACTS, project_id, contract.stream(project_id).id)
    assert row is not None, "a saved contract has a row"
    return row
