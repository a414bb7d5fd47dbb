"""The lists over tables of 300,000 rows: no page looks at more than a few thousand of them."""

from __future__ import annotations

from tests.support import list_plans
from tests.support.list_plans import LISTS
from tests.torture.runs import Size, Theatre


async def lists(theatre: Theatre, size: Size) -> list[str]:
    """Every list, each of its filters: a page costs what it shows, however much there is."""
    wrong: list[str] = []
    with theatre.cluster.database() as url:
        for table in sorted({table for made in LISTS.values() for table in made.tables}):
            list_plans.fill(url, table, size.registers)
        async with list_plans.watched(url) as store:
            for operation in LISTS:
                wrong += await list_plans.check(store, operation)
    return wrong


RUNS = {"lists": lists}
FULL = {"lists": Size(300_000)}
