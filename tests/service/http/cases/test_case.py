"""Cases over HTTP: the list with its filters and pages, and the record (R-CASE-11, G-050)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from service.auth.authenticator import CACHE_SECONDS
from service.eventstore.declare.commands import Answer, Command, Origin
from service.eventstore.store import READ_CONNECTIONS, READS_PER_TENANT
from service.http.edge.exchange import READING
from service.ids import new_id
from statemachines.cases import case
from statemachines.cases import suppression as suppressions
from statemachines.cases.suppression import Action
from statemachines.kernel.machine import Stream
from tests.support.accounts import bearer
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.loop.origins import origins_in

pytestmark = pytest.mark.shares_server

ITEM = {
    "id",
    "case_id",
    "project_id",
    "fingerprint",
    "title",
    "level",
    "status",
    "revision",
    "trust",
    "environment",
    "release",
    "event_count",
    "users_affected",
    "first_seen_at",
    "first_occurred_at",
    "last_occurred_at",
    "source",
    "last_seen_at",
    "suppression_id",
    "claimed",
}
RECORD = ITEM | {
    "message",
    "culprit",
    "environments",
    "releases",
    "tags",
    "latest_event",
    "hints",
    "agent_runs",
    "work",
    "claim",
    "resolved_at",
    "assignee",
    "comments",
    "merged",
    "grouping",
    "trend",
    "verification_statistics",
    "next_action",
    "origins",
}
TIMES = {"first_seen_at", "last_seen_at", "first_occurred_at", "last_occurred_at"}


@pytest.fixture
async def project(world: World):
    """A project of a fresh owner: (owner, project id, its DSN as a caller)."""
    owner = await world.sign_in()
    made = await owner.create_project()
    return owner, made["id"], world.having(made["dsn"])


async def log(dsn: Any, message: str, **members: Any) -> dict[str, Any]:
    return ok(await dsn.post("/v1/logs/", {"level": "error", "message": message, **members}), 202)


async def listed(owner: Any, project_id: str, **query: Any) -> dict[str, Any]:
    answer = ok(await owner.get(f"/v1/projects/{project_id}/cases", params=query))
    assert set(answer) == {"project_id", "cases", "count", "next_cursor", "next_action"}
    assert answer["count"] == len(answer["cases"])
    assert all(set(item) == ITEM for item in answer["cases"])
    return answer


def titles(answer: dict[str, Any]) -> list[str]:
    return [item["title"] for item in answer["cases"]]


async def decide(world: World, project_id: str, stream: Stream, decision: Any) -> None:
    """Let the case machine move as another part of the service would."""

    async def work(store: Any) -> None:
        def run(unit: Any) -> Answer:
            unit.append(stream, decision(unit.state(stream), unit.now))
            return Answer(200, {})

        origin = Origin("system", "test", "TEST", new_id("req"))
        await store.execute(Command(origin=origin, decide=run, streams=[stream], gates=[project_id]))

    await world.operate(work)


async def test_a_case_in_full(world: World, project):
    owner, project_id, dsn = project
    await log(dsn, "Payment 1 failed", environment="staging", release="1.0", user={"id": "u1"}, tags={"n": "1"})
    await log(dsn, "Payment 2 failed", environment="staging", release="1.1", user={"id": "u1"}, level="fatal")
    last = await log(dsn, "Payment 3 failed", release="1.1", user={"id": "u2"}, tags={"n": "3"})
    record = ok(await owner.get(f"/v1/cases/{last['case_id']}"))
    assert set(record) == RECORD
    told = origins_in(record)
    assert (told["/title"], told["/latest_event/tags/n"], told["/id"]) == (*["untrusted_telemetry"] * 2, "server_fact")
    assert {name: record[name] for name in RECORD - {*TIMES, "next_action", "latest_event", "origins", "trend"}} == {
        "id": last["case_id"],
        "case_id": last["case_id"],
        "project_id": project_id,
        "fingerprint": last["fingerprint"],
        "title": "Payment 1 failed",
        "message": "Payment 1 failed",
        "culprit": None,
        "level": "error",
        "status": "open",
        "revision": 1,
        "trust": "customer_provider",
        "environment": "production",
        "release": "1.1",
        "environments": ["staging", "production"],
        "releases": ["1.0", "1.1"],
        "event_count": 3,
        "users_affected": 2,
        "suppression_id": None,
        "claimed": False,
        "tags": {"n": "3"},
        "hints": [],
        "agent_runs": [],
        "source": "local",
        "work": {"working": False, "reason": "The project has no automation contract.", "automations": []},
        "claim": None,
        "resolved_at": None,
        "assignee": None,
        "comments": [],
        "merged": [],
        "verification_statistics": None,
        "grouping": {
            "version": 3,
            "evidence": ["message"],
            "reason": "Errors that agree in the message, numbers, ids and quoted text aside: grouping 3.",
        },
    }
    trend = record["trend"]
    assert (trend["bucket_seconds"], trend["counted_to"], len(trend["buckets"])) == (86400, 5000, 14)
    assert sum(bucket["events"] for bucket in trend["buckets"]) == 3
    starts = [bucket["from_at"] for bucket in trend["buckets"]]
    assert starts == list(range(starts[0], starts[0] + 14 * 86400, 86400))
    assert starts[-1] <= last["received_at"] < starts[-1] + 86400
    assert record["first_seen_at"] <= record["last_seen_at"] == last["received_at"]
    assert record["latest_event"] == {
        "id": last["id"],
        "message": "Payment 3 failed",
        "level": "error",
        "environment": "production",
        "release": "1.1",
        "user_id": "u2",
        "tags": {"n": "3"},
        "received_at": last["received_at"],
        "occurred_at": last["received_at"],
        "adjusted": [],
        "dsn": "server",
        "exception": None,
        "user": {"id": "u2"},
        "grouping": {"version": 3, "decided_by": "message"},
    }
    [item] = (await listed(owner, project_id))["cases"]
    assert item == {name: record[name] for name in ITEM}


async def test_a_list_tells_how_often_on_request(world: World, project):
    """The errors of merged cases among them, of the latest 14 days, and the newest alone; every case has all days."""
    owner, project_id, dsn = project
    sent = [await log(dsn, text) for text in ("Often 1", "Often 2", "Seldom", "Old", "Old")]
    often, seldom, old = (sent[place]["case_id"] for place in (0, 2, 3))
    plain = ok(await owner.get(f"/v1/projects/{project_id}/cases"))["cases"]
    assert not any("trend" in case for case in plain)
    aged = "update log_events set received_at = received_at - %s, occurred_at = null where project_id = %s and id = %s"
    await world.sql(aged, 2 * 86_400, project_id, sent[3]["id"])
    await world.sql(aged, 15 * 86_400, project_id, sent[4]["id"])
    revision = next(case["revision"] for case in plain if case["id"] == seldom)
    ok(await owner.post(f"/v1/cases/{seldom}/merge", {"case_revision": revision, "into_case_id": often}))
    query = {"trend": "true", "status": "all"}
    cases = ok(await owner.get(f"/v1/projects/{project_id}/cases", params=query))["cases"]
    found = {case["id"]: case["trend"] for case in cases}
    assert {(trend["bucket_seconds"], trend["counted_to"]) for trend in found.values()} == {(86_400, 1000)}
    counts = {name: [bucket["events"] for bucket in trend["buckets"]] for name, trend in found.items()}
    assert {len(days) for days in counts.values()} == {14}
    assert (sum(counts[often]), counts[often][-1]) == (3, 3)
    assert (sum(counts[old]), counts[old][-3]) == (1, 1)
    assert sum(counts[seldom]) == 1
    refused(await owner.get(f"/v1/projects/{project_id}/cases?trend=7"), 400, "invalid_payload")


async def test_the_list_filters(world: World, project):
    owner, project_id, dsn = project
    await log(dsn, "first", environment="staging", release="1.0")
    second = await log(dsn, "second", environment="production", release="1.0")
    third = await log(dsn, "third", environment="production", release="2.0")
    stream = case.stream(project_id, third["case_id"])
    await decide(world, project_id, stream, lambda state, now: case.decide_mark_spurious(state, "arun_1", now))
    assert set(titles(await listed(owner, project_id))) == {"first", "second"}
    assert titles(await listed(owner, project_id, status="ignored")) == ["third"]
    assert titles(await listed(owner, project_id, status="resolved")) == []
    assert set(titles(await listed(owner, project_id, status="all"))) == {"first", "second", "third"}
    assert titles(await listed(owner, project_id, environment="staging")) == ["first"]
    assert set(titles(await listed(owner, project_id, release="1.0"))) == {"first", "second"}
    assert titles(await listed(owner, project_id, release="1.0", environment="production")) == ["second"]
    assert set(titles(await listed(owner, project_id, since=second["received_at"]))) <= {"first", "second"}
    assert titles(await listed(owner, project_id, since=second["received_at"] + 100)) == []
    assert titles(await listed(owner, project_id, status="all", text="THIRD")) == ["third"]
    assert titles(await listed(owner, project_id, status="all", text="third second")) == []
    other = await log(dsn, "Größe: time-out of s3_bucket", extra={"exception": {"type": "ValueError"}})
    for words in ("Größe", "out TIME", "s3 bucket", "valueerror, bucket!", "größe"):
        assert [item["id"] for item in (await listed(owner, project_id, text=words))["cases"]] == [other["case_id"]]


@pytest.mark.parametrize(
    "query",
    [
        {"status": "closed"},
        {"limit": 0},
        {"limit": 201},
        {"since": "yesterday"},
        {"cursor": "x"},
        {"environment": ""},
        {"text": " -!"},
        {"trust": "none"},
        {"order": "oldest"},
        {"order": "errors", "cursor": "x"},
    ],
)
async def test_a_bad_filter_is_refused(world: World, project, query):
    owner, project_id, _ = project
    error = refused(await owner.get(f"/v1/projects/{project_id}/cases", params=query), 400, "invalid_payload")
    assert error["details"]["request_body_schema"] is None


async def test_pages_show_every_case_once(world: World, project):
    owner, project_id, dsn = project
    for name in "abcdefg":
        await log(dsn, f"case {name}")
    seen, cursor = [], None
    while True:
        page = await listed(owner, project_id, limit=3, **({"cursor": cursor} if cursor else {}))
        seen += page["cases"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert page["count"] == 3
        await world.wait(1)
        await log(dsn, f"late {len(seen)} {'xyz'[len(seen) // 3]}")
    assert sorted(titles({"cases": seen})) == [f"case {name}" for name in "abcdefg"]
    order = [(item["first_seen_at"], item["id"]) for item in seen]
    assert order == sorted(order, reverse=True)


async def test_rules_show_in_the_record(world: World, project):
    owner, project_id, dsn = project
    known = await log(dsn, "known")
    stream = suppressions.stream(project_id)
    for rule_id, pattern, action, hint in (
        ("sup_1", known["fingerprint"][:4] + "*", Action.PROMPT_HINT, "Look at the cache."),
        ("sup_2", "nothing", Action.PROMPT_HINT, "Not this one."),
        ("sup_3", "*", Action.PROMPT_HINT, "Ask the owner."),
        ("sup_4", "*", Action.AUTO_IGNORE, None),
    ):
        await decide(
            world,
            project_id,
            stream,
            lambda state, now, rule_id=rule_id, pattern=pattern, action=action, hint=hint: suppressions.decide_create(
                state, id=rule_id, fingerprint_pattern=pattern, action=action, reason=None, hint_text=hint, now=now
            ),
        )
    record = ok(await owner.get(f"/v1/cases/{known['case_id']}"))
    assert record["hints"] == [
        {"suppression_id": "sup_1", "hint_text": "Look at the cache."},
        {"suppression_id": "sup_3", "hint_text": "Ask the owner."},
    ]
    fresh = await log(dsn, "fresh")
    record = ok(await owner.get(f"/v1/cases/{fresh['case_id']}"))
    assert (record["status"], record["suppression_id"], record["revision"]) == ("ignored", "sup_4", 1)


async def test_a_case_of_marked_errors_is_synthetic(world: World, project):
    owner, project_id, dsn = project
    marked = {"service_onboarding_proof": "sop_rt_" + "A" * 43}
    first = await log(dsn, "proof", tags=marked)
    assert ok(await owner.get(f"/v1/cases/{first['case_id']}"))["trust"] == "synthetic"
    assert titles(await listed(owner, project_id)) == []
    assert titles(await listed(owner, project_id, status="all")) == ["proof"]
    assert titles(await listed(owner, project_id, trust="synthetic")) == ["proof"]
    assert ok(await owner.get(f"/v1/projects/{project_id}/health"))["open_cases"] == 0
    steps = ok(await owner.get(f"/v1/projects/{project_id}/next-steps"))
    assert "review_open_cases" not in steps["next_steps"]
    await log(dsn, "proof")
    await log(dsn, "proof", extra=marked)
    assert titles(await listed(owner, project_id)) == ["proof"]
    assert ok(await owner.get(f"/v1/projects/{project_id}/health"))["open_cases"] == 1
    assert ok(await owner.get(f"/v1/cases/{first['case_id']}"))["trust"] == "customer_provider"


async def test_what_is_merged_into_a_proofs_case_still_counts_as_open(world: World, project):
    """The errors that it had before are the product's: the case that has them now is open to everybody."""
    owner, project_id, dsn = project
    proof = await log(dsn, "proof", tags={"service_onboarding_proof": "sop_rt_" + "A" * 43})
    real = await log(dsn, "real")
    merged = {"into_case_id": proof["case_id"], "case_revision": 1}
    ok(await owner.post(f"/v1/cases/{real['case_id']}/merge", merged))
    assert titles(await listed(owner, project_id)) == titles(await listed(owner, project_id, text="proof")) == ["proof"]
    assert titles(await listed(owner, project_id, trust="synthetic", status="all")) == []
    assert ok(await owner.get(f"/v1/projects/{project_id}/health"))["open_cases"] == 1
    assert "review_open_cases" in ok(await owner.get(f"/v1/projects/{project_id}/next-steps"))["next_steps"]


async def test_the_last_error_outlives_retention(world: World, project):
    owner, project_id, dsn = project
    last = await log(dsn, "gone", tags={"a": "b"})
    await world.sql(
        "update case_stats set sample = jsonb_build_object('id', id, 'message', 'gone', 'level', 'error', "
        "'environment', 'production', 'release', null, 'user_id', null, 'tags', '{\"a\": \"b\"}'::jsonb, "
        "'received_at', 5) where project_id = %s",
        project_id,
    )
    await world.sql("delete from log_events where project_id = %s", project_id)
    record = ok(await owner.get(f"/v1/cases/{last['case_id']}"))
    assert (record["latest_event"]["message"], record["tags"]) == ("gone", {"a": "b"})
    assert "dsn" not in record["latest_event"], "what a sample of before did not keep is not made up"


async def test_the_latest_error_says_by_which_dsn_it_came(world: World, project):
    """Whoever decides by it sees whether it may be anybody's who read the source of a page (G-184)."""
    owner, project_id, dsn = project
    public = world.having(ok(await owner.get(f"/v1/projects/{project_id}/dsn"))["public_dsn"])
    for sender, name in ((dsn, "server"), (public, "public"), (dsn, "server")):
        sent = await log(sender, "told apart")
        await world.wait(1)
        told = ok(await owner.get(f"/v1/cases/{sent['case_id']}"))
        assert (told["latest_event"]["id"], told["latest_event"]["dsn"]) == (sent["id"], name)
        assert origins_in(told)["/latest_event/dsn"] == "server_fact"


async def test_cases_are_for_members_only(world: World, project):
    owner, project_id, dsn = project
    known = await log(dsn, "known")
    stranger = await world.sign_in()
    foreign = await stranger.get(f"/v1/cases/{known['case_id']}")
    refused(foreign, 404, "case_not_found")
    absent = await stranger.get(f"/v1/cases/{new_id('case')}")
    assert without_request_id(foreign) == without_request_id(absent)
    refused(await stranger.get(f"/v1/projects/{project_id}/cases"), 404, "project_not_found")
    for caller in (dsn, world):
        code = (403, "principal_not_allowed") if caller is dsn else (401, "unauthenticated")
        refused(await caller.get(f"/v1/projects/{project_id}/cases"), *code)
    ci = (await owner.create_credential(project_id, "ci"))["credential"]
    refused(await world.having(ci).get(f"/v1/cases/{known['case_id']}"), 403, "principal_not_allowed")


async def test_slow_lists_of_one_key_leave_the_others_theirs(world: World):
    """Twelve lists that find no end: their caller is told to come back, all others are let in and served (P25)."""
    slow, other = await world.sign_in(), await world.sign_in()
    project, others = await slow.create_project(), await other.create_project()
    path = f"/v1/projects/{project['id']}/cases"
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as connection:
        await connection.execute("lock table case_stats in access exclusive mode")
        began = time.monotonic()
        lists = [asyncio.create_task(slow.client.get(path, headers=bearer(str(slow.secret)))) for _ in range(12)]
        await asyncio.sleep(0.2)
        assert len(ok(await other.get("/v1/projects"))["projects"]) == 1
        ok(await other.post(f"/v1/projects/{others['id']}/dsn/rotate"))
        assert not any(answer.done() for answer in lists)
        for answer in await asyncio.gather(*lists):
            error = refused(answer, 503, "service_unavailable")
            assert error["retryable"]
            assert answer.headers["retry-after"] == "1"
            assert error["message"] == "This could not be read in time."
        assert time.monotonic() - began < READING[True]  # within a second, on a machine that does nothing else
    assert ok(await slow.get(path))["count"] == 0


async def test_who_asks_is_found_out_while_every_read_is_slow(world: World):
    """Lists of several accounts take all connections for reads; a command of another one is let in meanwhile (P25)."""
    crowd = [await world.sign_in() for _ in range(-(-READ_CONNECTIONS // READS_PER_TENANT) + 1)]
    paths = [f"/v1/projects/{(await one.create_project())['id']}/cases" for one in crowd]
    other = await world.sign_in()
    mine = await other.create_project()
    ok(await other.get(f"/v1/projects/{mine['id']}/health"))  # what is said of its quota is known for a while
    await asyncio.sleep(CACHE_SECONDS)  # and who it is no longer
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as connection:
        await connection.execute("lock table case_stats in access exclusive mode")
        lists = [
            asyncio.create_task(one.client.get(path, headers=bearer(str(one.secret))))
            for one, path in zip(crowd, paths, strict=True)
            for _ in range(READS_PER_TENANT)
        ]
        await asyncio.sleep(0.2)
        ok(await other.post(f"/v1/projects/{mine['id']}/dsn/rotate"))
        assert not any(answer.done() for answer in lists)
        for answer in await asyncio.gather(*lists):
            refused(answer, 503, "service_unavailable")
