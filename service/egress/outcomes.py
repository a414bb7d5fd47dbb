"""The outcome of a call: an answer, or the reason for none, in one of our own sentences (G-150).

Sentences are stored and shown. None of them holds a byte of the other side, of the address or of an error's text.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Reason = Literal[
    "refused",
    "unknown_name",
    "slow_name",
    "busy",
    "unreachable",
    "certificate",
    "tls",
    "timeout",
    "closed",
    "malformed",
    "head",
]

SENTENCES: dict[Reason, str] = {
    "refused": "The address may not be called.",
    "unknown_name": "The host name does not resolve.",
    "slow_name": "The host name was not resolved in time.",
    "busy": "Too many look-ups of this account were waiting.",
    "unreachable": "No connection could be made.",
    "certificate": "The certificate of the host could not be verified.",
    "tls": "No secure connection could be agreed on.",
    "timeout": "There was no complete answer in time.",
    "closed": "The connection ended before the answer was complete.",
    "malformed": "The answer is not valid HTTP.",
    "head": "The head of the answer is too large.",
}


class Received(NamedTuple):
    """An answer of any status. `body` is as sent, with no coding undone. `cut` when there was more of it.

    `retry_after` is that header, as it was sent.
    """

    status: int
    body: bytes
    cut: bool
    retry_after: str | None = None


class NotReceived(NamedTuple):
    """No answer, and why."""

    reason: Reason

    @property
    def sentence(self) -> str:
        """The reason for people."""
        return SENTENCES[self.reason]
