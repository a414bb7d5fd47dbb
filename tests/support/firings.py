"""When a schedule fires, found by walking every minute of UTC: an oracle that knows no calendar arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from statemachines.contracts.cron import _FIELDS, Cron, _parse_field

_MINUTE = timedelta(minutes=1)


def walked(cron: Cron, where: ZoneInfo, start: int, end: int) -> list[int]:
    """Firings in [start, end), epoch seconds, by the rules of Debian's cron.

    With a star before its hours, the wall clock at each minute decides. Without one, so do the minutes that it jumps
    over, and none that it shows again.
    """
    found = []
    number, named = cron.text.split()[:2]
    hours, by_the_hour = _parse_field(named, _FIELDS[1]), named.startswith("*")
    minute = datetime.fromtimestamp(start - 86_400, UTC) - _MINUTE
    newest = minute.astimezone(where).replace(tzinfo=None)  # the latest wall clock shown so far
    for _ in range((end - start + 86_400) // 60):
        minute += _MINUTE
        wall = minute.astimezone(where).replace(tzinfo=None)
        shown = [newest + _MINUTE * step for step in range(1, 1 + max(0, (wall - newest) // _MINUTE))]
        newest = max(newest, wall)
        looked_at = [wall] if by_the_hour else shown
        if int(minute.timestamp()) >= start and any(
            one.minute == int(number) and one.hour in hours and cron.fires_on(one.date()) for one in looked_at
        ):
            found.append(int(minute.timestamp()))
    return found
