"""Reads of who met errors (R-CASE-05 to R-CASE-07, G-051, G-055). Each looks at a bounded number of rows.

Who a person is, is what telemetry calls them: `user.id` of an error, `distinct_id` of an analytics event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from schemas.cases.people import AffectedUser, PersonEvent
from service.auth.refusals import refusal
from service.eventstore.connect.clock import DAY
from service.eventstore.store import EventStore

MOST_OF_CASE = 20_000  # people of a case that are put in order
MOST_SHOWN = 500
MOST_ERRORS = 50_000  # of a project that are looked at, newest first
MOST_OF_PERSON = 10_000  # of each kind that are counted
RECENT = 50

_OF_CASE = """
with ids as (
    select c.id from cases c where c.project_id = %s and c.id = %s
    union all select m.id from cases m where m.project_id = %s and m.merged_into = %s
), seen as (
    select u.* from ids i cross join lateral (
        select * from case_users u where u.project_id = %s and u.case_id = i.id order by u.user_id limit %s) u
), people as (
    select s.user_id, (array_agg(s.user_email order by s.last_seen_at desc) filter (where s.user_email is not null))[1],
        sum(s.error_count)::bigint as errors, count(*), max(s.last_seen_at)
    from seen s group by s.user_id
)
select (select count(*) from ids), (select max(n) from (select count(*) as n from seen group by case_id) x), p.*
from (select 1) one left join (select * from people order by errors desc, user_id limit %s) p on true
"""
_OF_PROJECT = """
with errors as (
    select e.user_id, e.fingerprint, e.received_at,
        case when jsonb_typeof(e.user_data -> 'email') = 'string' then e.user_data ->> 'email' end as email
    from (
        select * from log_events l where l.project_id = %s and l.received_at >= %s
        order by l.received_at desc, l.id desc limit %s) e
    where e.case_id is not null
), people as (
    select e.user_id, (array_agg(e.email order by e.received_at desc) filter (where e.email is not null))[1],
        count(*) as errors, count(distinct e.fingerprint), max(e.received_at)
    from errors e where e.user_id is not null group by e.user_id
)
select (select count(*) from errors), (select count(*) from people), p.*
from (select 1) one left join (select * from people order by errors desc, user_id limit %s) p on true
"""
# The oldest of the rows that the read before looks at, when there are more within the window.
_LOOKED_FROM = """
select l.received_at from log_events l where l.project_id = %s and l.received_at >= %s
order by l.received_at desc, l.id desc offset %s limit 1
"""
_KNOWN = """
select x.analytics, y.logs, y.errors,
    least((select min(a.received_at) from analytics_events a where a.project_id = %s and a.distinct_id = %s),
        (select min(l.received_at) from log_events l where l.project_id = %s and l.user_id = %s)),
    greatest((select max(a.received_at) from analytics_events a where a.project_id = %s and a.distinct_id = %s),
        (select max(l.received_at) from log_events l where l.project_id = %s and l.user_id = %s)),
    (select l.user_data ->> 'email' from (select * from log_events l where l.project_id = %s and l.user_id = %s
        order by l.received_at desc limit %s) l where jsonb_typeof(l.user_data -> 'email') = 'string'
        order by l.received_at desc limit 1)
from (
    select count(*) as analytics from (
        select from analytics_events a where a.project_id = %s and a.distinct_id = %s limit %s) a) x
cross join (
    select count(*) as logs, count(*) filter (where l.case_id is not null) as errors from (
        select l.case_id from log_events l where l.project_id = %s and l.user_id = %s
        order by l.received_at desc limit %s) l) y
"""
_RECENT = """
select * from (
    (select a.id, 'analytics', a.event, null, null, null, null, a.received_at,
        coalesce(a.adjusted, '[]') from analytics_events a
        where a.project_id = %s and a.distinct_id = %s order by a.received_at desc limit %s)
    union all
    (select l.id, 'log', l.message, l.level, l.environment, l.release, l.case_id, l.received_at,
        coalesce(l.adjusted, '[]') from log_events l where l.project_id = %s and l.user_id = %s
        order by l.received_at desc limit %s)
) as e(id, kind, name, level, environment, release, case_id, received_at, adjusted)
order by received_at desc, id desc limit %s
"""


class OfCase(NamedTuple):
    """People of a case, most errors first; not `complete`: there are more than were put in order, or are shown."""

    users: list[AffectedUser]
    complete: bool


class OfProject(NamedTuple):
    """People of a project; everything counts errors since `counted_from` (epoch seconds)."""

    users: list[AffectedUser]
    unique_users: int
    total_events: int
    counted_from: int
    complete: bool


class PersonFacts(NamedTuple):
    """What is known of a person: nothing when there are no events. Times in epoch seconds."""

    total: int
    errors: int
    first_seen_at: int | None
    last_seen_at: int | None
    email: str | None
    recent: list[PersonEvent]


async def users_of_case(store: EventStore, project_id: str, case_id: str) -> OfCase:
    """Read who met the errors of a case and of those merged into it. Raises `case_not_found`."""
    named = (project_id, case_id, project_id, case_id, project_id)
    rows = await store.fetch(_OF_CASE, *named, MOST_OF_CASE, MOST_SHOWN + 1)
    if not rows[0][0]:
        raise refusal("case_not_found")
    users = _users([row[2:] for row in rows])
    return OfCase(users[:MOST_SHOWN], len(users) <= MOST_SHOWN and (rows[0][1] or 0) < MOST_OF_CASE)


async def users_of_project(store: EventStore, project_id: str, days: int, limit: int) -> OfProject:
    """Read who met errors of a project within so many days."""
    since = await store.now() - days * DAY
    found = await store.fetch(_LOOKED_FROM, project_id, since, MOST_ERRORS - 1)
    rows = await store.fetch(_OF_PROJECT, project_id, since, MOST_ERRORS, limit)
    total, people = rows[0][:2]
    counted_from = found[0][0] if found else since
    return OfProject(_users([row[2:] for row in rows]), people, total, counted_from, not found)


async def person(store: EventStore, project_id: str, distinct_id: str) -> PersonFacts:
    """Read what is known of a person."""
    who, most = (project_id, distinct_id), MOST_OF_PERSON
    [[analytics, logs, errors, first, last, email]] = await store.fetch(
        _KNOWN, *who * 4, *who, RECENT, *who, most, *who, most
    )
    rows = await store.fetch(_RECENT, *who, RECENT, *who, RECENT, RECENT) if analytics or logs else []
    fields = PersonEvent.__struct_fields__
    recent = [PersonEvent(**dict(zip(fields, row, strict=True))) for row in rows]
    return PersonFacts(analytics + logs, errors, first, last, email, recent)


def _users(rows: Iterable[Sequence[Any]]) -> list[AffectedUser]:
    fields = AffectedUser.__struct_fields__
    return [AffectedUser(**dict(zip(fields, row, strict=True))) for row in rows if row[0] is not None]
