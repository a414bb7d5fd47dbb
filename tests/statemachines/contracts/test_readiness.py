"""Readiness: each fact that is missing is exactly its own gap."""

from __future__ import annotations

import msgspec
import pytest

from statemachines.contracts.documents import Facts, SavedAutomation, check_contract, events_of, find_gaps
from statemachines.contracts.playbook import assemble_entry, find_template
from tests.support.playbook_samples import CASE, REVIEW, assertions_of, bindings_of

FUNNEL = frozenset({"signed_up", "project_created", "checkout_completed"})
READY = Facts(
    proven_by="local",
    approved_events=FUNNEL,
    observed_events=FUNNEL,
    ci_credential=True,
    runner_credentials=frozenset({"heal-checkout", "review-funnel"}),
)


def saved(playbook: str, **assertions: bool) -> SavedAutomation:
    entry = assemble_entry(find_template(playbook), bindings_of(playbook), assertions_of(playbook) | assertions)
    [automation] = check_contract([entry]).automations
    return automation


def codes(playbook: str, facts: Facts, **assertions: bool) -> list[str]:
    return [gap.code for gap in find_gaps(saved(playbook, **assertions), facts)]


@pytest.mark.parametrize("playbook", [CASE, REVIEW])
def test_ready_when_every_fact_holds(playbook: str) -> None:
    """No gap remains for either playbook."""
    assert codes(playbook, READY) == []


@pytest.mark.parametrize(
    ("change", "case", "review"),
    [
        ({"proven_by": None}, ["signal_map_not_verified"], ["signal_map_not_verified"]),
        ({"required_evidence": "provider_cloud"}, ["evidence_source_not_met"], ["evidence_source_not_met"]),
        ({"required_evidence": "provider_cloud", "proven_by": "provider_cloud"}, [], []),
        (
            {"approved_events": FUNNEL - {"checkout_completed"}},
            ["traffic_event_not_approved"],
            ["funnel_event_not_approved"],
        ),
        (
            {"observed_events": FUNNEL - {"checkout_completed"}},
            ["traffic_event_not_observed"],
            ["funnel_event_not_observed"],
        ),
        ({"approved_events": FUNNEL - {"signed_up"}}, [], ["funnel_event_not_approved"]),
        ({"provider_stale": True}, ["provider_exceptions_stale"], []),
        ({"ci_credential": False}, ["ci_credential_missing"], []),
        ({"runner_credentials": frozenset({"other"})}, ["runner_credential_missing"], ["runner_credential_missing"]),
    ],
)
def test_each_missing_fact_is_its_own_gap(change: dict[str, object], case: list[str], review: list[str]) -> None:
    """The gap codes of G-101, each for the playbooks that it concerns."""
    facts = msgspec.structs.replace(READY, **change)
    assert (codes(CASE, facts), codes(REVIEW, facts)) == (case, review)


def test_false_assertions_are_gaps() -> None:
    """A required assertion sent as false blocks enabling; one that only auto_merge needs does not."""
    assert codes(CASE, READY, ci_proof_callback_configured=False) == ["assertion_false"]
    assert codes(REVIEW, READY, scheduler_execution_configured=False) == ["assertion_false"]
    assert codes(CASE, READY, provider_auto_merge_access_confirmed=False) == []


def test_gaps_name_positions_and_no_event() -> None:
    """Messages say which funnel step is concerned without repeating the customer's names."""
    facts = msgspec.structs.replace(READY, observed_events=frozenset({"project_created"}))
    [gap] = find_gaps(saved(REVIEW), facts)
    assert "funnel.events[0], funnel.events[2]" in gap.message
    assert not any(event in gap.message for event in FUNNEL)


def test_nothing_known_is_every_gap() -> None:
    """A project without anything shows all its gaps at once."""
    assert codes(CASE, Facts()) == [
        "signal_map_not_verified",
        "traffic_event_not_approved",
        "traffic_event_not_observed",
        "runner_credential_missing",
        "ci_credential_missing",
    ]


def test_events_that_matter() -> None:
    """The traffic sample of the one, the funnel of the other."""
    assert events_of(saved(CASE)) == ("checkout_completed",)
    assert events_of(saved(REVIEW)) == ("signed_up", "project_created", "checkout_completed")
