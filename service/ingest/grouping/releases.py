"""Which errors say nothing about a resolved case: those of a release older than its repair (G-144, G-199).

The repairing release is the one that was current in the error's environment when the case was resolved. A release is
older when it was last deployed there before that one, or when its version says so: a hotfix of an older line reopens
nothing. Deploys are read beside the locks: one that is recorded at the same moment may be seen or not, as if the error
had come before or after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from service.eventstore.connect.connection import Connection
from service.eventstore.connect.pipeline import columns
from statemachines.deploys.releases import PARTS, is_older, parts

_BARE = rf"regexp_replace(d.version, '{PARTS}.*$', '\2')"
_NAME = rf"regexp_replace(d.version, '{PARTS}.*$', '\1')"
_REPAIRED_BY = f"""
select w.project_id, w.environment, w.release, w.resolved_at, present.version,
    coalesce((last.recorded_at, last.id) < (present.recorded_at, present.id), false)
from unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[])
    as w(project_id, environment, release, resolved_at, name, bare)
left join lateral (
    select {_NAME} as name, d.recorded_at, d.id from deploys d
    where d.project_id = w.project_id and d.environment = w.environment and {_BARE} = w.bare
        and (w.name = '' or {_NAME} in ('', w.name))
    order by d.recorded_at desc, d.id desc limit 1) last on true
cross join lateral (select coalesce(nullif(w.name, ''), last.name, '') as name) package
cross join lateral (
    select d.version, d.recorded_at, d.id from deploys d
    where d.project_id = w.project_id and d.environment = w.environment and d.recorded_at <= w.resolved_at
        and (package.name = '' or {_NAME} in ('', package.name))
    order by d.recorded_at desc, d.id desc limit 1) present
"""  # noqa: S608 - put together from constants
"""A release without a name is of the package that was last deployed as that version."""


class ReleaseQuestion(NamedTuple):
    """Whether a release was older than the one that was current in an environment at a time (epoch seconds)."""

    project_id: str
    environment: str
    release: str
    resolved_at: int


def find_outdated(connection: Connection, questions: Iterable[ReleaseQuestion]) -> frozenset[ReleaseQuestion]:
    """Answer with those of the questions to which it is yes. Raises psycopg.Error."""
    asked = sorted(set(questions))
    if not asked:
        return frozenset()
    places = columns(((*question, *parts(question.release)) for question in asked), 6)
    rows = connection.execute(_REPAIRED_BY, places, prepare=True).fetchall()
    return frozenset(
        ReleaseQuestion(*question)
        for *question, repaired_by, replaced in rows
        if replaced or is_older(question[2], repaired_by)
    )
