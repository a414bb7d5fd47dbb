"""Fairness at full size: 2,000 enabled projects under the sweep's bound of 500, and what a sweep costs then (P27)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from service.eventstore.store import EventStore
from service.registry import registry
from service.runs import sweep
from service.runs import sweep as sweeping
from tests.support.enabled import connect, enable, one, open_cases
from tests.support.sweeping import make_sweep
from tests.torture.runs import Size, Theatre

SWEEPS = 5
BUSY, CASES = 50, 200  # projects with open cases, and how many each


async def p27(theatre: Theatre, size: Size) -> list[str]:
    """One account with half of the projects, the others with one each: all are considered within five sweeps."""
    wrong = []
    with theatre.cluster.database() as url, connect(url) as sql:
        names = [f"proj_{number:08}" for number in range(size.keys)]
        enable(sql, names[: size.keys // 2], owner="usr_many")
        enable(sql, names[size.keys // 2 :])
        for name in names[:: max(1, size.keys // BUSY)]:
            open_cases(sql, name, CASES)
        store = EventStore(url, registry())
        await store.start()
        try:
            for number in range(1, SWEEPS + 1):
                began = time.monotonic()
                done = await make_sweep(store).run()
                considered = one(sql, "select count(*) from sweep_turns where step = 'issue'")
                theatre.say(
                    f"sweep {number}: {time.monotonic() - began:.2f} s, {done['decisions']} decisions recorded, "
                    f"{considered} of {size.keys} projects considered so far"
                )
            [wait] = await sweep.waits(store, (sweep.Turn.ENABLED,), sweeping.AT_MOST)
        finally:
            await store.stop()
        looked = one(sql, "select count(distinct project_id) from automation_looks")
        if looked != size.keys:
            wrong.append(f"{looked} of {size.keys} projects were looked at in {SWEEPS} sweeps")
        if wait.late:
            wrong.append(f"the longest wait is {wait.longest} s of {wait.allowed} s")
    return wrong


RUNS: dict[str, Callable[[Theatre, Size], Awaitable[list[str]]]] = {"P27": p27}
FULL = {"P27": Size(0, keys=2000)}
