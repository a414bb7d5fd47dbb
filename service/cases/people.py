"""Reads of who met errors (R-CASE-05 to R-CASE-07, G-051, G-055). Each looks at a bounded number of rows.

Who a person is, is what telemetry calls them: `user.id` of an error, `distinct_id` of an analytics event. A person may
have several such names (G-197).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from schemas.cases.people import AffectedUser, PersonEvent
from service.auth.refusals import refusal
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.sql import load_query

MOST_OF_CASE = 20_000  # people of a case that are put in order
MOST_SHOWN = 500
MOST_ERRORS = 20_000  # of a project that are looked at, newest first
MOST_OF_PERSON = 10_000  # of each kind that are counted
MOST_LATE = 1000  # of each kind, the first and the last received, among which are those that happened first and last
RECENT = 50

_OF_CASE = load_query("cases/people", "people_of_case")
_OF_PROJECT = load_query("cases/people", "people_of_project")
_NAMES = load_query("cases/people", "names_of_person")
_KNOWN = load_query("cases/people", "person")
_RECENT = load_query("cases/people", "recent_of_person")


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
    """What is known of a person: nothing when there are no events and a product told nothing. Times in epoch seconds.

    `names` has the one that the person is called by first. `properties` are None when none was ever told, and
    `links_refused` counts names that were not joined (G-197).
    """

    names: list[str]
    properties: dict[str, Any] | None
    identified: bool
    links_refused: int
    total: int
    errors: int
    first_seen_at: int | None
    last_seen_at: int | None
    first_occurred_at: int | None
    last_occurred_at: int | None
    email: str | None
    recent: list[PersonEvent]

    @property
    def known(self) -> bool:
        """Whether there is anything to tell of the person."""
        return bool(self.total) or self.properties is not None


async def users_of_case(store: EventStore, project_id: str, case_id: str) -> OfCase:
    """Read who met the errors of a case and of those merged into it. Raises `case_not_found`."""
    rows = await store.fetch(_OF_CASE, project_id=project_id, case_id=case_id, most=MOST_OF_CASE, shown=MOST_SHOWN + 1)
    if not rows[0][0]:
        raise refusal("case_not_found")
    users = _users([row[2:] for row in rows])
    return OfCase(users[:MOST_SHOWN], len(users) <= MOST_SHOWN and (rows[0][1] or 0) < MOST_OF_CASE)


async def users_of_project(store: EventStore, project_id: str, days: int, limit: int) -> OfProject:
    """Read who met errors of a project within so many days."""
    since = await store.now() - days * DAY
    rows = await store.fetch(_OF_PROJECT, project_id=project_id, since=since, most=MOST_ERRORS, shown=limit)
    total, people, oldest = rows[0][:3]
    counted_from = since if oldest is None else oldest
    return OfProject(_users([row[3:] for row in rows]), people, total, counted_from, oldest is None)


async def person(store: EventStore, project_id: str, distinct_id: str) -> PersonFacts:
    """Read a summary of a person by one of the names."""
    found = await store.fetch(_NAMES, project_id=project_id, person=distinct_id)
    [[_, names, properties, identified, refused]] = found
    who = {"project_id": project_id, "names": names}
    looked = max(RECENT, MOST_LATE // len(names))
    [[analytics, logs, errors, first, last, happened_first, happened_last, email]] = await store.fetch(
        _KNOWN, **who, recent=RECENT, most=MOST_OF_PERSON, looked=looked
    )
    rows = await store.fetch(_RECENT, **who, recent=RECENT) if analytics or logs else []
    fields = PersonEvent.__struct_fields__
    recent = [PersonEvent(**dict(zip(fields, row, strict=True))) for row in rows]
    told = (names, properties, identified, refused)
    times = (first, last, happened_first, happened_last)
    return PersonFacts(*told, analytics + logs, errors, *times, email, recent)


def _users(rows: Iterable[Sequence[Any]]) -> list[AffectedUser]:
    fields = AffectedUser.__struct_fields__
    return [AffectedUser(**dict(zip(fields, row, strict=True))) for row in rows if row[0] is not None]
