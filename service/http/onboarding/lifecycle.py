"""Onboarding up to its approval: read, start, review (R-ONB-40 to R-ONB-50)."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from projections.onboarding import OnboardingRow
from schemas.kernel.shape import AsOfQuery
from schemas.onboarding import (
    MAX_PLAN_BYTES,
    ApproveRequest,
    OnboardingState,
    Plan,
    PlannedState,
    ReviewRequest,
    StartRequest,
)
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Body, Docs, Fencing, Who
from service.http.edge.declare.operations import OWNER
from service.onboarding import lifecycle
from service.onboarding.evidence import reshape
from statemachines.onboarding import plan as plans
from statemachines.onboarding.plan import ProposedPlan, propose

PATH = "/v1/projects/{project_id}/onboarding"


@groups.ONBOARDING.get(PATH, "Read the onboarding of a project")
@Who(OWNER, owner=True, as_of=True)
@Docs(OnboardingState, errors=("onboarding_not_started",))
async def get_onboarding(call: Call[None, AsOfQuery]) -> Answer:
    """Show where the onboarding stands; 404 before its start (R-ONB-41)."""
    return _state(await lifecycle.read_onboarding(call.rows, call.project_id))


@groups.ONBOARDING.post(PATH, "Start an onboarding with a plan, or replace its plan")
@Who(OWNER, owner=True)
@Body(max_body=MAX_PLAN_BYTES)
@Fencing(if_match="optional", idempotency="optional")
@Docs(
    {201: PlannedState, 200: OnboardingState},
    errors=("onboarding_state_conflict", "precondition_failed", "if_match_required"),
)
async def start_onboarding(call: Call[StartRequest, None]) -> Outcome:
    """Make a plan the current one; an exact replay is shown what is there (R-ONB-43 to R-ONB-46)."""
    wish = await call.work_on_body(partial(_checked, call.body.plan, "plan"))
    return await call.carry_out(lifecycle.start(call.project_id, wish, call.if_match), _started)


@groups.ONBOARDING.post(f"{PATH}/review", "Approve or reject the exact plan")
@Who(OWNER, owner=True, fresh_when="it approves")
@Body(max_body=MAX_PLAN_BYTES)
@Fencing(if_match="required", idempotency="optional")
@Docs(OnboardingState, errors=("onboarding_not_started", "plan_hash_mismatch", "onboarding_state_conflict"))
async def review_onboarding(call: Call[ReviewRequest, None]) -> Outcome:
    """Approve the plan, which makes it the signal map, or put another in its place (R-ONB-47 to R-ONB-50)."""
    body = call.body
    if isinstance(body, ApproveRequest):
        call.ask_fresh()
        return await call.carry_out(lifecycle.approve(call.project_id, body.plan_sha256, call.if_match), _state)
    wish = await call.work_on_body(partial(_checked, body.replacement_plan, "replacement_plan"))
    return await call.carry_out(lifecycle.replace(call.project_id, body.plan_sha256, wish, call.if_match), _state)


def _checked(plan: Plan, path: str) -> ProposedPlan:
    return propose(reshape(plan, plans.Plan), path)


def _state(row: OnboardingRow, status: int = HTTPStatus.OK) -> Answer:
    return Answer(status, lifecycle.state(row), {"etag": row.etag})


def _started(started: lifecycle.Started) -> Answer:
    return _state(started.row, HTTPStatus.CREATED if started.first else HTTPStatus.OK)


ENDPOINTS = [get_onboarding, start_onboarding, review_onboarding]
