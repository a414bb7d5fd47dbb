"""The contract's row: exactly what each step leaves to read."""

from __future__ import annotations

from msgspec.structs import replace

from projections.contracts import AutomationContractRow, AutomationRow, fold_contract
from statemachines.contracts.contract import (
    AutomationDisabled,
    ContractEnabled,
    ContractPaused,
    ContractSaved,
    LastAutomationDisabled,
    receipt_of,
)
from statemachines.contracts.documents import SavedAutomation
from statemachines.kernel.machine import Event, Recorded

PROJECT, CONTRACT = "proj_1", "ctr_1"
A = SavedAutomation("a", "error-to-draft-pr", "4.0.0", "0" * 64, "{}", "{}", "{}", "1" * 64)
B = SavedAutomation("b", "weekly-funnel-review", "2.0.0", "0" * 64, "{}", "{}", "{}", "2" * 64)
SAVED = ContractSaved(CONTRACT, 2, "3" * 64, [A, B], "usr_owner", 100)
ENABLED = ContractEnabled("enr_1", CONTRACT, "3" * 64, 2, '"x"', '"y"', ["a", "b"], "usr_owner", 200, "c", "r")


def rows(*events: Event) -> list[AutomationContractRow]:
    row: AutomationContractRow | None = None
    found = []
    for revision, event in enumerate(events, 1):
        row = fold_contract(row, Recorded(CONTRACT, revision, event, PROJECT, 999, "key:key_1"))
        assert row is not None
        found.append(row)
    return found


FIRST = AutomationContractRow(
    project_id=PROJECT,
    id=CONTRACT,
    revision=1,
    status="disabled",
    state_revision=1,
    policy_version=2,
    contract_sha256="3" * 64,
    automations=[AutomationRow(saved=A, withdrawn_at=100), AutomationRow(saved=B, withdrawn_at=100)],
    enable_receipt=None,
    paused_at=None,
    created_at=100,
    updated_at=100,
    updated_by="usr_owner",
)
ON = replace(
    FIRST,
    revision=2,
    status="enabled",
    state_revision=2,
    automations=[
        AutomationRow(saved=saved, enabled=True, generation=2, withdrawn_at=100, enabled_at=200) for saved in (A, B)
    ],
    enable_receipt=receipt_of(ENABLED),
    updated_at=200,
)


def test_save_then_enable() -> None:
    """All off, then the targets on with the receipt."""
    assert rows(SAVED, ENABLED) == [FIRST, ON]
    assert FIRST.etag == '"ac:ctr_1:1"'


def test_disable_one_then_the_last() -> None:
    """A reason given is kept, else the row says how it came about; times of being on stay known."""
    one = AutomationDisabled("a", "flaky", "usr_member", 300)
    last = LastAutomationDisabled("b", None, "usr_member", 400)
    off = [
        AutomationRow(
            saved=A, generation=2, withdrawn_at=300, enabled_at=200, disabled_at=300, disabled_reason="flaky"
        ),
        AutomationRow(
            saved=B, generation=2, withdrawn_at=400, enabled_at=200, disabled_at=400, disabled_reason="disabled"
        ),
    ]
    after_one = replace(
        ON,
        revision=3,
        state_revision=3,
        automations=[off[0], ON.automations[1]],
        updated_at=300,
        updated_by="usr_member",
    )
    after_last = replace(after_one, revision=4, state_revision=4, status="disabled", automations=off, updated_at=400)
    assert rows(SAVED, ENABLED, one, last)[2:] == [after_one, after_last]


def test_pause_then_enable_one() -> None:
    """A pause turns off what was on; lifting it for one clears the pause and leaves the other as the pause left it."""
    again = replace(ENABLED, receipt_id="enr_2", automation_ids=["a"], enabled_at=500)
    paused, lifted = rows(SAVED, ENABLED, ContractPaused(None, "usr_member", 300), again)[2:]
    assert (paused.status, paused.paused_at) == ("paused", 300)
    assert {(a.enabled, a.disabled_at, a.disabled_reason) for a in paused.automations} == {(False, 300, "paused")}
    assert paused.enable_receipt == receipt_of(ENABLED)
    assert (lifted.status, lifted.paused_at) == ("enabled", None)
    assert lifted.automations == [
        AutomationRow(saved=A, enabled=True, generation=4, withdrawn_at=300, enabled_at=500),
        paused.automations[1],
    ]
    assert lifted.enable_receipt == receipt_of(again)


def test_replacing_keeps_what_is_known_of_the_same_automation() -> None:
    """A kept id remembers when it was on and that the replacement ended it; a new id knows nothing."""
    kept, fresh = replace(A, policy_sha256="4" * 64), replace(B, automation_id="c")
    replaced = rows(SAVED, ENABLED, replace(SAVED, automations=[kept, fresh], saved_at=600))[2]
    assert replaced.automations == [
        AutomationRow(
            saved=kept, withdrawn_at=600, enabled_at=200, disabled_at=600, disabled_reason="contract_replaced"
        ),
        AutomationRow(saved=fresh, withdrawn_at=600),
    ]
    assert (replaced.created_at, replaced.updated_at, replaced.enable_receipt) == (100, 600, None)
