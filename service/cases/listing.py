"""The list of cases: pages by every filter, each of which looks at a bounded part of what there is (R-CASE-11).

How many cases have an environment, a release or a word no planner can tell of a rare one, nor that all of them are old
or resolved: it would look through the whole list for a page. So a list that is filtered by one of these looks through
the newest first, where it finds what is frequent. Where that does not fill the page, the index of elements finds what
is rare; unless nothing older is left, for then it would find what is frequent in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.read.pages import PageEnd
from service.eventstore.store import EventStore

PEOPLE_COUNTED = 2000  # people of merged cases that are told apart

Condition = tuple[str, Sequence[Any]]
"""A condition with its values."""

_STATUS = "replace(replace(c.status, 'overflow', 'open'), 'merged', 'ignored')"
_MARKS = "case_marks(project => s.project_id, environments => s.environments, releases => s.releases)"
_WORDS = "case_words(project => s.project_id, title => s.title, message => s.message, culprit => s.culprit)"
_WORDS_OF = "case_words(project => %s, title => %s, message => '', culprit => null)"
_COLUMNS = """
select c.project_id, c.id, c.fingerprint, s.title, s.level, c.status, c.case_revision, s.unmarked, s.environment,
    s.release, s.event_count, s.users_affected, s.first_seen_at, s.last_seen_at, c.suppression_id, c.opened_at,
    c.merged_into
from {0} where true
"""
_PLACE = "c.project_id = %s and (c.opened_at, c.id) < (%s, %s)"
_LIST_ORDER = " order by c.opened_at desc, c.id desc limit %s"
_CASES = "cases c join case_stats s on s.project_id = c.project_id and s.id = c.id"
# Each is looked up by its key: a planner that took them all together would read all counters of the project.
_NEWEST = """
(select * from cases c where {0} order by c.opened_at desc, c.id desc limit %s) c
cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
"""
# What is found is put in order by an index that has all that this takes; the rest is read of a page alone.
_FOUND = """
(select * from cases c where c.project_id = %s and c.id = any(array(
    select c.id from cases c where {0} and c.id = any(array(select s.id from case_stats s where {1}))
    order by c.opened_at desc, c.id desc limit %s))) c
cross join lateral (select * from case_stats s where s.project_id = c.project_id and s.id = c.id offset 0) s
"""
# Some error of a case, or of one that was merged into it, did not come from an onboarding proof.
_REAL = """(s.unmarked or exists (
    select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
    where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked))"""
_WALKED, _WALKED_FOR_WORDS = 300, 200  # of the newest; to take the words of a case apart costs as much as ten others
_COUNTED = "select count(*) from (select from cases c where {0} limit %s) n"
# What a case has counted with those that were merged into it. A person that several of them met counts once, as far as
# so many people are told apart.
MERGED = """
left join lateral (
    select array_agg(m.id) as ids, sum(t.event_count)::bigint as events, min(t.first_seen_at) as first_at,
        max(t.last_seen_at) as last_at, bool_or(t.unmarked) as unmarked
    from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
    where m.project_id = c.project_id and m.merged_into = c.id
) g on true
"""
PEOPLE = f"""
case when g.ids is null then {{0}}.users_affected else greatest({{0}}.users_affected, (select count(*) from (
    select distinct u.user_id from case_users u
    where u.project_id = c.project_id and u.case_id = any(g.ids || c.id) limit {PEOPLE_COUNTED}) d)) end
"""  # noqa: S608 - a constant
_SHOWN = f"""
select c.id, c.fingerprint, c.title, c.level, c.status, c.case_revision, c.unmarked or coalesce(g.unmarked, false),
    c.environment, c.release, c.event_count + coalesce(g.events, 0), {PEOPLE.format("c")},
    least(c.first_seen_at, g.first_at), greatest(c.last_seen_at, g.last_at), c.suppression_id,
    exists (select from leases l join claims k on k.project_id = l.project_id and k.id = l.claim_id
        where l.project_id = c.project_id and l.case_id = c.id and k.status = 'active'
        and k.lease_expires_at > {NOW_SECONDS}), c.opened_at, c.merged_into
from ({{0}}) c {MERGED} order by c.opened_at desc, c.id desc
"""  # noqa: S608 - a constant


class CaseFilter(NamedTuple):
    """Which cases a list shows; None: all. `since` is the epoch second after which a case was last seen.

    `text` are words that its title, message and culprit have. `trust` is where its errors come from.
    """

    status: str | None
    environment: str | None
    release: str | None
    since: int | None
    text: str | None = None
    trust: str | None = None


class ListedCase(NamedTuple):
    """A case as the list shows it. `unmarked`: some of it did not come from an onboarding proof."""

    id: str
    fingerprint: str
    title: str
    level: Any
    status: Any
    revision: int
    unmarked: bool
    environment: str
    release: str | None
    event_count: int
    users_affected: int
    first_seen_at: int
    last_seen_at: int
    suppression_id: str | None
    claimed: bool
    opened_at: int
    merged_into: str | None

    @property
    def place(self) -> PageEnd:
        """Where it stands in the list."""
        return PageEnd(self.opened_at, self.id)


async def list_cases(
    store: EventStore, project_id: str, wanted: CaseFilter, start: PageEnd, limit: int
) -> list[ListedCase]:
    """Read cases by the time they were opened, newest first, after a place."""
    narrowed, direct = _sought(project_id, wanted)
    if not narrowed:
        return await _page(store, (_CASES, []), [_among(project_id, wanted, start), *_others(wanted)], limit)
    walked = _WALKED if wanted.text is None else _WALKED_FOR_WORDS
    among = _among(project_id, wanted, start)
    newest = _NEWEST.format(among[0]), [*among[1], walked]
    page = await _page(store, newest, [*direct, *_others(wanted)], limit)
    if len(page) == limit:
        return page
    [[left]] = await store.fetch_planned(_COUNTED.format(among[0]), *among[1], walked + 1)
    if left <= walked:
        return page
    conditions = [*narrowed, *_others(wanted)]
    found = _FOUND.format(among[0], " and ".join(text for text, _ in conditions))
    return await _page(store, (found, [project_id, *among[1], *_values(conditions), limit]), [], limit)


def _sought(project_id: str, wanted: CaseFilter) -> tuple[list[Condition], list[Condition]]:
    """What an index of elements finds, and the same as is soonest told of one case."""
    named = (("environment", wanted.environment), ("release", wanted.release))
    marks = [f"{project_id} {name} {value}" for name, value in named if value is not None]
    narrowed: list[Condition] = [(f"{_MARKS} @> %s::text[]", [marks])] if marks else []
    direct: list[Condition] = [(f"%s = any(s.{name}s)", [value]) for name, value in named if value is not None]
    if wanted.text is not None:
        words: Condition = f"{_WORDS} @> {_WORDS_OF}", [project_id, wanted.text]
        narrowed, direct = [*narrowed, words], [*direct, words]
    return narrowed, direct


def _among(project_id: str, wanted: CaseFilter, start: PageEnd) -> Condition:
    """The cases of a status after a place."""
    values = [project_id, start.at, start.id]
    return (_PLACE, values) if wanted.status is None else (f"{_PLACE} and {_STATUS} = %s", [*values, wanted.status])


def _others(wanted: CaseFilter) -> list[Condition]:
    """What else the counters of a case tell."""
    seen = "s.last_seen_hour >= %s / 3600 and s.last_seen_at >= %s"
    others: list[Condition] = [] if wanted.since is None else [(seen, [wanted.since, wanted.since])]
    if wanted.trust is not None:
        others.append((f"not {_REAL}" if wanted.trust == "synthetic" else _REAL, []))
    return others


def _values(conditions: Sequence[Condition]) -> list[Any]:
    return list(chain.from_iterable(given for _, given in conditions))


async def _page(store: EventStore, source: Condition, conditions: Sequence[Condition], limit: int) -> list[ListedCase]:
    """Read a page of the cases of a source that meet the conditions.

    Which of them leaves the fewest cases differs from one project to the next: each page is planned anew.
    """
    table, values = source
    statement = _COLUMNS.format(table) + "".join(f" and {text}" for text, _ in conditions) + _LIST_ORDER
    rows = await store.fetch_planned(_SHOWN.format(statement), *values, *_values(conditions), limit)
    return [ListedCase(*row) for row in rows]
