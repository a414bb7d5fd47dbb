"""The outcome of reading a provider: a value, or a failure that cannot be mistaken for an empty value."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UnsetType

from schemas.kernel.shape import EvidenceSource

Cause = Literal[
    "unconfigured", "unauthorized", "unreachable", "timeout", "refused", "malformed", "too_much", "not_kept"
]

LATE_SECONDS = 120
"""So late a provider may show what came in there: until then a reading is not all of its time (G-182)."""
STALE_SECONDS = 600
"""What was read of a provider so long ago tells nothing of now (G-182)."""


def source_told(told: EvidenceSource | UnsetType) -> EvidenceSource:
    """The source as an event tells it. Events of older releases do not, and are of our own records."""
    return "local" if isinstance(told, UnsetType) else told


class ReadFailed(msgspec.Struct, frozen=True):
    """The read told nothing. It has no length and no truth: using it as a result is a type error.

    `unconfigured`: the operator took the adapter away; `unauthorized`: the grant is gone; `unreachable`: no answer or
    a server error; `timeout`: no answer in time; `refused`: the provider did not accept the query; `malformed`: the
    answer was not in the agreed form; `too_much`: the answer, or what it would rest on, was over its bound;
    `not_kept`: the time asked for is longer ago than records are kept.
    """

    cause: Cause

    def __bool__(self) -> bool:
        """Refuse: a failed read is neither true nor false."""
        raise TypeError("a failed read has no truth value; test for its type")
