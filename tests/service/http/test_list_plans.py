"""A page of a list costs what it shows, however much there is and whatever it is filtered by (P25)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from service.cases import listing
from service.cases.listing import CaseFilter, Counted
from service.eventstore.read.reader import END, PageEnd
from tests.support import list_plans
from tests.support.cluster import TestCluster
from tests.support.list_plans import LIMIT, NEWEST, PROJECT

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
