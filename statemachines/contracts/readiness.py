"""What an automation still needs before it can be enabled (G-101): found the same way on validate and on enable.

The facts come from elsewhere: the signal map, the events seen so far, the live credentials. Event names stay out of
the messages, which say positions instead: a name is the customer's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from schemas.contracts.contract import ErrorToDraftPrPolicy, Policy
from schemas.contracts.playbook import Gap
from schemas.kernel.shape import EvidenceSource
from statemachines.contracts.documents import SavedAutomation, read_policy
from statemachines.contracts.playbook import assertion_gaps, find_template


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a project: its map's verification, its approved and observed events, its live credentials.

    `proven_by`: the source of the map's proof, None before it. `required_evidence`: the source required, None for any
    (G-183). `provider_stale`: the exceptions of the connected provider were last read too long ago (G-182).
    """

    proven_by: EvidenceSource | None = None
    required_evidence: EvidenceSource | None = None
    provider_stale: bool = False
    approved_events: frozenset[str] = frozenset()
    observed_events: frozenset[str] = frozenset()
    ci_credential: bool = False
    runner_credentials: frozenset[str] = frozenset()  # automation ids


def find_gaps(automation: SavedAutomation, facts: Facts) -> list[Gap]:
    """Everything that keeps one automation from being enabled; empty when it is ready."""
    template = find_template(automation.playbook_id, automation.playbook_version)
    assertions: dict[str, Any] = msgspec.json.decode(automation.readiness_assertions)
    return [
        *_signal_gaps(read_policy(automation.policy), facts),
        *assertion_gaps(template, assertions),
        *_credential_gaps(automation, facts),
    ]


def events_of(automation: SavedAutomation) -> tuple[str, ...]:
    """Event names that the automation's policy depends on."""
    return _events(read_policy(automation.policy))


def _events(policy: Policy) -> tuple[str, ...]:
    if isinstance(policy, ErrorToDraftPrPolicy):
        return (policy.verification.traffic_sample_event,)
    return policy.report_plan.events


def _signal_gaps(policy: Policy, facts: Facts) -> Iterator[Gap]:
    if facts.proven_by is None:
        yield Gap("signal_map_not_verified", "The project's signal map has no source verification receipt.")
    if facts.required_evidence not in {None, facts.proven_by}:
        yield Gap("evidence_source_not_met", "The evidence of the connected provider has not verified the source.")
    events = _events(policy)
    unapproved = [index for index, event in enumerate(events) if event not in facts.approved_events]
    unseen = [index for index, event in enumerate(events) if event not in facts.observed_events]
    if isinstance(policy, ErrorToDraftPrPolicy):
        if unapproved:
            yield Gap("traffic_event_not_approved", "The traffic sample event is not in the approved signal map.")
        if unseen:
            yield Gap("traffic_event_not_observed", "The traffic sample event has not been observed.")
        if facts.provider_stale:
            yield Gap("provider_exceptions_stale", "The provider's exceptions were not read for ten minutes.")
        return
    if unapproved:
        yield Gap("funnel_event_not_approved", f"Not in the approved signal map: {_positions(unapproved)}.")
    if unseen:
        yield Gap("funnel_event_not_observed", f"Not observed so far: {_positions(unseen)}.")


def _positions(indexes: Sequence[int]) -> str:
    return ", ".join(f"funnel.events[{index}]" for index in indexes)


def _credential_gaps(automation: SavedAutomation, facts: Facts) -> Iterator[Gap]:
    if automation.automation_id not in facts.runner_credentials:
        yield Gap("runner_credential_missing", "No live runner credential is bound to this automation.")
    if automation.playbook_id == "error-to-draft-pr" and not facts.ci_credential:
        yield Gap("ci_credential_missing", "The project has no live CI credential.")
