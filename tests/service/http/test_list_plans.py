"""A page of a list costs what it shows, however much there is and whatever it is filtered by (P25)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import get_args

import psycopg
import pytest

from service.cases import listing
from service.cases.listing import CaseFilter, Counted
from service.eventstore.read.reader import END, PageEnd
from service.eventstore.store import EventStore
from tests.support import list_plans
from tests.support.cluster import TestCluster
from tests.support.list_plans import CASE, LIMIT, MOST_ROWS, NEWEST, PROJECT

ROWS = 12_000  # `make torture` has 300,000


@pytest.fixture(scope="module")
def many_url(cluster: TestCluster) -> Iterator[str]:
    with cluster.database() as url:
        asyncio.run(list_plans.fill_all(url, ROWS))
        yield url


@pytest.mark.parametrize("operation", list_plans.lists())
async def test_a_page_looks_at_few_rows_whatever_it_is_filtered_by(many_url: str, operation: str):
    async with list_plans.watched(many_url) as store:
        assert await list_plans.check(store, operation) == []


@pytest.mark.parametrize("back", [0, 5_000, 11_000, ROWS - 3])
@pytest.mark.parametrize(
    ("status", "is_shown"), [(None, "true"), ("open", "status <> 'resolved'"), ("resolved", "status = 'resolved'")]
)
async def test_what_is_looked_through_or_found_by_its_index_is_the_same(
    many_url: str, status: str | None, is_shown: str, back: int
):
    """Whether what a list is filtered by is rare, frequent or frequent among old cases alone (R-CASE-11)."""
    place = PageEnd(NEWEST - back, "case_8")
    async with list_plans.watched(many_url) as store:
        with psycopg.connect(many_url) as sql:
            for environment, word in [
                ("rare", None),
                ("all", None),
                ("old", None),
                ("none", None),
                ("old", "all"),
                (None, "rare"),
            ]:
                wanted = CaseFilter(status, environment, None, None, word, None)
                found = await listing.list_cases(store, PROJECT, wanted, place, LIMIT)
                expected = sql.execute(
                    "select c.id from cases c join case_stats s using (project_id, id) "
                    f"where c.project_id = %s and (c.opened_at, c.id) < (%s, %s) and {is_shown} "
                    "and (%s::text is null or %s = any(s.environments)) "
                    "and (%s::text is null or s.title like '%%' || %s || '%%') "
                    "order by c.opened_at desc, c.id desc limit %s",
                    (PROJECT, place.at, place.id, environment, environment, word, word, LIMIT),
                )
                assert [case.id for case in found] == [case_id for (case_id,) in expected], (environment, word)


@pytest.mark.parametrize(("order", "column"), [("last_seen", "last_seen_at"), ("errors", "event_count")])
async def test_an_order_finds_rare_and_frequent_words_alike(many_url: str, order: Counted, column: str):
    """Page after page, where many have counted as much as others."""
    async with list_plans.watched(many_url) as store:
        with psycopg.connect(many_url) as sql:
            for words in (("rare", None), ("all", None), ("frequent", "old"), ("all rare", "all"), ("no", None)):
                word, environment = words
                wanted = CaseFilter(None, environment, None, None, word, None)
                rows = sql.execute(
                    "select id from case_stats where project_id = %s and string_to_array(title, ' ') @> %s "
                    f"and (%s::text is null or %s = any(environments)) order by {column} desc, id desc limit %s",
                    (PROJECT, word.split(), environment, environment, 2 * LIMIT),
                )
                expected = [case_id for (case_id,) in rows]
                first = await listing.list_ordered(store, PROJECT, wanted, order, END, LIMIT)
                assert [case.id for case in first] == expected[:LIMIT], (word, environment)
                if len(first) == LIMIT:
                    place = first[-1].place_by(order)
                    second = await listing.list_ordered(store, PROJECT, wanted, order, place, LIMIT)
                    assert [case.id for case in second] == expected[LIMIT:], (word, environment)


@pytest.mark.parametrize("status", [None, "open"])
@pytest.mark.parametrize("order", get_args(Counted))
async def test_an_order_alone_reads_its_index(many_url: str, order: Counted, status: str | None):
    """The first page, and one far behind it."""
    wanted = CaseFilter(status, None, None, None, None, ["customer_provider", "imported"] if status else None)
    async with list_plans.watched(many_url) as store:
        for place in (END, PageEnd({"last_seen": NEWEST - 40_000_000 + 6_000}.get(order, 1), CASE)):
            page = await listing.list_ordered(store, PROJECT, wanted, order, place, LIMIT)
            assert len(page) == LIMIT
        assert max(rows for rows, _ in store.seen) <= MOST_ROWS
        assert len(store.seen) == 2, store.seen


_CASES = (
    "insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, opened_at, "
    "merged_into) select %(p)s, 'case_' || n, 1, 1, case when n %% 40 = 1 then 'merged' else 'open' end, 'f', 1, 1, "
    "case when n %% 40 = 1 then 'case_' || n * 7 %% 900 / 40 * 40 end from generate_series(0, 899) n"
)
_STATS = (
    "insert into case_stats (project_id, id, title, message, level, environment, environments, releases, unmarked, "
    "event_count, users_affected, first_seen_at, last_seen_at) select %(p)s, 'case_' || n, 't', 'm', 'error', 'e', "
    "'{}', '{}', n %% 9 > 0, (1.01 ^ (n * 37 %% 1000))::bigint, n * 31 %% 700, 1, 100000 + n * 53 %% 5000 "
    "from generate_series(0, 899) n"
)
"""Cases with few and many errors, of which some have equally many, and every 40th with merged ones."""


@pytest.fixture(scope="module")
def merged_url(cluster: TestCluster) -> Iterator[str]:
    with cluster.database() as url, psycopg.connect(url, autocommit=True) as sql:
        for statement in (_CASES, _STATS):
            sql.execute(statement.encode(), {"p": PROJECT})
        yield url


async def paged(store: EventStore, wanted: CaseFilter, order: Counted, limit: int) -> list[str]:
    """The cases of all pages of an order."""
    place, found = END, []
    while page := await listing.list_ordered(store, PROJECT, wanted, order, place, limit):
        found += [case.id for case in page]
        place = page[-1].place_by(order)
    return found


@pytest.mark.parametrize("walks", [(1,), (10, 30), (200, 2_000)])
@pytest.mark.parametrize("status", [None, "open", "ignored"])
@pytest.mark.parametrize("order", get_args(Counted))
async def test_what_an_index_has_in_order_is_what_all_counters_have(
    merged_url: str, monkeypatch: pytest.MonkeyPatch, order: Counted, status: str | None, walks: tuple[int, ...]
):
    """Page after page, also of cases that others were merged into, whatever part of the index fills a page."""
    wanted = CaseFilter(status, None, None, None, None, None)
    async with list_plans.reading(merged_url) as store:
        monkeypatch.setattr(listing, "_WALKS", ())
        expected = await paged(store, wanted, order, 300)
        monkeypatch.setattr(listing, "_WALKS", walks)
        assert await paged(store, wanted, order, 10) == expected
        assert len(expected) == len(set(expected)) == {None: 900, "open": 877, "ignored": 23}[status]
