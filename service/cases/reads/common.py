"""What the stored errors of a case and of those merged into it have in common: environment, release and tags.

The newest errors are counted, ever more of them until they are all or the time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from schemas.cases.event import CommonTag, CommonValue
from service.cases.reads.event import Family
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.sql import load_query

SECONDS = 0.7  # for all statements: a request has one for all of its reads
COUNTED = (1_000, 10_000, 100_000)  # errors of one statement after the other
MOST_NAMES = 12
MOST_VALUES = 3

_COMMON = load_query("cases", "common")


class Common(NamedTuple):
    """The number of counted errors, the receipt of the oldest (epoch seconds), if they are all, and their tags."""

    errors: int
    counted_from: int | None
    complete: bool
    tags: Sequence[CommonTag]


async def common_of(store: EventStore, project_id: str, family: Family) -> Common:
    """Count the newest errors. Raises ReadNotDone when too many long reads of the tenant wait."""
    found = Common(0, None, complete=False, tags=())
    async with store.long_read():
        deadline = asyncio.get_running_loop().time() + SECONDS
        for most in COUNTED:
            try:
                async with asyncio.timeout_at(deadline if found.errors else None):
                    found = await _count(store, project_id, family, most)
            except TimeoutError:
                break
            if found.complete:
                break
    return found


async def _count(store: EventStore, project_id: str, family: Family, most: int) -> Common:
    rows = await store.fetch_planned(
        _COMMON,
        project_id=project_id,
        case_ids=family.case_ids,
        low=max(family.first_seen_at - DAY, 0),
        high=family.last_seen_at + DAY,
        most=most,
        names=MOST_NAMES,
        values=MOST_VALUES,
    )
    errors, counted_from = rows[0][:2]
    tags = [_tag(list(told)) for name, told in groupby(rows, key=itemgetter(2)) if name is not None]
    return Common(errors, counted_from, errors < most, tags)


def _tag(rows: Sequence[Sequence[Any]]) -> CommonTag:
    _, _, name, errors, different, _, _ = rows[0]
    values = [CommonValue(value, count) for *_, value, count in rows]
    return CommonTag(name, errors, values, different - len(values))
