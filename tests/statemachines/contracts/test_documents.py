"""Contract documents: every departure from the server's rendering is found, by its path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from statemachines.contracts.contract import policy_of
from statemachines.contracts.documents import check_contract, contract_input, make_document, read_policy
from statemachines.contracts.playbook import assemble_entry, canonical, find_template, sha256_of
from statemachines.contracts.policy import Limits
from tests.support.playbook_samples import (
    AUTO_MERGE,
    CASE,
    REVIEW,
    assertions_of,
    bindings_of,
    case_assertions,
    case_bindings,
    drop,
    put,
    review_bindings,
)


def entry(playbook: str, automation_id: str | None = None) -> dict[str, Any]:
    return assemble_entry(find_template(playbook), bindings_of(playbook, automation_id), assertions_of(playbook))


def faults(*entries: Any) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in check_contract(list(entries)).errors]


def test_rendered_entries_pass_and_are_kept_as_sent() -> None:
    """What render gives, a contract takes; the stored texts and hashes are those of the canonical input (G-101)."""
    entries = [entry(CASE), entry(REVIEW)]
    checked = check_contract(entries)
    document = make_document(entries, checked)
    assert checked.errors == []
    assert document.contract_sha256 == sha256_of({"policy_version": 2, "automations": entries})
    assert [a.automation_id for a in document.automations] == ["heal-checkout", "review-funnel"]
    for saved, sent in zip(document.automations, entries, strict=True):
        assert saved.bindings.encode() == canonical(sent["bindings"])
        assert saved.readiness_assertions.encode() == canonical(sent["readiness_assertions"])
        assert saved.policy.encode() == canonical(sent["policy"])
        assert saved.policy_sha256 == sha256_of(sent["policy"])
    assert contract_input(entries)["policy_version"] == 2


def test_defaults_may_stay_unsaid() -> None:
    """Bindings with and without the default delivery give one policy, so either goes with it."""
    spelled = {**case_bindings(), "code_delivery": {"mode": "review_required"}}
    sent = {**entry(CASE), "bindings": spelled}
    assert faults(sent) == []


def test_numbers_are_compared_as_numbers() -> None:
    """25 and 25.0 are one number in canonical JSON; true is not 1."""
    sent = entry(REVIEW)
    assert faults(put(sent, "policy.budgets.max_cost_usd_per_run", 25.0)) == []
    assert faults(put(sent, "policy.budgets.max_attempts_per_case_revision", True)) == [
        ("automations[0].policy.budgets.max_attempts_per_case_revision", "locked_field")
    ]


def leaves(value: Any, path: str) -> list[str]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in leaves(inner, f"{path}.{name}" if path else name)]
    return [path]


@pytest.mark.parametrize("playbook", [CASE, REVIEW])
def test_every_value_of_a_policy_is_locked(playbook: str) -> None:
    """Changing, adding or leaving out any one member of the policy is refused at that member (G-101)."""
    sent = entry(playbook)
    for leaf in leaves(sent["policy"], ""):
        code = "workflow_graph_disabled" if leaf.startswith("workflow") else "locked_field"
        where = "automations[0].policy." + ("workflow" if leaf.startswith("workflow") else leaf)
        assert faults(put(sent, f"policy.{leaf}", "other")) == [(where, code)], leaf
        if leaf != "workflow" and not leaf.startswith("workflow."):
            assert faults(drop(sent, f"policy.{leaf}")) == [(where, "locked_field")], leaf
    assert faults(put(sent, "policy.surprise", 1)) == [("automations[0].policy.surprise", "locked_field")]
    checked = check_contract([put(put(sent, "policy.enabled", True), "policy.name", "x")])
    assert checked.locked_paths == ["automations[0].policy.enabled", "automations[0].policy.name"]


@pytest.mark.parametrize(
    ("playbook", "workflow"),
    [
        (CASE, {"version": 3, "nodes": []}),
        (CASE, {}),
        (REVIEW, None),
        (REVIEW, {"version": 3, "nodes": ["trigger.schedule.cron@1.0.0", "effect.publish@1.0.0"]}),
        (REVIEW, {"version": 4}),
    ],
)
def test_another_workflow_is_refused_as_such(playbook: str, workflow: Any) -> None:
    """Only the one published graph can be enabled, and only in its own playbook (G-116)."""
    checked = check_contract([put(entry(playbook), "policy.workflow", workflow)])
    assert [(p.path, p.code) for p in checked.errors] == [("automations[0].policy.workflow", "workflow_graph_disabled")]
    assert checked.other_workflows == [entry(playbook)["bindings"]["automation_id"]]


def test_the_playbook_is_bound_by_version_and_hash() -> None:
    """Unknown ids and versions, and a hash that is not the published one, are told apart."""
    sent = entry(CASE)
    assert faults(put(sent, "playbook.template_hash", "0" * 64)) == [
        ("automations[0].playbook.template_hash", "locked_field")
    ]
    assert faults(put(sent, "playbook.template_hash", "x")) == [
        ("automations[0].playbook.template_hash", "invalid_value")
    ]
    assert faults(put(sent, "playbook.version", "4.0.1")) == [
        ("automations[0].playbook.version", "playbook_version_not_found")
    ]
    assert faults(put(sent, "playbook.id", "other")) == [("automations[0].playbook.id", "invalid_value")]
    assert faults(put(sent, "playbook.latest", True)) == [("automations[0].playbook.latest", "unknown_field")]


def test_form_faults_are_found_in_every_entry_at_once() -> None:
    """Each entry says all that is wrong with it, whatever the others hold."""
    lacking = drop(entry(REVIEW), "policy")
    assert faults(
        entry(CASE),
        "text",
        {},
        {**lacking, "enabled": True},
        put(put(entry(CASE, "third"), "bindings.name", ""), "bindings.mode", "auto_merge"),
        put(entry(REVIEW, "fourth"), "readiness_assertions", {}),
    ) == [
        ("automations[1]", "invalid_value"),
        ("automations[2].playbook", "missing_field"),
        ("automations[2].bindings", "missing_field"),
        ("automations[2].readiness_assertions", "missing_field"),
        ("automations[2].policy", "missing_field"),
        ("automations[3].enabled", "unknown_field"),
        ("automations[3].policy", "missing_field"),
        ("automations[4].bindings.name", "invalid_value"),
        ("automations[4].bindings.mode", "locked_field"),
        ("automations[5].readiness_assertions.scheduler_execution_configured", "missing_field"),
    ]
    for nonsense in (None, 5, [], "x"):
        assert faults(put(entry(CASE), "policy", nonsense)) == [("automations[0].policy", "invalid_value")]


def test_ids_are_unique_in_a_contract() -> None:
    """The second entry of one id is the faulty one (R-PB-15)."""
    assert faults(entry(CASE, "same"), entry(REVIEW, "same")) == [
        ("automations[1].bindings.automation_id", "duplicate_automation_id")
    ]


def test_unknown_names_are_not_repeated_without_end() -> None:
    """Of a very long unknown key only the beginning comes back."""
    sent = {**entry(CASE), "k" * 5000: 1}
    [(path, _)] = faults(sent)
    assert len(path) < 250


def test_faults_say_nothing_that_was_sent() -> None:
    """No value of an input appears in a message."""
    secret = "hunter2-hunter2"
    sent = copy.deepcopy(entry(REVIEW))
    sent["bindings"] |= {
        "automation_id": secret.upper(),
        "name": [secret],
        "schedule": {"cron": secret, "timezone": secret},
    }
    assert all(secret not in problem.message.lower() for problem in check_contract([sent]).errors)


def test_execution_reads_exact_terms() -> None:
    """The terms that runs are held to are those of the policy, the cost as an exact decimal text."""
    bindings = put(case_bindings(), "budgets.max_cost_usd_per_run", 0.1) | {"code_delivery": AUTO_MERGE}
    bindings["runner"] = {**bindings["runner"], "environment": "production"}
    assertions = case_assertions() | {
        "provider_auto_merge_access_confirmed": True,
        "branch_protection_required_checks_confirmed": True,
    }
    entries = [assemble_entry(find_template(CASE), bindings, assertions), entry(REVIEW)]
    case, review = check_contract(entries).automations
    terms = policy_of(case)
    assert terms.limits == Limits(10, 3, 2, 100, 3600, "0.1")
    assert (terms.delivery.mode, terms.delivery.merge_method) == ("auto_merge", "squash")
    assert terms.delivery.required_status_checks == ["build", "test"]
    assert (terms.repository, terms.default_branch) == ("https://code.example/acme/shop", "main")
    assert terms.environment == "production"
    assert terms.verification.traffic_sample_event == "checkout_completed"
    assert terms.schedule_trigger is None
    assert terms.case_trigger is not None
    assert terms.case_trigger.materiality.minimum_event_count == 10
    terms = policy_of(review)
    assert terms.case_trigger is None
    assert terms.schedule_trigger is not None
    assert (terms.schedule_trigger.cron, terms.schedule_trigger.period_days) == ("0 9 * * 1", 7)
    assert terms.limits == Limits(2, 0, 1, 50, 1800, "25")
    assert read_policy(review.policy).automation_id == review_bindings()["automation_id"]
