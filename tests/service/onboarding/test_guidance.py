"""What the checklist of each status says, step by step (R-ONB-25 to R-ONB-27)."""

from __future__ import annotations

import pytest

from service.onboarding.lifecycle import GUIDANCE, next_action
from statemachines.onboarding.lifecycle import Status

# For each step, in its order, the words without which it would not say what it must.
STEPS: dict[Status, list[tuple[str, ...]]] = {
    Status.PLANNED: [
        ("history window", "query receipt", "by themselves", "source targets"),
        ("history", "do not prove", "targets"),
        ("human", "explicitly", "approve", "replace"),
        ("POST", "review", "If-Match", "etag"),
    ],
    Status.APPROVED: [
        ("SDKs", "already uses"),
        ("every approved event", "every approved failure"),
        ("property", "only while", "session-storage", "server-environment", "never put a marker into a bundle"),
        ("tests green", "commit", "clean", "final snapshot"),
        ("POST", "proof", "If-Match", "etag"),
    ],
    Status.PROVING: [
        ("marker was lost", "over", "proof operation again"),
        ("session storage item service_onboarding_proof", "environment variable SERVICE_ONBOARDING_PROOF"),
        ("event carries the marker", "property service_onboarding_proof"),
        ("Deploy", "CI marker", "X-Service-Onboarding-Proof"),
        ("every milestone",),
        ("the one failure that is marked safe",),
        ("verify", "without a body", "If-Match", "etag", "only what it lists as remaining"),
    ],
}


def test_every_status_with_a_next_step_is_held() -> None:
    assert list(STEPS) == list(GUIDANCE)


@pytest.mark.parametrize("status", STEPS, ids=lambda status: status.name)
def test_the_steps_say_what_they_must(status: Status) -> None:
    """One step for each, in this order, with its fixed names; the answer shows them unchanged."""
    told = next_action(status, "proj_guided1").checklist
    assert told == GUIDANCE[status].checklist
    assert len(told) == len(STEPS[status])
    for step, words in zip(told, STEPS[status], strict=True):
        for word in words:
            assert word in step, (word, step)
