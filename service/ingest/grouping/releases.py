"""Which errors say nothing about a resolved case: those of a release that was replaced before (G-144).

What counts is the order of deploys to the error's environment, never what versions are called. It is read beside the
locks: a deploy that is recorded at the same moment may be seen or not, as if the error had come before or after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from service.eventstore.connect.arrays import columns
from service.eventstore.connect.connection import Connection

_OUTDATED = """
select w.project_id, w.environment, w.release, w.resolved_at
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[]) as w(project_id, environment, release, resolved_at)
cross join lateral (
    select d.recorded_at, d.id from deploys d
    where d.project_id = w.project_id and d.environment = w.environment and d.version = w.release
    order by d.recorded_at desc, d.id desc limit 1) last
cross join lateral (
    select d.recorded_at, d.id from deploys d
    where d.project_id = w.project_id and d.environment = w.environment and d.recorded_at <= w.resolved_at
    order by d.recorded_at desc, d.id desc limit 1) present
where (last.recorded_at, last.id) < (present.recorded_at, present.id)
"""


class ReleaseQuestion(NamedTuple):
    """Whether a release had been replaced in an environment at a time (epoch seconds)."""

    project_id: str
    environment: str
    release: str
    resolved_at: int


def find_outdated(connection: Connection, questions: Iterable[ReleaseQuestion]) -> frozenset[ReleaseQuestion]:
    """Answer with those of the questions to which it is yes. Raises psycopg.Error."""
    asked = sorted(set(questions))
    if not asked:
        return frozenset()
    rows = connection.execute(_OUTDATED, columns(asked, 4), prepare=True).fetchall()
    return frozenset(ReleaseQuestion(*row) for row in rows)
