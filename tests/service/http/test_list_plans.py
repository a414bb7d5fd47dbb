"""A page of a list costs what it shows, however much there is and whatever it is filtered by (P25)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import list_plans
from tests.support.cluster import TestCluster
from tests.support.list_plans import LISTS, UNBOUNDED, documented

ROWS = 12_000  # `make torture` has 300,000


@pytest.fixture(scope="module")
def many_url(cluster: TestCluster) -> Iterator[str]:
    with cluster.database() as url:
        for table in sorted({table for made in LISTS.values() for table in made.tables}):
            list_plans.fill(url, table, ROWS)
        yield url


def test_every_list_and_each_of_its_filters_is_looked_at():
    """A list that is new, or a filter, is added to tests/support/list_plans.py; and gets its index."""
    tried = {operation: set(made.pages) for operation, made in LISTS.items()}
    built = {name: filters for name, filters in documented().items() if name not in UNBOUNDED}
    assert set(built) == set(tried)
    assert {name: filters - tried[name] for name, filters in built.items() if filters - tried[name]} == {}


@pytest.mark.parametrize("operation", LISTS)
async def test_a_page_looks_at_few_rows_whatever_it_is_filtered_by(many_url: str, operation: str):
    async with list_plans.watched(many_url) as store:
        assert await list_plans.check(store, operation) == []
