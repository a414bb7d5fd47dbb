"""Contracts for the loop: one automation, with limits small enough to be reached."""

from __future__ import annotations

from typing import Any

from statemachines.contracts.documents import Document, Facts, check_contract, make_document
from statemachines.contracts.playbook import assemble_entry, find_template
from tests.support.playbook_samples import AUTO_MERGE, CASE, assertions_of, bindings_of

AUTOMATIONS = ("heal",)
EVENT = "checkout_completed"
READY = Facts(
    proven_by="local",
    approved_events=frozenset({EVENT}),
    observed_events=frozenset({EVENT}),
    ci_credential=True,
    runner_credentials=frozenset(AUTOMATIONS),
)


def contract_of(
    mode: str = "review_required",
    automation_id: str = "heal",
    environment: str | None = None,
    cooldown_seconds: int = 60,
    quiet_seconds: int = 86400,
    **changes: Any,
) -> dict[str, Any]:
    """Make the input of a contract with one automation; `changes` go into the budgets."""
    bindings = bindings_of(CASE, automation_id)
    if environment is not None:
        bindings["runner"] |= {"environment": environment}
    bindings["trigger"] = {
        "max_cases_per_sweep": 2,
        "cooldown_seconds": cooldown_seconds,
        "materiality": {"minimum_event_count": 2, "maximum_last_seen_age_seconds": quiet_seconds},
    }
    bindings["budgets"] |= {"max_attempts_per_case_revision": 6} | changes
    bindings["verification"] = {"observation_window_seconds": 120, "max_wait_seconds": 900, "min_sample_size": 2}
    assertions = assertions_of(CASE)
    if mode == "auto_merge":
        bindings["code_delivery"] = AUTO_MERGE
        assertions |= {
            "provider_auto_merge_access_confirmed": True,
            "branch_protection_required_checks_confirmed": True,
        }
    return {"policy_version": 2, "automations": [assemble_entry(find_template(CASE), bindings, assertions)]}


def make(mode: str, **budgets: Any) -> Document:
    """Make the contract itself."""
    entries = contract_of(mode, **{"max_runs_per_day": 12} | budgets)["automations"]
    checked = check_contract(entries)
    assert not checked.errors
    return make_document(entries, checked)
