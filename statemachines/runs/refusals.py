"""Refusals that the commands on a run share; those of one machine stand in its module (codes: G-006).

Messages are fixed sentences: nothing that a caller, a runner or telemetry wrote is ever part of one (threat 14).
"""

from typing import Any

from statemachines.kernel.machine import Rejection


class AutomationMismatch(Rejection):
    """A runner reached for another automation than its own (R-AUTH-11, R-AUT-55)."""

    code = "automation_mismatch"


class StaleStateRevision(Rejection):
    """The command carries another state revision than the run's; `details.current_state_revision` (R-AUT-30)."""

    code = "stale_state_revision"


class DeadlineExceeded(Rejection):
    """The run's deadline passed (G-109)."""

    code = "deadline_exceeded"
    FINAL = True


class DeliveryModeMismatch(Rejection):
    """The policy delivers code another way (G-109)."""

    code = "delivery_mode_mismatch"


class PrProofRequired(Rejection):
    """An earlier observation has to be proven first (G-110)."""

    code = "pr_proof_required"


class PrProofMismatch(Rejection):
    """The observation does not match what was granted (G-110)."""

    code = "pr_proof_mismatch"


_TEXTS = frozenset({"repository", "head_branch", "base_branch", "pr_url", "url", "required_status_checks"})


def difference(field: str, expected: object, actual: object) -> dict[str, Any]:
    """Name what differs in a refusal's details: the field, and both values unless they are a caller's free text."""
    return {"field": field} if field in _TEXTS else {"field": field, "expected": expected, "actual": actual}
