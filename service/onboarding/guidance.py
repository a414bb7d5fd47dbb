"""What to do next in each status of an onboarding, for the coding agent or person who asks (R-ONB-24 to R-ONB-27).

The texts are fixed: nothing that a client or its telemetry says gets into them. Only the path names the project.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from schemas.onboarding.lifecycle import NextAction, NextOperation
from statemachines.onboarding.lifecycle import Status


class Guidance(NamedTuple):
    """The next step of one status, without its project."""

    id: Literal["review_exact_plan", "instrument_and_start_proof", "exercise_and_verify"]
    operation: Literal["review", "proof", "verify"]
    requires_human: bool
    instruction: str
    checklist: tuple[str, ...]
    completion_condition: str
    guide_anchor: str


GUIDANCE: dict[Status, Guidance] = {
    Status.PLANNED: Guidance(
        id="review_exact_plan",
        operation="review",
        requires_human=True,
        instruction="Show this exact plan to the responsible human, and send their decision.",
        checklist=(
            (
                "Present the audited history window and its query receipt by themselves, and the source targets by "
                "themselves."
            ),
            "Say plainly that rows from history do not prove that anything is captured at those targets today.",
            "Wait until the human explicitly approves or replaces this plan. Silence is no decision.",
            "POST that decision with plan_sha256 to the review operation, with If-Match set to this state's etag.",
        ),
        completion_condition="The review answered 200 and the status is approved, or planned with another plan.",
        guide_anchor="/install.md#review-plan",
    ),
    Status.APPROVED: Guidance(
        id="instrument_and_start_proof",
        operation="proof",
        requires_human=False,
        instruction="Implement the approved plan, commit it, and open a proof session for that commit.",
        checklist=(
            "Keep the provider SDKs the product already uses. You need no other telemetry credential.",
            "Capture every approved event after its durable success, and an exception at every approved failure exit.",
            (
                "Attach the service_onboarding_proof property only while its session-storage or server-environment "
                "value is set, and never put a marker into a bundle or the repository."
            ),
            (
                "Get the tests green, commit everything so that the tree is clean, and take the final snapshot with "
                "source-snapshot.mjs --final."
            ),
            "POST that snapshot to the proof operation, with If-Match set to this state's etag.",
        ),
        completion_condition="The proof answered 201 with a marker pair and the status is proving.",
        guide_anchor="/install.md#instrument-and-prove",
    ),
    Status.PROVING: Guidance(
        id="exercise_and_verify",
        operation="verify",
        requires_human=False,
        instruction="Run the deployed product with the session's markers, then verify to see the remaining steps.",
        checklist=(
            (
                "When a marker was lost or the session is over, POST the same snapshot to the proof operation again "
                "and use the new pair."
            ),
            (
                "Set the runtime marker: in the browser as the session storage item service_onboarding_proof, on the "
                "server as the environment variable SERVICE_ONBOARDING_PROOF."
            ),
            ("Make sure that each captured event carries the marker as its property service_onboarding_proof."),
            (
                "Deploy the final commit from CI, and record the deploy with the CI marker in the header "
                "X-Service-Onboarding-Proof."
            ),
            "Exercise every milestone, so that one row of each holds all its properties at once.",
            "Provoke the one failure that is marked safe, with all its context.",
            (
                "POST to the verify operation without a body, with If-Match set to this state's etag, and repeat only "
                "what it lists as remaining."
            ),
        ),
        completion_condition="The verify answered ok true and the status is verified.",
        guide_anchor="/install.md#exercise-and-verify",
    ),
}


def next_action(status: Status, project_id: str) -> NextAction:
    """Say what comes next for a project in a status; there is nothing after verified (R-ONB-22)."""
    guidance = GUIDANCE[status]
    return NextAction(
        id=guidance.id,
        instruction=guidance.instruction,
        requires_human=guidance.requires_human,
        operation=NextOperation(method="POST", path=f"/v1/projects/{project_id}/onboarding/{guidance.operation}"),
        checklist=guidance.checklist,
        completion_condition=guidance.completion_condition,
        guide_anchor=guidance.guide_anchor,
    )
