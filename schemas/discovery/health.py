"""Wire shapes of the health checks and of the test clock (G-120)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Live(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["live"]


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str


class Ready(msgspec.Struct, frozen=True):
    """The process can serve; degraded when what follows from its writes lags behind."""

    status: Literal["ready", "degraded"]
    checks: list[Check]


class AdvanceClock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far to move the clock: at most a leap year at once."""

    seconds: Annotated[int, Meta(ge=1, le=31_622_400)]


class ClockAdvanced(msgspec.Struct, frozen=True):
    """Where the clock stands now, in epoch seconds, and how far it is ahead of the wall clock."""

    server_time: int
    offset_seconds: int
