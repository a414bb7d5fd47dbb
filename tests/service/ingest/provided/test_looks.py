"""Exceptions of a connected provider become cases, each counted once (G-182)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.service.ingest.provided.conftest import Watched
from tests.support.api import ok
from tests.support.provider import FakeProvider
from tests.support.provider.exceptions import exception

NO_ROW = "select count(*) from log_events where project_id = %s"
USAGE = "select coalesce(sum(errors + analytics), 0)::bigint from usage_days where project_id = %s"
COUNTS = """select case_id, environment, release, sum(errors)::bigint, sum(synthetic)::bigint from provider_counts
where project_id = %s group by 1, 2, 3 order by 1, 2, 3"""
LOOK = "select number, cursor_at, skipped from provider_looks where project_id = %s"


async def test_an_exception_opens_a_case_and_is_counted_once(watched: Watched, provider: FakeProvider) -> None:
    """Looked at again and again, within the overlap and after it. No row stands for it, and it is no usage."""
    for person in ("ann", "ann", "bob"):
        provider.capture("$exception", **exception(distinct_id=person))
    provider.capture("$exception", **exception("ValueError", function="ship", release="1.1.0"))
    provider.capture("page", distinct_id="ann")
    provider.clock_off += 2  # the second of the captures is over
    assert await watched.look() == 4
    assert [await watched.look() for _ in range(3)] == [0, 0, 0]
    pay, ship = sorted(await watched.cases(), key=lambda case: case["title"])
    assert (pay["title"], pay["event_count"], pay["users_affected"]) == ("KeyError: missing", 3, 2)
    assert (ship["title"], ship["event_count"], ship["release"]) == ("ValueError: missing", 1, "1.1.0")
    assert await watched.sql(NO_ROW) == [(0,)]
    assert await watched.sql(USAGE) == [(0,)]
    assert sorted(row[1:] for row in await watched.sql(COUNTS)) == [
        ("production", "1.0.0", 3, 0),
        ("production", "1.1.0", 1, 0),
    ]
    events = await watched.world.sql(
        "select topic, actor_kind, actor_id from events where project_id = %s and kind = 'case'", watched.onb.project_id
    )
    assert events == [("case.opened.v1", "system", "provider")] * 2


async def test_a_late_event_is_counted_and_none_twice(watched: Watched, provider: FakeProvider) -> None:
    """Within the overlap. What came in earlier than the reach of the first look is left."""
    now = provider.now
    provider.capture("$exception", now - 1000, **exception())
    provider.capture("$exception", now - 800, **exception())
    provider.capture("$exception", now - 100, shows_at=2**33, **exception())
    assert await watched.look() == 1
    provider.events[-1]["shows_at"] = 0
    assert await watched.look() == 1
    assert await watched.look() == 0
    [case] = await watched.cases()
    assert case["event_count"] == 2


@pytest.mark.parametrize("off", [-7200, 7200])
async def test_a_clock_that_is_off_moves_no_time_of_ours(watched: Watched, provider: FakeProvider, off: int) -> None:
    """Arrivals are told by the provider's clock. A case was last seen at the time of the look at the latest."""
    provider.clock_off = off
    provider.capture("$exception", provider.now - 30, **exception())
    before = await watched.services.store.now()
    assert await watched.look() == 1
    [case] = await watched.cases()
    assert before - 40 <= case["last_seen_at"] <= before + 5
    provider.clock_off = 0
    assert await watched.look() == 0
    provider.capture("$exception", provider.now - 1, **exception())
    assert await watched.look() == 1
    [case] = await watched.cases()
    assert case["event_count"] == 2
    assert case["last_seen_at"] <= await watched.services.store.now()


async def test_a_provider_that_rests_is_looked_at_later(watched: Watched, provider: FakeProvider) -> None:
    provider.capture("$exception", provider.now - 5, **exception())
    provider.looks_fail = True
    provider.fail = {"/api/": lambda handler: handler.reply(429, b"{}", {"retry-after": "1"})}
    assert await watched.look() == 0
    asked = len(provider.looks)
    provider.fail = {}
    assert await watched.look() == 0, "nobody asks meanwhile"
    assert len(provider.looks) == asked
    until = time.monotonic() + 30
    while not await watched.look():
        assert time.monotonic() < until
    [case] = await watched.cases()
    assert case["event_count"] == 1


async def test_an_error_known_by_both_ways_is_one_case(watched: Watched, provider: FakeProvider) -> None:
    """Its counters stand apart, and the greater is shown."""
    frames = [{"file": "pay.py", "function": "pay", "in_app": True, "filename": "app/pay.py"}]
    body = {
        "message": "missing",
        "level": "error",
        "environment": "production",
        "extra": {"exception": {"type": "KeyError", "value": "missing", "frames": frames}},
    }
    product = watched.world.having(watched.onb.dsn)
    for _ in range(2):
        ok(await product.post("/v1/logs/", body), 202)
    [local] = await watched.cases()
    assert (await watched.case(local["case_id"]))["source"] == "local"
    for _ in range(3):
        provider.capture("$exception", provider.now - 5, **exception())
    assert await watched.look() == 3
    [case] = await watched.cases()
    assert (case["case_id"], case["event_count"]) == (local["case_id"], 3)
    for _ in range(2):
        ok(await product.post("/v1/logs/", body), 202)
    whole = await watched.case(local["case_id"])
    assert (whole["source"], whole["event_count"]) == ("both", 4)
    [counted] = await watched.sql("select own_count, provider_count from case_stats where project_id = %s")
    assert counted == (4, 3)


async def test_the_sample_is_scrubbed_and_replaced(watched: Watched, provider: FakeProvider) -> None:
    """It has type, message, own frames, release and environment, and nothing else of the event."""
    secret = {"api_key": "sk_live_0123456789abcdef0123456789", "email": "ann@example.com"}
    card = "4111 1111 1111 1111"
    provider.capture("$exception", provider.now - 5, **exception(value=f"card {card} declined"), **secret)
    assert await watched.look() == 1
    [case] = await watched.cases()
    whole = await watched.case(case["case_id"])
    assert whole["source"] == "provider_cloud"
    latest = whole["latest_event"]
    assert (latest["environment"], latest["release"], latest["tags"], latest["user_id"]) == (
        "production",
        "1.0.0",
        {},
        None,
    )
    assert latest["exception"]["type"] == "KeyError"
    assert [frame["function"] for frame in latest["exception"]["frames"]] == ["pay"]
    everything = await watched.sql("select row_to_json(s)::text from case_stats s where s.project_id = %s")
    for hidden in (card, *secret.values()):
        assert hidden not in str(whole)
        assert hidden not in str(everything)


async def test_records_with_a_marker_are_synthetic(watched: Watched, provider: FakeProvider) -> None:
    provider.capture("$exception", provider.now - 9, **exception(), service_onboarding_proof="a-raw-marker")
    assert await watched.look() == 1
    [[case_id]] = await watched.sql("select id from case_stats where project_id = %s")
    assert (await watched.case(case_id))["trust"] == "synthetic"
    assert await watched.cases() == []
    assert "a-raw-marker" not in str(await watched.sql("select row_to_json(s) from case_stats s where project_id = %s"))
    provider.capture("$exception", provider.now - 5, **exception())
    assert await watched.look() == 1
    [case] = await watched.cases()
    assert case["trust"] == "customer_provider"
    assert [row[3:] for row in await watched.sql(COUNTS)] == [(2, 1)]


ODD: dict[str, dict[str, Any]] = {
    "nothing": {"$exception_list": []},
    "an old SDK": {"$exception_list": None, "$exception_type": "OldError", "$exception_message": "from before"},
    "other types": {"$exception_list": [{"type": "E", "value": 7, "stacktrace": {"frames": [1, {"line": "x"}]}}]},
    "lost characters": {"$exception_list": [{"type": "N\0l", "value": "a\0b \ud800"}], "release": "1\0", "x": "\0"},
    "too long": {"filler": "x" * 70_000},
    "long texts": {"environment": "e" * 100, "release": "r" * 200},
    "deep": {"extra": [[[[[[[]]]]]]] * 50},
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_exception_is_counted(watched: Watched, provider: FakeProvider, name: str) -> None:
    """Whatever it holds: it stops neither its look nor the others."""
    provider.capture("$exception", provider.now - 5, **{**exception(), **ODD[name]})
    provider.capture("$exception", provider.now - 5, **exception("OtherError", function="other"))
    assert await watched.look() == 2
    assert len(await watched.cases()) == 2
    assert (await watched.case((await watched.cases())[0]["case_id"]))["event_count"] == 1


async def test_many_new_groups_are_all_counted(watched: Watched, provider: FakeProvider) -> None:
    """Samples are asked for 200 at a time, until all groups are known."""
    for number in range(450):
        provider.capture("$exception", provider.now - 60, **exception("E", function=f"f{number}"))
    assert await watched.look() == 450
    [[cases, counted]] = await watched.sql(
        "select count(*), sum(provider_count)::bigint from case_stats where project_id = %s"
    )
    assert (cases, counted) == (450, 450)
    assert await watched.look() == 0
    assert [row[2] for row in await watched.sql(LOOK)] == [0]


async def test_what_is_too_much_is_counted_as_skipped(watched: Watched, provider: FakeProvider) -> None:
    """More than 10,000 of a minute. The cursor moves on."""
    minute = int(provider.now) // 60 * 60 - 120
    for _ in range(10_500):
        provider.capture("$exception", minute + 5, **exception())
    provider.capture("$exception", minute + 65, **exception())
    assert await watched.look() == 10_001
    [[_, cursor, skipped]] = await watched.sql(LOOK)
    assert (skipped, cursor >= minute + 120) == (500, True)
    [case] = await watched.cases()
    assert case["event_count"] == 10_001


async def test_health_tells_how_far_the_looks_have_come(watched: Watched, provider: FakeProvider) -> None:
    """And if no error came by any way. After ten minutes without a look they are stale."""
    path = f"/v1/projects/{watched.onb.project_id}/health"
    before = ok(await watched.onb.owner.get(path))
    assert before["no_error_source"] is True
    assert before["provider_exceptions"] == {"read_to": None, "stale": False, "provider_exceptions_skipped": 0}
    provider.capture("$exception", provider.now - 5, **exception())
    await watched.look()
    told = ok(await watched.onb.owner.get(path))
    assert told["no_error_source"] is False
    assert told["provider_exceptions"]["read_to"] <= await watched.services.store.now()
    await watched.world.wait(700)
    told = ok(await watched.onb.owner.get(path))
    assert told["provider_exceptions"]["stale"] is True
    assert "Connect the provider again" in told["next_action"]
    await watched.look()
    assert ok(await watched.onb.owner.get(path))["provider_exceptions"]["stale"] is False
