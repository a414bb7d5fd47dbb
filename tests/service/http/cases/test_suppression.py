"""Suppression rules over HTTP: made, listed, tried before, taken away, applied (R-CASE-08 to R-CASE-12, G-053)."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, cast

import pytest

from service.cases import suppression
from service.ids import new_id
from statemachines.kernel.shapes import matches
from tests.service.http.cases.test_acting import act, read
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_case import log
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

DAY = 86400


async def make(owner: Any, project_id: str, pattern: str, action: str, **members: Any) -> dict[str, Any]:
    body = {"fingerprint_pattern": pattern, "action": action, **members}
    return ok(await owner.post(f"/v1/projects/{project_id}/suppressions", body), 201)


async def rules(owner: Any, project_id: str) -> list[dict[str, Any]]:
    answer = ok(await owner.get(f"/v1/projects/{project_id}/suppressions"))
    assert answer["count"] == len(answer["suppressions"])
    return answer["suppressions"]


async def preview(owner: Any, project_id: str, pattern: str) -> dict[str, Any]:
    return ok(await owner.post(f"/v1/projects/{project_id}/suppressions/preview", {"fingerprint_pattern": pattern}))


async def until(owner: Any, case_id: str, status: str) -> dict[str, Any]:
    """Wait until what a rule does in the background is done to a case."""
    give_up = time.monotonic() + 15
    while (record := await read(owner, case_id))["status"] != status:
        assert time.monotonic() < give_up, record["status"]
        await asyncio.sleep(0.05)
    return record


async def test_a_rule_from_its_making_to_its_end(world: World, project):
    owner, project_id, dsn = project
    assert await rules(owner, project_id) == []
    first = await log(dsn, "noise")
    made = await make(owner, project_id, first["fingerprint"], "auto_ignore", reason="Noise.")
    assert (made["project_id"], made["reason"], made["hint_text"]) == (project_id, "Noise.", None)
    hint = await make(owner, project_id, "*", "prompt_hint", hint_text="Look twice.")
    assert await rules(owner, project_id) == [
        {name: rule[name] for name in rule if name not in {"project_id", "next_action"}} for rule in (hint, made)
    ]
    record = await until(owner, first["case_id"], "ignored")
    assert (record["suppression_id"], record["revision"]) == (made["id"], 2)
    assert record["hints"] == [{"suppression_id": hint["id"], "hint_text": "Look twice."}]
    await log(dsn, "noise")
    assert (await read(owner, first["case_id"]))["revision"] == 2

    path = f"/v1/projects/{project_id}/suppressions/{made['id']}"
    gone = ok(await owner.call("DELETE", path, key="k"))
    assert (gone["id"], gone["removed"]) == (made["id"], True)
    assert ok(await owner.call("DELETE", path, key="k")) == gone
    refused(await owner.call("DELETE", path), 404, "not_found")
    assert [rule["id"] for rule in await rules(owner, project_id)] == [hint["id"]]
    assert (await read(owner, first["case_id"]))["status"] == "ignored"  # what it did stays done
    await act(owner, first["case_id"], "reopen", 2)
    await log(dsn, "noise")
    assert (await read(owner, first["case_id"]))["status"] == "open"


async def test_what_is_resolved_by_a_rule_stays_so(world: World, project):
    owner, project_id, dsn = project
    old = await log(dsn, "old noise")
    made = await make(owner, project_id, "*", "auto_resolve")
    record = await until(owner, old["case_id"], "resolved")
    assert (record["suppression_id"], record["resolved_at"] is not None) == (made["id"], True)
    fresh = await log(dsn, "fresh noise")
    for error in ("old noise", "fresh noise"):
        await log(dsn, error)
    for case in (old, fresh):
        assert (await read(owner, case["case_id"]))["status"] == "resolved"
    ok(await owner.call("DELETE", f"/v1/projects/{project_id}/suppressions/{made['id']}"))
    await log(dsn, "old noise")
    assert (await read(owner, old["case_id"]))["status"] == "open"


async def test_a_preview_counts_and_changes_nothing(world: World, project, monkeypatch):
    owner, project_id, dsn = project
    a, b = await log(dsn, "alpha"), await log(dsn, "beta")
    await age(world, project_id, a, (6, 2), (8, 3), (29, 4), (31, 5), (89, 6), (91, 7))
    found = await preview(owner, project_id, a["fingerprint"][:8] + "*")
    assert (found["cases"], found["complete"]) == (1, True)
    assert [(window["days"], window["events"], window["complete"]) for window in found["windows"]] == [
        (7, 3, True), (30, 10, True), (90, 21, True),
    ]  # fmt: skip
    assert [window["events"] for window in (await preview(owner, project_id, "*"))["windows"]] == [4, 11, 22]
    nothing = await preview(owner, project_id, "?" + a["fingerprint"][1:])  # a question mark is literal
    assert (nothing["cases"], [window["events"] for window in nothing["windows"]]) == (0, [0, 0, 0])
    # What came for a merged case counts by its own fingerprint, wherever it went.
    await act(owner, a["case_id"], "merge", 1, into_case_id=b["case_id"])
    await log(dsn, "alpha")
    assert [window["events"] for window in (await preview(owner, project_id, a["fingerprint"]))["windows"]] == [
        4, 11, 22,
    ]  # fmt: skip
    assert [window["events"] for window in (await preview(owner, project_id, b["fingerprint"]))["windows"]] == [1, 1, 1]
    assert await rules(owner, project_id) == []


async def age(world: World, project_id: str, made: dict[str, Any], *ages: tuple[int, int]) -> None:
    """Add errors to a case as if they had come so many days ago, so many times each, with its counters."""
    for days, times in ages:
        await world.sql(
            "insert into log_events select project_id, received_at - %s, id || %s || n, level, message, environment, "
            "release, user_id, user_data, tags, extra, case_id, fingerprint, grouped_by, marker_hash, adjusted "
            "from log_events, generate_series(1, %s) n where project_id = %s and id = %s",
            days * DAY, days, times, project_id, made["id"],
        )  # fmt: skip
        await world.sql(
            "update case_stats set event_count = event_count + %s, first_seen_at = least(first_seen_at, %s) "
            "where project_id = %s and id = %s",
            times, made["received_at"] - days * DAY, project_id, made["case_id"],
        )  # fmt: skip


async def previewed(world: World, project_id: str, pattern: str) -> list[tuple[int, bool]]:
    async def read_it(store: Any) -> Any:
        return await suppression.preview(store, project_id, pattern)

    return [(window.events, window.complete) for window in (await world.operate(read_it)).windows]


async def test_a_preview_that_stops_says_from_where_it_has_counted(world: World, project, monkeypatch):
    """What is counted then is exact since the moment that it names, and at least so many before."""
    owner, project_id, dsn = project
    made = await log(dsn, "alpha")
    await age(world, project_id, made, (20, 30), (95, 1))
    everything = [(1, True), (31, True), (31, True)]
    assert await previewed(world, project_id, "*") == everything
    monkeypatch.setattr(suppression, "ROWS", 20)  # fewer than came in one second
    assert await previewed(world, project_id, "*") == [(1, True), (1, False), (1, False)]
    shown = await preview(owner, project_id, "*")  # by the service itself, which has room for more
    assert [window["complete"] for window in shown["windows"]] == [True] * 3
    assert [made["received_at"] - window["counted_from"] for window in shown["windows"]] == pytest.approx(
        [7 * DAY, 30 * DAY, 90 * DAY], abs=60
    )
    monkeypatch.setattr(suppression, "ROWS", 31)
    assert await previewed(world, project_id, "*") == everything
    monkeypatch.setattr(suppression, "SECONDS", -1)
    assert await previewed(world, project_id, "*") == [(0, False)] * 3


async def test_a_preview_compares_all_cases_or_says_since_when(world: World, project, monkeypatch):
    _, project_id, dsn = project
    made = [await log(dsn, name) for name in ("alpha", "beta", "gamma")]
    for number, case in enumerate(made):
        await world.sql("update cases set opened_at = opened_at - %s where id = %s", 9 - number, case["case_id"])
    monkeypatch.setattr(suppression, "CASES", 2)
    assert await previewed(world, project_id, "*") == [(3, True)] * 3
    assert await previewed(world, project_id, made[0]["fingerprint"]) == [(1, True)] * 3

    async def cut(store: Any) -> Any:
        class Slow:
            looked = 0

            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            async def fetch(self, query: str, **values: Any) -> Any:
                self.looked += 1
                if self.looked > 1:
                    raise TimeoutError
                return await store.fetch(query, **values)

        return await suppression.preview(cast("Any", Slow()), project_id, "*")

    found = await world.operate(cut)
    assert (found.cases, found.compared_from) == (2, made[1]["received_at"] - 8)
    assert [(window.events, window.complete, window.counted_from) for window in found.windows] == [(2, False, None)] * 3
    assert [window.at_most for window in found.windows] == [None] * 3
    monkeypatch.setattr(suppression, "MOST_CASES", 1)
    await age(world, project_id, made[2], (95, 2))
    await age(world, project_id, made[1], (95, 1))
    assert await previewed(world, project_id, "*") == [(2, False)] * 3  # the smaller one of two is not counted
    bounded = await world.operate(lambda store: suppression.preview(store, project_id, "*"))
    assert [window.at_most for window in bounded.windows] == [1 + 3 + 2] * 3


async def test_a_preview_knows_what_retention_has_taken(world: World, project):
    """A counter still has it; of what no counter tells, it says since when there are rows."""
    _, project_id, dsn = project
    made = await log(dsn, "alpha")
    await age(world, project_id, made, (8, 1), (40, 3), (95, 2))
    await world.sql(
        "delete from log_events where project_id = %s and received_at < %s",
        project_id, made["received_at"] - 30 * DAY,
    )  # fmt: skip
    await world.sql("update case_stats set sample = '{}' where project_id = %s", project_id)
    assert await previewed(world, project_id, "*") == [(1, True), (2, False), (2, False)]
    await world.sql(
        "update case_stats set event_count = 5, first_seen_at = first_seen_at + 20 * %s where project_id = %s",
        DAY, project_id,
    )  # fmt: skip
    assert [events for events, _ in await previewed(world, project_id, "*")] == [1, 2, 5]


async def test_the_database_compares_as_intake_does(world: World):
    dice = random.Random(7)
    pairs = [
        (
            "".join(dice.choices("aab**%_\\?[", k=dice.randint(1, 7))),
            "".join(dice.choices("ab%_\\?[", k=dice.randint(0, 5))),
        )
        for _ in range(4_000)
    ]
    patterns, fingerprints = ([pair[place] for pair in pairs] for place in (0, 1))
    rows = await world.sql(
        "select f like p from unnest(%s::text[], %s::text[]) with ordinality as u(f, p, n) order by n",
        fingerprints, [suppression._like(pattern) for pattern in patterns],
    )  # fmt: skip
    expected = [matches(*pair) for pair in pairs]
    assert [one for (one,) in rows] == expected
    assert 100 < sum(expected) < 3_900


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({}, "fingerprint_pattern"),
        ({"fingerprint_pattern": "", "action": "auto_ignore"}, "fingerprint_pattern"),
        ({"fingerprint_pattern": "x" * 201, "action": "auto_ignore"}, "fingerprint_pattern"),
        ({"fingerprint_pattern": "*", "action": "ignore"}, "action"),
        ({"fingerprint_pattern": "*", "action": "auto_ignore", "reason": "x" * 1001}, "reason"),
        ({"fingerprint_pattern": "*", "action": "prompt_hint"}, "hint_text"),
        ({"fingerprint_pattern": "*", "action": "prompt_hint", "hint_text": ""}, "hint_text"),
        ({"fingerprint_pattern": "*", "action": "prompt_hint", "hint_text": "x" * 2001}, "hint_text"),
        ({"fingerprint_pattern": "*", "action": "auto_ignore", "preview": True}, "preview"),
    ],
)
async def test_a_bad_rule_is_refused_by_name(world: World, project, bad, named):
    owner, project_id, _ = project
    error = refused(await owner.post(f"/v1/projects/{project_id}/suppressions", bad), 400, "invalid_payload")
    assert named in str(error["details"]["missing_fields"]) + str(error["details"]["invalid_fields"]) + str(
        error["details"]["unknown_fields"]
    )
    refused(
        await owner.post(f"/v1/projects/{project_id}/suppressions/preview", {"pattern": "*"}), 400, "invalid_payload"
    )
    assert await rules(owner, project_id) == []


async def test_rules_are_for_members_and_keys_repeat(world: World, project):
    owner, project_id, dsn = project
    stranger = await world.sign_in()
    body = {"fingerprint_pattern": "*", "action": "auto_ignore"}
    path = f"/v1/projects/{project_id}/suppressions"
    made = ok(await owner.post(path, body, key="k"), 201)
    assert ok(await owner.post(path, body, key="k"), 201) == made
    refused(await owner.post(path, {**body, "fingerprint_pattern": "a*"}, key="k"), 422, "idempotency_key_reused")
    for method, tail, sent in (
        ("GET", "", None), ("POST", "", body), ("POST", "/preview", {"fingerprint_pattern": "*"}),
        ("DELETE", f"/{made['id']}", None),
    ):  # fmt: skip
        foreign = await stranger.call(method, path + tail, sent)
        refused(foreign, 404, "project_not_found")
        absent = await stranger.call(method, f"/v1/projects/{new_id('proj')}/suppressions{tail}", sent)
        assert without_request_id(foreign) == without_request_id(absent)
        refused(await dsn.call(method, path + tail, sent), 403, "principal_not_allowed")
        refused(await world.call(method, path + tail, sent), 401, "unauthenticated")
    mine = (await stranger.create_project())["id"]
    refused(await stranger.call("DELETE", f"/v1/projects/{mine}/suppressions/{made['id']}"), 404, "not_found")
    assert [rule["id"] for rule in await rules(owner, project_id)] == [made["id"]]


async def test_rivals_take_a_rule_away_once(world: World, project):
    owner, project_id, _ = project
    made = await make(owner, project_id, "a*", "auto_ignore")
    path = f"/v1/projects/{project_id}/suppressions/{made['id']}"
    answers = await at_once(8, lambda _: owner.call("DELETE", path))
    assert sorted(answer.status_code for answer in answers) == [200] + [404] * 7


async def test_a_rule_races_new_cases_and_misses_none(world: World, project):
    """Errors that come while a rule is made either see it, or open a case that the rule then finds."""
    owner, project_id, dsn = project
    names = [f"case {chr(97 + n)}{chr(97 + m)}" for n in range(6) for m in range(6)]
    opening = [asyncio.create_task(log(dsn, name)) for name in names[:18]]
    made = asyncio.create_task(make(owner, project_id, "*", "auto_ignore"))
    opening += [asyncio.create_task(log(dsn, name)) for name in names[18:]]
    rule = await made
    for answer in await asyncio.gather(*opening):
        record = await until(owner, answer["case_id"], "ignored")
        assert record["suppression_id"] == rule["id"]
