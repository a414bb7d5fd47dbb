"""The rules of feedback: its id, and how much of it a person may send (G-063, G-158).

Feedback decides nothing, so it has no machine. Its texts are facts, and go with the account.
"""

from __future__ import annotations

from statemachines.kernel.machine import Rejection, derived_id

FEEDBACK_LIMIT = 1_000
"""Different feedback of a person."""
MOST_DETAILS = 16_384
"""Bytes of `details` as JSON."""


class TooMuchFeedback(Rejection):
    """The person has sent as much different feedback as is kept."""

    code = "invalid_payload"


def feedback_id(user_id: str, kind: str, fingerprint: str) -> str:
    """The one id of a person's feedback of a kind and a fingerprint."""
    return derived_id("fb", user_id, kind, fingerprint)


def require_room(kept: int) -> None:
    """Refuse new feedback beside so much that is kept. Raises TooMuchFeedback."""
    if kept >= FEEDBACK_LIMIT:
        raise TooMuchFeedback(
            f"A person has at most {FEEDBACK_LIMIT:,} different feedback.",
            next_action="Send defects that you have reported before with their fingerprint: repeats are counted.",
            missing_fields=[],
            invalid_fields=[],
            unknown_fields=[],
            request_body_schema=None,
        )
