"""When a schedule fires, found by walking every minute of UTC: an oracle that knows no calendar arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from statemachines.contracts.cron import Cron

_MINUTE = timedelta(minutes=1)


def walked(cron: Cron, where: ZoneInfo, start: int, end: int) -> list[int]:
    """Firings in [start, end), epoch seconds."""
    found = []
    minute = datetime.fromtimestamp(start, UTC) - _MINUTE
    newest = minute.astimezone(where).replace(tzinfo=None)  # the latest wall clock shown so far
    for _ in range((end - start) // 60):
        minute += _MINUTE
        wall = minute.astimezone(where).replace(tzinfo=None)
        shown, due = newest, False
        while shown < wall:  # the minutes that the wall clock passed or jumped over; none while it repeats itself
            shown += _MINUTE
            due = due or (shown.minute == cron.minute and shown.hour in cron.hours and cron.fires_on(shown.date()))
        newest = max(newest, wall)
        if due:
            found.append(int(minute.timestamp()))
    return found
