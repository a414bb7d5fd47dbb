"""The list of cases: pages by every filter, each of which looks at a bounded part of what there is (R-CASE-11).

How many cases have an environment, a release or a word no planner can tell of a rare one, nor that all of them are old
or resolved: it would look through the whole list for a page. So a list that is filtered by one of these looks through
the newest first, where it finds what is frequent. Where that does not fill the page, the index of elements finds what
is rare; unless nothing older is left, for then it would find what is frequent in vain.

A list in another order than the newest first reads the first of an index by ranks: a counter changes with every error,
and a rank seldom. Where these do not fill the page, it looks at the counters of all cases of the project. Words of few
cases are taken apart there, too: the index finds a rare word, and the first cases in order have a frequent one.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from projections.cases import Source
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.sql import Query, load_query

_LIST = load_query("cases/listing", "list")
_LIST_WALKED = load_query("cases/listing", "list_walked")
_LIST_FOUND = load_query("cases/listing", "list_found")
_LIST_ORDERED = load_query("cases/listing", "list_ordered")
_LIST_BY_ERRORS = load_query("cases/listing", "list_by_errors")
_LIST_BY_PEOPLE = load_query("cases/listing", "list_by_people")
_LIST_BY_LAST_ERROR = load_query("cases/listing", "list_by_last_error")
_OF_WORDS = load_query("cases/listing", "of_words")
_LIST_ONE = load_query("cases/listing", "list_one")
_COUNT_AMONG = load_query("cases/listing", "count_among")
_OF_PERSON = load_query("cases/listing", "of_person")
_WALKED, _WALKED_FOR_WORDS = 300, 200  # of the newest; to take the words of a case apart costs as much as ten others
_MET = 500  # cases of a person that are looked at by their ids
_RARE = 2_000  # cases that have a word; beyond this it is frequent among whatever is put in order

_WALKS = (500, 5_000)
"""Of the first cases in order. A few fill most pages, and more find what is rare, or put many of one rank in order."""
_EXACT = 256
"""A counter below is its own rank. Above it a doubling has 128 ranks: see 0797_orders_of_cases.sql."""

Counted = Literal["last_seen", "errors", "people"]
"""Orders by counters, the highest first."""
_BY_INDEX = {"last_seen": _LIST_BY_LAST_ERROR, "errors": _LIST_BY_ERRORS, "people": _LIST_BY_PEOPLE}


class CaseFilter(NamedTuple):
    """Which cases a list shows; None: all. `since` is the epoch second after which a case was last seen.

    `text` are words that its title, message and culprit have. `trust` is where its errors may come from. `tag` is one
    of its first error as `name=value`, `path` the beginning of its culprit, and `person` somebody whom it affected.
    """

    status: str | None
    environment: str | None
    release: str | None
    since: int | None
    text: str | None = None
    trust: Sequence[str] | None = None
    tag: str | None = None
    path: str | None = None
    person: str | None = None

    @property
    def told(self) -> dict[str, str | None]:
        """What a first error and people tell, as the queries name it."""
        return {"tag": self.tag, "path": self.path, "person": self.person}

    @property
    def by_columns(self) -> bool:
        """Whether no index of elements is needed to find the cases."""
        return {self.environment, self.release, self.text, *self.told.values()} == {None}


def shown_trust(trust: str | None, status: str) -> Sequence[str] | None:
    """Where the errors of listed cases may come from: as asked for, and of open ones from everything but proofs.

    What an onboarding proof has brought is no open case of the product's.
    """
    if trust is not None:
        return (trust,)
    return ("customer_provider", "imported") if status == "open" else None


class ListedCase(NamedTuple):
    """A case as the list shows it.

    `unmarked`: some of it did not come from an onboarding proof or an import. `imported`: an import opened it.
    """

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
    first_occurred_at: int
    last_occurred_at: int
    source: Source
    imported: bool

    @property
    def place(self) -> PageEnd:
        """Where it stands in the list of the newest."""
        return PageEnd(self.opened_at, self.id)

    def place_by(self, order: Counted) -> PageEnd:
        """Where it stands in a list by what it has counted."""
        counted = {"last_seen": self.last_seen_at, "errors": self.event_count, "people": self.users_affected}
        return PageEnd(counted[order], self.id)


async def list_cases(
    store: EventStore, project_id: str, wanted: CaseFilter, start: PageEnd, limit: int
) -> list[ListedCase]:
    """Read cases by the time they were opened, newest first, after a place."""
    among = {"project_id": project_id, "at": start.at, "id": start.id, "status": wanted.status}
    counted = {"since": wanted.since, "trust": None if wanted.trust is None else list(wanted.trust), "limit": limit}
    if wanted.by_columns:
        return await _page(store, _LIST, **among, **counted)
    named = {"environment": wanted.environment, "release": wanted.release}
    told = {**wanted.told, "text": wanted.text}
    ids = None
    if wanted.person is not None:
        met = await store.fetch_planned(_OF_PERSON, project_id=project_id, person=wanted.person, most=_MET + 1)
        ids = [case_id for (case_id,) in met] if len(met) <= _MET else None
    if ids is None:
        walked = _WALKED if wanted.text is None else _WALKED_FOR_WORDS
        page = await _page(store, _LIST_WALKED, **among, **counted, **named, **told, walked=walked)
        if len(page) == limit:
            return page
        [[left]] = await store.fetch_planned(_COUNT_AMONG, **among, most=walked + 1)
        if left <= walked:
            return page
    marks = [f"{project_id} {name} {value}" for name, value in named.items() if value is not None]
    return await _page(store, _LIST_FOUND, **among, **counted, **told, marks=marks or None, ids=ids)


async def list_ordered(
    store: EventStore, project_id: str, wanted: CaseFilter, order: Counted, start: PageEnd, limit: int
) -> list[ListedCase]:
    """Read cases by what they have counted, with what was merged into them, the highest first, after a place.

    A case that gets errors meanwhile may move between pages.
    """
    among = {"project_id": project_id, "at": start.at, "id": start.id, "status": wanted.status}
    counted = {"since": wanted.since, "trust": None if wanted.trust is None else list(wanted.trust), "limit": limit}
    named = {"environment": wanted.environment, "release": wanted.release}
    told, ids = {**wanted.told, "text": wanted.text}, None
    if any(value is not None for value in told.values()):
        found = await store.fetch_planned(_OF_WORDS, project_id=project_id, **told, most=_RARE + 1)
        if len(found) <= _RARE:
            told, ids = dict.fromkeys(told), [case_id for (case_id,) in found]
    wanted_too = {**among, **counted, **named, **told, "order": order}
    for walked in _WALKS if ids is None else ():
        page = await _page(store, _BY_INDEX[order], **wanted_too, **_begin_of_walk(order, start), walked=walked)
        if len(page) == limit:
            return page
    return await _page(store, _LIST_ORDERED, **wanted_too, ids=ids)


def _begin_of_walk(order: Counted, start: PageEnd) -> dict[str, Any]:
    """Where an index is read from: at a place, or a little before it where a rank stands for several values."""
    if order == "last_seen":
        return {"rank": start.at // 60 + 1, "rank_id": "", "exact": 0}
    if start.at < _EXACT:
        return {"rank": start.at, "rank_id": start.id, "exact": _EXACT}
    return {"rank": _EXACT + int(128 * math.log2(start.at / _EXACT)) + 2, "rank_id": "", "exact": _EXACT}


async def listed_case(store: EventStore, project_id: str, case_id: str) -> ListedCase | None:
    """Read one case as the list shows it."""
    rows = await store.fetch(_LIST_ONE, project_id=project_id, id=case_id)
    return ListedCase(*rows[0]) if rows else None


async def _page(store: EventStore, query: Query, **values: Any) -> list[ListedCase]:
    """Read a page. Which condition leaves the fewest cases differs between projects: each page is planned anew."""
    return [ListedCase(*row) for row in await store.fetch_planned(query, **values)]
