"""When schedules fire, found by walking every minute of UTC: an oracle that knows no calendar arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from statemachines.contracts.cron import _FIELDS, Cron, _parse_field

HALF_HOUR = "Australia/Lord_Howe"
"""The zone whose clock changes by half an hour: by the hour, a schedule would fire twice within one."""
_MINUTE = timedelta(minutes=1)


def walked(cron: Cron, where: ZoneInfo, start: int, end: int) -> list[int]:
    """Firings of a schedule in [start, end), epoch seconds, by the rules of Debian's cron."""
    return walked_together([cron], where, start, end)[0]


def walked_together(crons: Sequence[Cron], where: ZoneInfo, start: int, end: int) -> list[list[int]]:
    """Firings of each schedule in [start, end), epoch seconds.

    With a star before its hours, the wall clock at each minute decides. Without one, so do the minutes that it jumps
    over, and none that it shows again.
    """
    found: list[list[int]] = [[] for _ in crons]
    read = [_clock(cron, where) for cron in crons]
    minute = datetime.fromtimestamp(start - 86_400, UTC) - _MINUTE
    newest = minute.astimezone(where).replace(tzinfo=None)  # the latest wall clock shown so far
    for at in range(start - 86_400, end, 60):
        minute += _MINUTE
        wall = minute.astimezone(where).replace(tzinfo=None)
        shown = [newest + _MINUTE * step for step in range(1, 1 + max(0, (wall - newest) // _MINUTE))]
        newest = max(newest, wall)
        for cron, (number, hours, by_the_hour), slots in zip(crons, read, found, strict=True):
            looked_at = [wall] if by_the_hour else shown
            if at >= start and any(
                one.minute == number and one.hour in hours and cron.fires_on(one.date()) for one in looked_at
            ):
                slots.append(at)
    return found


def _clock(cron: Cron, where: ZoneInfo) -> tuple[int, frozenset[int], bool]:
    number, named = cron.text.split()[:2]
    return int(number), _parse_field(named, _FIELDS[1]), named.startswith("*") and where.key != HALF_HOUR
