"""A look for work is about the most frequent open cases, and finds them without looking at all of very many (G-119)."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from service.runs.looking import LOOKED_AT
from service.sql import load_query
from tests.support import list_plans
from tests.support.cluster import TestCluster
from tests.support.list_plans import NEWEST, PROJECT

MANY = 9_000
_HOUR = 3600
_NAIVE = (
    "select c.id from cases c join case_stats s using (project_id, id) where c.project_id = %s and c.status = 'open' "
    "order by s.event_count desc, s.last_seen_at desc, c.id limit %s"
)
_PICK = f"select o.id from (values (%s::text)) p(id) cross join lateral ({load_query('runs', 'picked')}) o"
FEW_OPEN = 1000
"""How many open cases are all compared to find the most frequent ones."""
_CASES = (
    "insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, opened_at) "
    "select '{project}', 'case_' || md5(n::text), 1, 1, {status}, 'f', 1, 1 from generate_series(1, {most}) n"
)
_STATS = (
    "insert into case_stats (project_id, id, title, message, level, environment, environments, releases, unmarked, "
    "event_count, users_affected, first_seen_at, last_seen_at) select '{project}', 'case_' || md5(n::text), 't', 'm', "
    "'error', 'e', '{{}}', '{{}}', true, {count}, 0, 1, {now} - {ago} from generate_series(1, {most}) n"
)


@pytest.fixture
def url(cluster: TestCluster) -> Iterator[str]:
    with cluster.database() as made:
        yield made


def fill(url: str, most: int, *, count: str, ago: str, status: str = "'open'") -> None:
    """Cases of one project, of which the n-th has so many errors, the last one so many seconds ago."""
    with psycopg.connect(url, autocommit=True) as sql:
        values = {"project": PROJECT, "most": most, "now": NEWEST, "status": status, "count": count, "ago": ago}
        sql.execute(_CASES.format(**values).encode())
        sql.execute(_STATS.format(**values).encode())


async def picked(url: str, *, analyzed: bool = True) -> tuple[list[str], list[str], int]:
    """The cases that a look is about, those that it should be about, and the most rows that it looked at."""
    with psycopg.connect(url, autocommit=True) as sql:
        if analyzed:
            sql.execute("vacuum analyze cases, case_stats")
        expected = [case_id for (case_id,) in sql.execute(_NAIVE, (PROJECT, LOOKED_AT))]
        found = [case_id for (case_id,) in sql.execute(_PICK.encode(), (PROJECT,))]
    async with list_plans.watched(url) as store:
        await store.fetch(_PICK, PROJECT)
        return found, expected, max(rows for rows, _ in store.seen)


@pytest.mark.parametrize(
    ("count", "ago"),
    [
        pytest.param("1", f"n * 7919 % {MANY} * 30", id="all had one error"),
        pytest.param("1 + n * 7919 % 300", f"n % 50 * {_HOUR}", id="from few to many errors"),
        pytest.param("case when n % 3000 = 0 then 1000000 + n else 2 end", f"n * {_HOUR} / 60", id="very few had many"),
    ],
)
async def test_of_very_many_open_cases_the_most_frequent_are_found_by_their_index(url: str, count: str, ago: str):
    fill(url, MANY, count=count, ago=ago)
    found, expected, rows = await picked(url)
    assert found == expected
    assert rows < 2 * FEW_OPEN + 4 * LOOKED_AT


async def test_cases_that_are_not_open_are_walked_past(url: str):
    """The most frequent are all resolved; what is found is the same."""
    fill(url, MANY, count="n", ago="n", status="case when n > 4000 then 'resolved' else 'open' end")
    found, expected, _ = await picked(url)
    assert found == expected
    assert len(found) == LOOKED_AT


@pytest.mark.parametrize("most", [0, 3, FEW_OPEN, FEW_OPEN + 1])
async def test_few_open_cases_are_all_compared(url: str, most: int):
    """Whatever the planner knows of the tables."""
    fill(url, most, count="1 + n * 31 % 17", ago="n * 13 % 7919")
    found, expected, _ = await picked(url, analyzed=False)
    assert found == expected
    assert len(found) == min(most, LOOKED_AT)
