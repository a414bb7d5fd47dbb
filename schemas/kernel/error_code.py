"""An error code with its status, its texts, and whether a repeat may succeed (G-006)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class ErrorText(msgspec.Struct, frozen=True):
    """A message and its next action."""

    message: str
    next_action: str


class ErrorCode(NamedTuple):
    """A code: HTTP status, retryability and the default texts. `others` are sent where they fit better."""

    status: int
    retryable: bool
    message: str
    next_action: str
    others: tuple[ErrorText, ...] = ()

    @property
    def texts(self) -> tuple[ErrorText, ...]:
        """Every listed text, the default first."""
        return (ErrorText(self.message, self.next_action), *self.others)


def code(status: int, message: str, next_action: str, *others: tuple[str, str], retryable: bool = False) -> ErrorCode:
    """Declare a code. `others` are further messages, each with its next action."""
    return ErrorCode(status, retryable, message, next_action, tuple(ErrorText(*text) for text in others))
