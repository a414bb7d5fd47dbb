"""allowed_next of a 409: operations with their ids, for the kind of caller that was refused (G-139)."""

from __future__ import annotations

from service.auth.authority import PrincipalKind
from service.http.declare.bound import Bound
from service.http.edge.rendering import OPERATIONS, in_operations
from service.http.edge.routes import all_endpoints
from statemachines.cases.case import CaseIgnoredByMember, CaseOverflowReopened
from statemachines.onboarding import lifecycle
from statemachines.runs import events as e
from statemachines.runs import run as runs

KNOWN = {bound.name: bound.operation for bound in map(Bound, all_endpoints())}
NOT_ASKED_FOR = {e.RunReviewLapsed.TOPIC, e.RunResumed.TOPIC, e.RunFenced.TOPIC}


def test_every_event_that_a_client_asks_for_has_its_operation() -> None:
    """No event of the machines that tell what is left is forgotten, and no operation is misspelt."""
    of_overflow = {CaseIgnoredByMember.TOPIC, CaseOverflowReopened.TOPIC}
    topics = set(runs.TABLE.events) | set(lifecycle.TABLE.events) | of_overflow
    assert set(OPERATIONS) == topics - NOT_ASKED_FOR
    assert {name for names in OPERATIONS.values() for name in names} <= set(KNOWN)


def test_a_caller_is_told_what_it_may_call_with_the_ids_filled_in() -> None:
    """Other principals' operations, and those whose ids are not known, are left out."""
    details = {"phase": "running", "allowed_next": ["run.charged.v1", "run.pr_proven.v1", "run.fenced.v1"]}
    ids = {"run_id": "run_1", "project_id": "proj_1"}
    usage = {"operation_id": "record_automation_usage", "method": "POST", "path": "/v1/automation-runs/run_1/usage"}
    proof = {"operation_id": "record_pr_proof", "method": "POST", "path": "/v1/automation-runs/run_1/pr-proof"}
    assert in_operations(details, KNOWN, PrincipalKind.RUNNER, ids) == {"phase": "running", "allowed_next": [usage]}
    assert in_operations(details, KNOWN, PrincipalKind.CI, ids)["allowed_next"] == [proof]
    assert in_operations(details, KNOWN, PrincipalKind.CI, {})["allowed_next"] == []
    assert in_operations(details, KNOWN, None, ids)["allowed_next"] == []
