"""The time of an event by the clock of its SDK: read, put right, bounded, and in the database alike (G-193)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from service.ingest.outcomes import PUBLIC_REACH, REACH, SKEW, SdkClock, occurred_at, seconds_of
from tests.support.ingest import Sql, check_books, log_item, make_public, miscounted, public_sender, running, send

NOW = 1_795_000_000


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1_700_000_000, 1_700_000_000),
        (1_700_000_000.9, 1_700_000_000),
        (-0.5, -1),
        ("1700000000.25", 1_700_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000),
        ("2023-11-14T22:13:20.999999999Z", 1_700_000_000),
        (" 2023-11-14 23:13:20+01:00 ", 1_700_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000),
        ("2023-11-14", 1_699_920_000),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (True, None),
        ([1], None),
        ("NaN", None),
        ("1e9", None),
        ("9" * 60, None),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200),
        ("9999-12-31T23:59:59-14:00", 253_402_351_199),
        ("2023-11-14T22:13:20\ud800", None),
        ("yesterday", None),
        ("x" * 10**6, None),
        ("", None),
    ],
)
def test_the_times_that_sdks_write(value: Any, seconds: int | None) -> None:
    """Numbers and texts, and what is none of them."""
    assert seconds_of(value) == seconds


def test_the_database_says_the_same(sql: Sql) -> None:
    """Near every bound, with and without a time of sending, by both DSNs."""
    near = [0, 1, 59, 60, 61, 3600, PUBLIC_REACH - 1, PUBLIC_REACH, PUBLIC_REACH + 1, REACH, REACH + 1, NOW]
    times = [None, *(NOW - one for one in near), *(NOW + one for one in near), 10**11, -(10**11)]
    drawn = random.Random(7)
    told = [(drawn.choice(times), drawn.choice(times), drawn.random() < 0.5) for _ in range(2000)]
    asked = (
        "select occurred(happened => u.happened, sent => u.sent, received => %s, public => u.public) "
        "from unnest(%s::bigint[], %s::bigint[], %s::boolean[]) with ordinality u(happened, sent, public, n) order by n"
    )
    found = [at for (at,) in sql.execute(asked, (NOW, *map(list, zip(*told, strict=True)))).fetchall()]
    assert found == [occurred_at(SdkClock(happened, sent), NOW, public=public) for happened, sent, public in told]
    assert {at == NOW for at in found} == {True, False}


def test_a_minute_is_no_skew() -> None:
    """The way of a record takes as long."""
    assert occurred_at(SdkClock(NOW - 100, NOW - SKEW), NOW, public=False) == NOW - 100
    assert occurred_at(SdkClock(NOW - 100, NOW - SKEW - 1), NOW, public=False) == NOW - 100 + SKEW + 1


async def test_counters_agree_with_the_times_of_the_rows(database_url: str, sql: Sql) -> None:
    """Errors with times and without, by both DSNs, in one flush and in many. A wrong counter is found."""
    make_public(sql)
    now, drawn = sql.execute("select service_seconds()").fetchone()[0], random.Random(11)  # type: ignore[index]
    async with running(database_url) as intake:
        for _ in range(12):
            items = []
            for _ in range(drawn.randrange(1, 9)):
                item = log_item(drawn.choice("mno"), of=drawn.choice([None, public_sender()]))
                happened = now - drawn.choice([0, 100, 3600, 2 * 86400, 31 * 86400, -3600])
                item.clock = drawn.choice([SdkClock(), SdkClock(happened), SdkClock(happened, now - 3600)])
                items.append(item)
            assert all(answer["ok"] for answer in await send(intake, *items))
    check_books(sql)
    assert miscounted(sql) == {}
    counted = sql.execute("select id, first_occurred_at, last_occurred_at from case_stats order by id").fetchall()
    rows = "select case_id, min(occurred_at), max(occurred_at) from log_events group by 1 order by 1"
    assert counted == sql.execute(rows).fetchall()
    assert len({at for _, *times in counted for at in times}) > 2
    for wrong in ("first_occurred_at = first_occurred_at + 1000000", "last_occurred_at = last_occurred_at - 1000"):
        sql.execute(f"begin; update case_stats set {wrong}")
        assert miscounted(sql) != {}
        sql.execute("rollback")
