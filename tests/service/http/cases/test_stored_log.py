"""The stored records below `error` over HTTP: filters, pages, bounds and who may read them (G-196)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from schemas.cases.event import MAX_PAGE_BYTES
from service.cases import logs as reads
from service.cases.logs import LATE, LogFilter
from service.eventstore.read.reader import END, PageEnd
from service.ids import new_id
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_case import log
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.sentry import PYTHON_EVENT, of_event

pytestmark = pytest.mark.shares_server

DAY = 86_400
LOG = {
    "id", "received_at", "occurred_at", "level", "message", "release", "environment", "user", "tags", "exception",
    "adjusted", "dsn",
}  # fmt: skip
HELD = {
    "contexts", "transaction", "server_name", "logger", "platform", "dist", "sdk", "fingerprint", "extra", "left_out",
    "breadcrumbs", "request",
}  # fmt: skip
SECRET = "service_sk_" + "a1B2" * 10
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def listed(owner: Any, project_id: str, **query: Any) -> dict[str, Any]:
    params = {name.rstrip("_"): value for name, value in query.items()}
    answer = await owner.get(f"/v1/projects/{project_id}/logs", params=params)
    assert len(answer.content) <= MAX_PAGE_BYTES
    found = ok(answer)
    assert set(found) == {"project_id", "logs", "count", "looked_to", "next_cursor", "next_action"}
    assert (found["project_id"], found["count"]) == (project_id, len(found["logs"]))
    assert (found["looked_to"] is None) == (found["next_cursor"] is None)
    assert all(set(one) - HELD == LOG for one in found["logs"])
    return found


async def pages(owner: Any, project_id: str, **query: Any) -> list[list[dict[str, Any]]]:
    """All pages of a list."""
    found: list[list[dict[str, Any]]] = []
    more: dict[str, Any] = {}
    while True:
        page = await listed(owner, project_id, **query, **more)
        found.append(page["logs"])
        if page["next_cursor"] is None:
            return found
        more = {"cursor": page["next_cursor"]}


async def messages(owner: Any, project_id: str, **query: Any) -> list[str]:
    return [one["message"] for one in (await listed(owner, project_id, **query))["logs"]]


async def told(dsn: Any, message: str, level: str = "info", **members: Any) -> dict[str, Any]:
    """Send a record below `error`."""
    return await log(dsn, message, level=level, **members)


async def send_sentry(world: World, owner: Any, project_id: str, **members: Any) -> None:
    """Send an event as an SDK of Sentry does."""
    dsn = httpx2.URL(ok(await owner.get(f"/v1/projects/{project_id}/dsn"))["sdks"]["sentry_dsn"])
    body = of_event({**PYTHON_EVENT, "event_id": uuid4().hex, **members})
    auth = {"x-sentry-auth": f"Sentry sentry_key={dsn.username}, sentry_version=7"}
    ok(await world.call("POST", f"/api{dsn.path}/envelope/", content=body, headers=auth))


async def test_records_below_error_are_listed_as_they_are_stored(world: World, project):
    """All that is stored of them, by whichever door they came, and no error among them."""
    owner, project_id, dsn = project
    assert (await listed(owner, project_id))["logs"] == []
    await log(dsn, "boom")
    sent = await told(dsn, "Cart is slow", "warning", release="1.0", user={"id": "u1"}, tags={"n": "1"})
    assert sent["case_id"] is None
    await world.wait(2)
    await send_sentry(world, owner, project_id, level="info", logger="pay", transaction="/pay")
    [ours, own] = (await listed(owner, project_id))["logs"]
    assert (own["id"], own["received_at"], own["level"]) == (sent["id"], sent["received_at"], "warning")
    assert (own["message"], own["release"], own["environment"]) == ("Cart is slow", "1.0", "production")
    assert (own["user"], own["tags"], own["exception"], own["dsn"]) == ({"id": "u1"}, {"n": "1"}, None, "server")
    assert set(own) == LOG
    assert (ours["level"], ours["logger"], ours["transaction"], ours["server_name"]) == (
        *("info", "pay", "/pay", "web-1"),
    )
    assert ours["contexts"]["runtime"] == {"name": "CPython", "version": "3.11.7"}
    assert ours["exception"]["type"] == "PaymentError"
    assert ours["breadcrumbs"] == [{"category": "query", "message": "select 1"}]
    assert ours["sdk"]["name"] == "sentry.python"


async def test_filters_narrow_the_list(world: World, project):
    owner, project_id, dsn = project
    await told(dsn, "Cart 100% slow", "warning", release="1.0", user={"id": "u1"})
    await world.wait(2)
    await told(dsn, "CART opened_by u2", "info", release="1.1", user={"id": "u2"})
    await world.wait(2)
    await told(dsn, "trace of nothing", "debug", release="1.1")
    await log(dsn, "Cart broke", release="1.0", user={"id": "u1"})
    slow, opened, nothing = "Cart 100% slow", "CART opened_by u2", "trace of nothing"
    for query, expected in (
        ({}, [nothing, opened, slow]),
        ({"level": "warning"}, [slow]),
        ({"level": "debug"}, [nothing]),
        ({"q": "cart"}, [opened, slow]),
        ({"q": "0% s"}, [slow]),
        ({"q": "opened_by"}, [opened]),
        ({"q": "openedXby"}, []),
        ({"q": "_"}, [opened]),
        ({"user": "u1"}, [slow]),
        ({"user": "u"}, []),
        ({"release": "1.1"}, [nothing, opened]),
        ({"release": "1.1", "q": "of", "level": "debug"}, [nothing]),
        ({"user": "u2", "release": "1.0"}, []),
        ({"user": "u2", "level": "info", "q": "CART"}, [opened]),
        ({"trace": "nothing"}, []),
    ):
        found = await listed(owner, project_id, **query)
        assert [one["message"] for one in found["logs"]] == expected, query
        assert found["next_cursor"] is None


async def test_a_trace_is_found_wherever_it_is_said(world: World, project):
    """In a context of an SDK, which is stored packed, and in a small record; no text that only mentions it."""
    owner, project_id, dsn = project
    large = {"type": "trace", "trace_id": TRACE, "span_id": "1" * 16, "data": {"x": "y" * 2000}}
    await send_sentry(world, owner, project_id, level="info", contexts={"trace": large}, message="of an SDK")
    other = {"trace": {**large, "trace_id": "f" * 32, "of": TRACE}}
    await send_sentry(world, owner, project_id, level="info", contexts=other)
    await world.wait(2)
    await told(dsn, "small", extra={"contexts": {"trace": {"trace_id": TRACE}}})
    await told(dsn, f"mentions {TRACE}", extra={"note": TRACE})
    found = (await listed(owner, project_id, trace=TRACE))["logs"]
    assert [one["contexts"]["trace"]["trace_id"] for one in found] == [TRACE, TRACE]
    assert found[0]["message"] == "small"
    assert len((await listed(owner, project_id))["logs"]) == 4


async def test_the_time_of_a_record_is_when_it_happened(world: World, project):
    """Also of one that arrived days later, which comes last, on a page of its own as well."""
    owner, project_id, dsn = project
    sent = [await told(dsn, str(number)) for number in range(4)]
    moment = sent[0]["received_at"]
    move = "update log_events set received_at = %s, occurred_at = %s where project_id = %s and id = %s"
    week = moment - 7 * DAY
    await world.sql(move, week, week - 60, project_id, sent[0]["id"])
    await world.sql(move, week + 10, None, project_id, sent[1]["id"])
    await world.sql(move, week + 5 * DAY, week, project_id, sent[2]["id"])
    assert await messages(owner, project_id) == ["3", "2", "1", "0"]  # by arrival
    assert await messages(owner, project_id, from_=week - 60, to=week + 10) == ["1", "0", "2"]
    assert await messages(owner, project_id, from_=week, to=week + 10) == ["1", "2"]
    assert await messages(owner, project_id, from_=week - 60, to=week - 60) == ["0"]
    assert await messages(owner, project_id, from_=week + 11) == ["3"]
    assert await messages(owner, project_id, to=week + 5 * DAY) == ["2", "1", "0"]
    assert await messages(owner, project_id, from_=week + 11, to=week + LATE) == []
    each = await pages(owner, project_id, limit=1, from_=week - 60, to=week + 10)
    assert [one["message"] for page in each for one in page] == ["1", "0", "2"]
    [late] = [one for page in each for one in page if one["message"] == "2"]
    assert (late["received_at"], late["occurred_at"]) == (week + 5 * DAY, week)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0}, {"limit": 101}, {"limit": "all"}, {"cursor": "x"}, {"cursor": ""}, {"cursor": "WzEsMl0"},
        {"level": "error"}, {"level": "warn"}, {"level": ""}, {"q": ""}, {"q": "x" * 201}, {"user": ""},
        {"user": "x" * 201}, {"release": ""}, {"release": "x" * 201}, {"trace": ""}, {"trace": "a b"},
        {"trace": "a" * 65}, {"from": -1}, {"from": "today"}, {"to": 2**53}, {"to": 1.5}, {"from": 10, "to": 9},
        {"q": "a\x00b"},
    ],
)  # fmt: skip
async def test_a_bad_filter_is_refused(project, query):
    owner, project_id, _ = project
    refused(await owner.get(f"/v1/projects/{project_id}/logs", params=query), 400, "invalid_payload")


async def test_logs_are_for_members_only(world: World, project):
    owner, project_id, dsn = project
    await told(dsn, "ours")
    stranger = await world.sign_in()
    made = await stranger.create_project()
    path = f"/v1/projects/{project_id}/logs"
    theirs, nobodys = await stranger.get(path), await stranger.get(f"/v1/projects/{new_id('proj')}/logs")
    refused(theirs, 404, "project_not_found")
    assert without_request_id(theirs) == without_request_id(nobodys)
    assert await messages(stranger, made["id"]) == []
    ci = (await owner.create_credential(project_id, "ci"))["credential"]
    runner = await owner.create_credential(
        project_id, "runner", kind="automation_runner", automation_id="error-to-draft-pr"
    )
    for secret in (dsn.secret, ci, runner["credential"]):
        refused(await world.having(secret).get(path), 403, "principal_not_allowed")
    refused(await world.get(path), 401, "unauthenticated")


async def test_pages_lose_and_repeat_nothing_while_more_arrives(world: World, project):
    """Records of one second among errors, read in pages while others are written."""
    owner, project_id, dsn = project
    sent = await at_once(60, lambda number: told(dsn, f"old {number}"))
    await at_once(20, lambda number: log(dsn, f"boom {number % 3}"))
    await world.sql("update log_events set received_at = %s where project_id = %s", sent[0]["received_at"], project_id)
    for limit in (7, 60):
        await world.wait(1)
        seen: list[dict[str, Any]] = []
        more: dict[str, Any] = {}
        while True:
            page = await listed(owner, project_id, limit=limit, **more)
            seen += page["logs"]
            if page["next_cursor"] is None:
                break
            assert len(page["logs"]) == limit
            more = {"cursor": page["next_cursor"]}
            await at_once(3, lambda number: told(dsn, f"new {number}"))
        places = [(one["received_at"], one["id"]) for one in seen]
        assert places == sorted(places, reverse=True)
        assert len(set(places)) == len(places)
        assert [one["id"] for one in seen if one["message"].startswith("old")] == sorted(
            (one["id"] for one in sent), reverse=True
        )


async def test_a_page_ends_before_two_mebibytes(world: World, project):
    owner, project_id, dsn = project
    crumbs = [{"message": "x" * 1000, "n": number} for number in range(60)]
    sent = [await told(dsn, "large", extra={"breadcrumbs": crumbs}) for _ in range(45)]
    found = await pages(owner, project_id, limit=100)
    assert [one["id"] for page in found for one in page] == [one["id"] for one in reversed(sent)]
    assert [len(page) > 30 for page in found] == [True, False]


async def test_a_page_looks_at_a_bounded_number_of_records(world: World, project, monkeypatch):
    """Then it ends, short or empty, and the next goes on where it ended: nothing is lost and nothing repeated."""
    _, project_id, dsn = project
    rare = [await told(dsn, "rare", user={"id": "u1"})]
    for number in range(25):
        await log(dsn, "boom", tags={"n": str(number)}, user={"id": "u1"})
    rare.append(await told(dsn, "rare", user={"id": "u1"}))
    await told(dsn, "frequent", user={"id": "u1"})
    monkeypatch.setattr(reads, "LOOKED_AT_ONCE", 4)
    monkeypatch.setattr(reads, "MOST_LOOKED_AT", 10)
    stored = await world.sql("select received_at, id from log_events where project_id = %s", project_id)

    async def read(store: Any, wanted: LogFilter) -> tuple[list[list[str]], list[PageEnd]]:
        found: list[list[str]] = []
        ends, place = [END], END
        while True:
            pieces = [piece async for piece in reads.newest(store, project_id, wanted, place)]
            found.append([one.id for piece in pieces for one in piece.logs])
            if (end := pieces[-1].end) is None:
                return found, ends
            ends.append(place := end)

    for wanted in (LogFilter(text="RARE"), LogFilter(text="RARE", user="u1")):
        found, ends = await world.operate(partial(read, wanted=wanted))
        assert [one for page in found for one in page] == [one["id"] for one in reversed(rare)]
        looked = [sum(end <= place < start for place in stored) for start, end in pairwise(ends)]
        assert looked == [10, 10]  # of 28
        assert [len(page) for page in found] == [1, 0, 1]


async def test_the_health_has_the_newest_of_each_level(world: World, project):
    """Of one project and of one day, without errors, and without secrets."""
    owner, project_id, dsn = project
    other = await owner.create_project("other")

    async def latest(of: str) -> list[tuple[str, str, bool]]:
        health = ok(await owner.get(f"/v1/projects/{of}/health"))
        return [
            (one["level"], one["message"], one["received_at"] <= health["last_event_received_at"])
            for one in health["latest_logs"]
        ]

    assert await latest(project_id) == []
    await told(dsn, "hello")
    await told(dsn, f"leaked {SECRET}", "warning")
    await log(dsn, "boom")
    await told(dsn, "ä" * 300, "debug")
    await send_sentry(world, owner, project_id, level="info", exception=None, message="hello from captureMessage")
    [info, debug, warning] = await latest(project_id)
    assert info == ("info", "hello from captureMessage", True)
    assert debug == ("debug", "ä" * 200, True)
    assert warning[0] == "warning"
    assert "[scrubbed" in warning[1]
    assert SECRET not in warning[1]
    assert await latest(other["id"]) == []
    await world.wait(86_402)
    await told(dsn, "today")
    assert await latest(project_id) == [("info", "today", True)]


async def test_secrets_stay_hidden(world: World, project):
    owner, project_id, dsn = project
    extra = {"exception": {"type": "E", "value": SECRET}, "request": {"headers": {"authorization": "t0ken"}}}
    await told(dsn, f"leaked {SECRET}", user={"id": "u", "password": "p4ss"}, tags={"cookie": "c00kie"}, extra=extra)
    answer = await owner.get(f"/v1/projects/{project_id}/logs")
    assert ok(answer)["count"] == 1
    assert [word for word in (SECRET, "p4ss", "c00kie", "t0ken") if word in answer.text] == []
