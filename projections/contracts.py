"""The automation contract of a project: the current entries and their states (G-101)."""

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, header, projection
from schemas.contracts.contract import EnableReceipt
from statemachines.contracts import contract
from statemachines.contracts.documents import SavedAutomation
from statemachines.kernel.machine import Recorded

# Why an automation is off, when the member who turned it off gave no reason.
PAUSED = "paused"
DISABLED = "disabled"
REPLACED = "contract_replaced"


class AutomationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One automation: its stored entry, and when it was last turned on and off (epoch seconds).

    `generation` is the contract revision at which it was last turned on; `withdrawn_at` is when it was last off.
    """

    saved: SavedAutomation
    enabled: bool = False
    generation: int = 0
    withdrawn_at: int = 0
    enabled_at: int | None = None
    disabled_at: int | None = None
    disabled_reason: str | None = None


class AutomationContractRow(Row, frozen=True, kw_only=True):
    """The contract of one project. `id` is the contract id, `state_revision` what clients send as If-Match (G-121)."""

    status: str
    state_revision: int
    policy_version: int
    contract_sha256: str
    automations: list[AutomationRow]
    enable_receipt: EnableReceipt | None
    paused_at: int | None
    created_at: int
    updated_at: int
    updated_by: str

    @property
    def etag(self) -> str:
        """Strong tag of this revision, with its quotes."""
        return contract.make_etag(self.id, self.state_revision)


def fold_contract(row: AutomationContractRow | None, recorded: Recorded) -> AutomationContractRow | None:
    """Fold an event of a contract into its row."""
    match recorded.event:
        case contract.ContractSaved() as event:
            return AutomationContractRow(
                **header(recorded),
                status=contract.Status.DISABLED.value,
                state_revision=1 if row is None else row.state_revision + 1,
                policy_version=event.policy_version,
                contract_sha256=event.contract_sha256,
                automations=[_take_over(row, saved, event.saved_at) for saved in event.automations],
                enable_receipt=None,
                paused_at=None,
                created_at=event.saved_at if row is None else row.created_at,
                updated_at=event.saved_at,
                updated_by=event.saved_by,
            )
        case contract.ContractEnabled() as event if row:
            on = [_turn_on(a, event, row.state_revision + 1) for a in row.automations]
            moved = _move(row, recorded, contract.Status.ENABLED, on, event.enabled_at, event.enabled_by)
            return replace(moved, paused_at=None, enable_receipt=contract.receipt_of(event))
        case contract.AutomationDisabled() as event if row:
            left = _turn_off(row, event.disabled_at, event.reason or DISABLED, event.automation_id)
            return _move(row, recorded, contract.Status.ENABLED, left, event.disabled_at, event.disabled_by)
        case contract.LastAutomationDisabled() as event if row:
            left = _turn_off(row, event.disabled_at, event.reason or DISABLED, event.automation_id)
            return _move(row, recorded, contract.Status.DISABLED, left, event.disabled_at, event.disabled_by)
        case contract.ContractPaused() as event if row:
            off = _turn_off(row, event.paused_at, event.reason or PAUSED)
            moved = _move(row, recorded, contract.Status.PAUSED, off, event.paused_at, event.paused_by)
            return replace(moved, paused_at=event.paused_at)
    return row


def _move(
    row: AutomationContractRow,
    recorded: Recorded,
    status: contract.Status,
    automations: list[AutomationRow],
    at: int,
    by: str,
) -> AutomationContractRow:
    return replace(
        row,
        revision=recorded.revision,
        state_revision=row.state_revision + 1,
        status=status.value,
        automations=automations,
        updated_at=at,
        updated_by=by,
    )


def _take_over(row: AutomationContractRow | None, saved: SavedAutomation, at: int) -> AutomationRow:
    """Replace an entry; for the same id, when it was on and why it was turned off are kept."""
    former = None
    if row is not None:
        former = next((a for a in row.automations if a.saved.automation_id == saved.automation_id), None)
    if former is None:
        return AutomationRow(saved=saved, withdrawn_at=at)
    if former.enabled:
        former = replace(former, enabled=False, disabled_at=at, disabled_reason=REPLACED)
    return replace(former, saved=saved, generation=0, withdrawn_at=at)


def _turn_on(automation: AutomationRow, event: contract.ContractEnabled, revision: int) -> AutomationRow:
    if automation.enabled or automation.saved.automation_id not in event.automation_ids:
        return automation
    at = event.enabled_at
    return replace(automation, enabled=True, generation=revision, enabled_at=at, disabled_at=None, disabled_reason=None)


def _turn_off(
    row: AutomationContractRow, at: int, reason: str, automation_id: str | None = None
) -> list[AutomationRow]:
    return [
        replace(a, enabled=False, disabled_at=at, disabled_reason=reason, withdrawn_at=at)
        if a.enabled and automation_id in {None, a.saved.automation_id}
        else a
        for a in row.automations
    ]


AUTOMATION_CONTRACTS = projection("automation_contracts", AutomationContractRow, ("ctr",), fold_contract)
