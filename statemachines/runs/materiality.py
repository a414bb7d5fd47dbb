"""Whether a case matters enough to wake an automation: a deterministic policy over counts and server times (R-AUT-22).

No text of telemetry and no judgment of a model is an input (R-AUT-23). A decision carries its inputs, its thresholds
and the result of each check, so that anyone can decide it again and must come to the same answer.
"""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.contracts.policy import Thresholds
from statemachines.kernel.machine import STALE_SECONDS, Rejection

REQUIRED_TRUST = "customer_provider"
ACTIVE_STATUS = "open"


class CaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a case without any of its texts. Times are epoch seconds of the server's clock.

    `provider_read_to` is the end of the looks at the connected provider, unset without errors of it (G-182).
    """

    case_id: str
    revision: int
    status: str
    trust: str
    event_count: int
    first_seen_at: int | None
    last_seen_at: int | None
    provider_read_to: int | UnsetType = UNSET


class Check(msgspec.Struct, frozen=True):
    """One question, its answer, and what was compared (numbers and status words, as strings)."""

    check: str
    passed: bool
    observed: str | None
    required: str


class MaterialityDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A complete record of one decision. `passed` is true when every check passed."""

    decided_at: int
    inputs: CaseFacts
    thresholds: Thresholds
    checks: list[Check]
    age_seconds: int | None
    passed: bool


class MaterialityNotMet(Rejection):
    """The case no longer satisfies the policy's thresholds (R-AUT-22). `decision` is the record that says so."""

    code = "materiality_not_met"

    def __init__(self, message: str, *, decision: MaterialityDecision, next_action: str, **details: Any) -> None:
        super().__init__(message, next_action=next_action, **details)
        self.decision = decision


def require_material(inputs: CaseFacts, thresholds: Thresholds, now: int) -> MaterialityDecision:
    """Judge a case again, for it may have rested since it was offered (G-188). Raises MaterialityNotMet."""
    decision = decide_materiality(inputs, thresholds, now)
    if not decision.passed:
        raise MaterialityNotMet(
            "The case no longer meets the policy's thresholds.",
            next_action="Wait for a new receipt.",
            decision=decision,
            checks=[{"check": check.check, "passed": check.passed} for check in decision.checks],
        )
    return decision


def decide_materiality(inputs: CaseFacts, thresholds: Thresholds, now: int) -> MaterialityDecision:
    """Judge a case at `now`. Anything missing, stale or from the future fails closed."""
    age = None if inputs.last_seen_at is None else now - inputs.last_seen_at
    seen = None if inputs.last_seen_at is None else str(inputs.last_seen_at)
    maximum_age = thresholds.maximum_last_seen_age_seconds
    checks = [
        Check("lifecycle_active", inputs.status == ACTIVE_STATUS, inputs.status, ACTIVE_STATUS),
        Check("trusted_source", inputs.trust == REQUIRED_TRUST, inputs.trust, REQUIRED_TRUST),
        Check(
            "event_count",
            inputs.event_count >= thresholds.minimum_event_count,
            str(inputs.event_count),
            f">={thresholds.minimum_event_count}",
        ),
        Check("last_seen_present", age is not None, seen, "present"),
        Check("last_seen_not_future", age is not None and age >= 0, seen, f"<={now}"),
        Check(
            "last_seen_age",
            age is not None and age <= maximum_age,
            None if age is None else str(age),
            f"<={maximum_age}",
        ),
    ]
    if inputs.provider_read_to is not UNSET:
        unread = max(0, now - inputs.provider_read_to)
        current = unread <= STALE_SECONDS
        checks.append(Check("provider_exceptions_current", current, str(unread), f"<={STALE_SECONDS}"))
    return MaterialityDecision(
        decided_at=now,
        inputs=inputs,
        thresholds=thresholds,
        checks=checks,
        age_seconds=age,
        passed=all(check.passed for check in checks),
    )
