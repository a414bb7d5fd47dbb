"""The end of decisions and looks that the plan keeps no longer, and of turns that nobody waits for (G-071, G-137)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
import structlog

from service.sql import load_query

log = structlog.get_logger()

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

STEP = 2000  # rows a transaction deletes

_DECISIONS = load_query("runs/background", "forget_decisions")
_LOOKS = load_query("runs/background", "forget_looks")
_TURNS = load_query("runs/background", "forget_turns")


async def forget_decisions(connection: Connection, days_by_project: Mapping[str, int]) -> int:
    """Delete what is older than each project's days, in steps; returns how many decisions went.

    `connection` is in autocommit mode. Turns go after a day: whatever is still due then comes first anyway.
    """
    total = 0
    for project_id, days in days_by_project.items():
        while True:
            values = {"project_id": project_id, "days": days, "most": STEP}
            gone = (await connection.execute(_DECISIONS, values)).rowcount
            total += gone
            if gone < STEP:
                break
        await connection.execute(_LOOKS, {"project_id": project_id, "days": days})
    await connection.execute(_TURNS)
    if total:
        log.info("decisions_purged", rows=total)
    return total
