"""The time of the database in SQL, for statements that are put together in Python.

Each constant is a scalar subquery: a statement asks once for the time, however many rows it looks at, and an index on
the compared column serves. A process's own clock decides nothing.
"""

from __future__ import annotations

from typing import Final

DAY: Final = 86400
"""Seconds."""

NOW: Final = "(select service_now())"
"""The moment, as timestamptz."""

NOW_SECONDS: Final = "(select service_seconds())"
"""Whole epoch seconds, as bigint: what deadlines, leases and times of receipt are told in."""
