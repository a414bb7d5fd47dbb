"""The end of decisions and looks that the plan keeps no longer, and of turns that nobody waits for (G-071, G-137)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
import structlog

from service.eventstore.connect.clock import DAY, NOW, NOW_SECONDS

log = structlog.get_logger()

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

STEP = 2000  # rows a transaction deletes

# Of an automation and a case even the last record goes: the next look that considers the case makes it anew.
_DECISIONS = (
    "delete from automation_decisions d where d.project_id = %s and d.id = any(array("  # noqa: S608 - constants
    f"select o.id from automation_decisions o where o.project_id = %s and o.decided_at < {NOW_SECONDS} - %s * {DAY} "
    "order by o.seq limit %s))"
)
_LOOKS = f"delete from automation_looks where project_id = %s and hour < {NOW_SECONDS} - %s * {DAY}"  # noqa: S608 - constants
_TURNS = f"delete from sweep_turns where considered_at < {NOW} - interval '1 day'"  # noqa: S608 - constants


async def forget_decisions(connection: Connection, days_by_project: Mapping[str, int]) -> int:
    """Delete what is older than each project's days, in steps; returns how many decisions went.

    `connection` is in autocommit mode. Turns go after a day: whatever is still due then comes first anyway.
    """
    total = 0
    for project_id, days in days_by_project.items():
        while True:
            gone = (await connection.execute(_DECISIONS.encode(), (project_id, project_id, days, STEP))).rowcount
            total += gone
            if gone < STEP:
                break
        await connection.execute(_LOOKS.encode(), (project_id, days))
    await connection.execute(_TURNS.encode())
    if total:
        log.info("decisions_purged", rows=total)
    return total
