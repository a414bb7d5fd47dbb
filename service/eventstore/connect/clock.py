"""The time of the database in SQL: the one place that spells service_now().

Each constant is a scalar subquery: a statement asks once for the time, however many rows it looks at, and an index on
the compared column serves. A process's own clock decides nothing.
"""

from __future__ import annotations

from typing import Final

DAY: Final = 86400
"""Seconds."""

NOW: Final = "(select service_now())"
"""The moment, as timestamptz."""

NOW_SECONDS: Final = "(select floor(extract(epoch from service_now()))::bigint)"
"""Whole epoch seconds, as bigint: what deadlines, leases and times of receipt are told in."""

TODAY: Final = f"(select floor(extract(epoch from service_now()) / {DAY})::bigint * {DAY})"  # noqa: S608 - a constant
"""Epoch seconds of the present day's UTC midnight, as bigint."""
