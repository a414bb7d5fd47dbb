"""What the ledger of erasures names and a database holds all the same, because a backup was restored (restoring.py).

Asked at each start, so this loads neither a machine nor the store.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from service.deletion.ledger import Erasure, erasures
from service.eventstore.declare.sqlfiles import load_sql

_ALIVE = load_sql("deletion", "alive")


def to_erase_again(conninfo: str, ledger: Path) -> list[Erasure]:
    """Name what was erased and is in the database all the same. Raises psycopg.Error, and OSError for the ledger."""
    known = erasures(ledger)
    if not known:
        return []
    with psycopg.connect(conninfo, autocommit=True, application_name="service-restore") as connection:
        scopes, deletions, times = map(list, zip(*known, strict=True))
        values = {"scopes": scopes, "deletions": deletions, "times": times}
        return [Erasure(*row) for row in connection.execute(_ALIVE.encode(), values).fetchall()]
