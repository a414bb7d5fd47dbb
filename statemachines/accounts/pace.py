"""How a device polls: the seconds it has to wait in between, which grow when it does not (G-020)."""

from __future__ import annotations

import msgspec

INTERVAL = 5  # seconds a client waits between polls
INTERVAL_STEP = 5  # seconds added each time it polls faster
INTERVAL_MAX = 60
PACE_TOLERANCE = 1  # seconds of jitter that the whole-second clock and the network may add


class Pace(msgspec.Struct, frozen=True):
    """How a device polls: when it last did, and the seconds it has to wait in between."""

    last_polled_at: int
    interval: int = INTERVAL


def next_pace(pace: Pace | None, now: int) -> tuple[Pace, bool]:
    """Note a poll of a pending sign-in; True when it came too early, which lengthens the interval.

    Only pending sign-ins are slowed down: a client that keeps the pace it was first told gets its key at its first
    poll after the authorisation, whatever the interval has grown to.
    """
    if pace is None:
        return Pace(now), False
    if now - pace.last_polled_at >= pace.interval - PACE_TOLERANCE:
        return Pace(now, pace.interval), False
    return Pace(now, min(pace.interval + INTERVAL_STEP, INTERVAL_MAX)), True
