"""Whether the database answers, as one process sees it: a line in the log when it stops, and one when it is back.

Everything that talks to the database reports here instead of logging for itself: while it is gone, each request and
each thread meets that again and again, and what an operator needs is when it began and how long it took.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import structlog

log = structlog.get_logger()


class Outage:
    """Begins with the first connection that is lost or not made, and ends with the next one that is made.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    @property
    def lasts(self) -> bool:
        """Whether the database was last found gone."""
        return self._since is not None

    def began(self, error: BaseException, **more: Any) -> None:
        """A connection was lost, found silent or not made; `more` goes into the line."""
        with self._lock:
            if self._since is not None:
                return
            self._since = time.monotonic()
        sqlstate = getattr(error, "sqlstate", None) or ""
        log.error("database_gone", error=type(error).__name__, sqlstate=sqlstate, **more)

    def ended(self) -> None:
        """A connection was made."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.warning("database_back", seconds=round(time.monotonic() - since, 1))


OUTAGE = Outage()
"""The one of this process, which has one database."""
