"""The ordered funnel of the local adapter: against a walk through each person's events, within its bounds (G-112)."""

from __future__ import annotations

import random

import pytest

from service.analytics import local
from service.analytics.local import LocalAnalytics
from service.analytics.metadata import FunnelProbe
from service.eventstore.connect.facts import DAY
from statemachines.kernel.machine import ReadFailed
from tests.support.telemetry import PROJECT, Telemetry
from tests.support.telemetry import telemetry as telemetry  # noqa: PLC0414 (a fixture is found by name)

STEPS = ("opened", "added", "paid", "came_back")
Seen = tuple[str, str, int]
"""Person, event, and the second it was received in."""


def add(telemetry: Telemetry, seen: list[Seen]) -> None:
    with telemetry.connection.cursor() as cursor:
        cursor.executemany(
            "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
            "values (%s, %s, gen_random_uuid(), %s, %s, '{}')",
            [(PROJECT, at, event, person) for person, event, at in seen],
        )


def today(telemetry: Telemetry) -> int:
    row = telemetry.connection.execute("select service_today()").fetchone()
    assert row is not None
    return int(row[0])


def reached(seen: list[Seen], since: int, until: int) -> list[int]:
    """Try every choice of events: whoever has some choice in order has reached the step."""

    def chains(person: str, step: int, after: int) -> int:
        further = [
            chains(person, step + 1, at)
            for who, event, at in seen
            if who == person and step < len(STEPS) and event == STEPS[step] and after <= at < until
        ]
        return max([step, *further])

    levels = [chains(person, 0, since) for person in {person for person, _, _ in seen}]
    return [sum(level >= step for level in levels) for step in range(1, len(STEPS) + 1)]


async def test_it_counts_whoever_has_some_choice_of_events_in_order(telemetry: Telemetry) -> None:
    """People at random, with repeats, returns, ties within a second, and events around the period's ends."""
    chance = random.Random(12)
    begin = today(telemetry) - 2 * DAY
    seen = [
        (f"person-{chance.randrange(60)}", chance.choice([*STEPS, "other"]), begin + chance.randrange(12))
        for _ in range(400)
    ]
    add(telemetry, seen)
    for since, until in ((0, 12), (0, 4), (3, 9), (5, 5), (11, 12)):
        counted = await telemetry.analytics.count_funnel(FunnelProbe(STEPS, begin + since, begin + until))
        assert counted == reached(seen, begin + since, begin + until), (since, until)
    assert counted[0] > 0


async def test_nobody_is_a_zero_and_another_project_is_nobody(telemetry: Telemetry) -> None:
    begin = today(telemetry) - DAY
    add(telemetry, [("p", event, begin + 1) for event in STEPS])
    probe = FunnelProbe(STEPS, begin, begin + 2)
    assert await telemetry.analytics.count_funnel(probe) == [1, 1, 1, 1]
    assert await telemetry.analytics.count_funnel(FunnelProbe(STEPS, begin + 2, begin + 9)) == [0, 0, 0, 0]
    other = LocalAnalytics(telemetry.store, "proj_of_others")
    assert await other.count_funnel(probe) == [0, 0, 0, 0]


async def test_what_may_have_been_purged_is_no_zero(telemetry: Telemetry) -> None:
    """To the second: what retention keeps is counted, what it may have taken is a failed read."""
    kept = today(telemetry) - 30 * DAY
    add(telemetry, [("p", STEPS[0], kept)])
    assert await telemetry.analytics.count_funnel(FunnelProbe(STEPS, kept, kept + 1)) == [1, 0, 0, 0]
    assert await telemetry.analytics.count_funnel(FunnelProbe(STEPS, kept - 1, kept + 1)) == ReadFailed("not_kept")
    shorter = LocalAnalytics(telemetry.store, PROJECT, 29)
    assert await shorter.count_funnel(FunnelProbe(STEPS, kept, kept + 1)) == ReadFailed("not_kept")


async def test_too_many_events_are_not_counted_in_part(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = today(telemetry) - DAY
    add(telemetry, [(f"p{n}", STEPS[0], begin) for n in range(11)])
    probe = FunnelProbe(STEPS, begin, begin + 1)
    for most, expected in ((11, [11, 0, 0, 0]), (10, ReadFailed("too_much"))):
        monkeypatch.setattr(local, "MOST_FUNNEL_ROWS", most)
        assert await telemetry.analytics.count_funnel(probe) == expected


async def test_a_session_that_counts_again_and_again_never_reads_a_whole_project(telemetry: Telemetry) -> None:
    """From its sixth call on, a session would plan the events of a funnel for any number of rows: by people, all."""
    begin = today(telemetry) - DAY
    sql = telemetry.connection
    sql.execute(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "select %s, %s + n, 'evt_' || n, case when n %% 10 = 0 then %s else 'other' end, 'p' || n %% 300, '{}' "
        "from generate_series(1, 20000) n",
        (PROJECT, begin, STEPS[0]),
    )
    sql.execute("analyze analytics_events")
    for _ in range(8):
        counted = sql.execute(
            "select ordered_funnel(project => %s, steps => %s, since => %s, until => %s, most_rows => 1000000)",
            (PROJECT, list(STEPS), begin, begin + DAY),
        ).fetchone()
        assert counted == ([30, 0, 0, 0],)
    sql.execute("select pg_stat_force_next_flush()")
    by_people = (
        "select coalesce(sum(s.idx_scan), 0)::bigint from pg_stat_user_indexes s join pg_index i using (indexrelid) "
        "where s.relname like 'analytics_events%' and pg_get_indexdef(i.indexrelid) like '%(project_id, distinct_id,%'"
    )
    assert sql.execute(by_people).fetchone() == (0,)
