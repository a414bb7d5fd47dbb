"""The lists over tables of 300,000 rows: no page looks at more than a few thousand of them."""

from __future__ import annotations

from tests.support import list_plans
from tests.torture.runs import Size, Theatre


async def lists(theatre: Theatre, size: Size) -> list[str]:
    """Every list, each of its filters: a page costs what it shows, however much there is."""
    wrong: list[str] = []
    with theatre.cluster.database() as url:
        await list_plans.fill_all(url, size.registers)
        async with list_plans.watched(url) as store:
            for operation in list_plans.lists():
                wrong += await list_plans.check(store, operation)
    return wrong


RUNS = {"lists": lists}
FULL = {"lists": Size(300_000)}
