"""Wire shapes of the health checks and of the test clock (G-120)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Live(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["live"]


class Check(msgspec.Struct, frozen=True):
    """One check and its result."""

    name: str
    ok: bool
    detail: str


class Ready(msgspec.Struct, frozen=True):
    """The process can serve. It is degraded when the sequencer, a reader of the log or the sweep lags behind."""

    status: Literal["ready", "degraded"]
    checks: list[Check]


class AdvanceClock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By how much to move the clock: at most a leap year at once."""

    seconds: Annotated[int, Meta(ge=1, le=31_622_400)]


class ClockAdvanced(msgspec.Struct, frozen=True):
    """The service's time in epoch seconds, and its offset from the wall clock."""

    server_time: int
    offset_seconds: int
