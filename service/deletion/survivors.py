"""What the ledger of erasures names and a database holds all the same, because a backup was restored (restoring.py).

Asked at each start, so this loads neither a machine nor the store.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from service.deletion.ledger import Erasure, erasures

# Of what the ledger names: the scope is there, and its deletion is not known, or has not come to its purge.
_ALIVE = """
select l.scope_id, l.deletion_id, l.at from unnest(%s::text[], %s::text[], %s::bigint[]) l(scope_id, deletion_id, at)
left join deletions d on d.project_id = l.deletion_id and d.id = l.deletion_id
where (d.phase = 'fenced' or (d.id is null and not exists (
    select from stream_heads h where h.project_id = l.deletion_id and h.stream_id = l.deletion_id)))
and (exists (select from projects p where p.project_id = l.scope_id and p.id = l.scope_id)
    or exists (select from people p where p.project_id = l.scope_id and p.id = l.scope_id and p.created_at <= l.at))
order by l.at, l.deletion_id
"""


def to_erase_again(conninfo: str, ledger: Path) -> list[Erasure]:
    """Name what was erased and is in the database all the same. Raises psycopg.Error, and OSError for the ledger."""
    known = erasures(ledger)
    if not known:
        return []
    with psycopg.connect(conninfo, autocommit=True, application_name="service-restore") as connection:
        columns = [list(column) for column in zip(*known, strict=True)]
        return [Erasure(*row) for row in connection.execute(_ALIVE, columns).fetchall()]
