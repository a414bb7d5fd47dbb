"""The moment of an event beside that of its receipt, through the door of each SDK (G-193)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from service.ingest.outcomes import REACH
from tests.service.http.cases.test_otlp import AS_PROTOBUF, ERROR, export
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.posthog import CAPTURED, EXCEPTION, batch
from tests.support.posthog import event as posthog_event
from tests.support.sentry import NATIVE_LOG, PYTHON_EVENT, of_event

pytestmark = pytest.mark.shares_server

DAY, HOUR = 86400, 3600
Times = tuple[Any, Any]
"""The time of an event and that of its sending, as an SDK writes them."""
ARRIVAL = 0
"""Seconds before its receipt at which an event counts whose time is impossible."""


class Project:
    """A project and the SDKs in its product."""

    def __init__(self, world: World, owner: Any, made: dict[str, Any]) -> None:
        self.world, self.owner, self.made = world, owner, made

    async def now(self) -> int:
        """The time of the service, which other tests move."""
        [[now]] = await self.world.sql("select service_seconds()")
        return int(now)

    async def sentry(self, happened: Any, sent: Any, *, public: bool = False) -> None:
        """An event by an SDK of Sentry."""
        told = {**PYTHON_EVENT, "event_id": uuid4().hex, "timestamp": happened}
        sdks = self.made["sdks_public" if public else "sdks"]
        header = {"dsn": sdks["sentry_dsn"], **({} if sent is None else {"sent_at": sent})}
        answer = await self.world.call("POST", f"/api/{self.made['alias']}/envelope/", content=of_event(told, **header))
        ok(answer)

    async def posthog(self, happened: Any, sent: Any, *, public: bool = False, like: Any = EXCEPTION) -> None:
        """An event by an SDK of PostHog in a batch."""
        key = self.made["sdks_public" if public else "sdks"]["posthog_key"]
        body = batch(key, posthog_event(like, timestamp=happened), sent_at=sent)
        assert ok(await self.world.call("POST", "/batch/", content=body)) == {"status": 1}

    async def otlp(self, happened: Any, observed: Any) -> None:
        """A record by an exporter of OpenTelemetry, whose times are nanoseconds."""
        times = {"time_unix_nano": happened, "observed_time_unix_nano": observed}
        content = export({**ERROR, **times}).SerializeToString()
        dsn = self.world.having(self.made["dsn"])
        answer = await dsn.post("/v1/logs", content=content, headers=AS_PROTOBUF)
        assert (answer.status_code, answer.content) == (200, b"")

    async def cases(self) -> list[dict[str, Any]]:
        """The cases of the project in the list."""
        found: list[dict[str, Any]] = ok(await self.owner.get(f"/v1/projects/{self.made['id']}/cases"))["cases"]
        return found

    async def errors(self) -> list[dict[str, Any]]:
        """The stored errors of its one case, the last received first."""
        [case] = await self.cases()
        found: list[dict[str, Any]] = ok(await self.owner.get(f"/v1/cases/{case['case_id']}/events"))["events"]
        return found

    async def ago(self) -> int:
        """How long before its receipt the newest error happened (seconds)."""
        newest = (await self.errors())[0]
        return int(newest["received_at"] - newest["occurred_at"])


@pytest.fixture
async def project(world: World) -> Project:
    owner = await world.sign_in()
    return Project(world, owner, await owner.create_project())


def iso(at: float) -> str:
    """As most SDKs write a time."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def zulu(at: float) -> str:
    """As SDKs of JavaScript write a time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


WRITTEN: list[Callable[[float], Any]] = [iso, zulu, float]
"""As SDKs write times: Python's and Go's, JavaScript's, native ones."""


@pytest.mark.parametrize("write", WRITTEN)
async def test_a_time_of_a_right_clock_is_that_of_the_error(project: Project, write: Callable[[float], Any]) -> None:
    """A phone that was offline for three days."""
    now = await project.now()
    await project.sentry(write(now - 3 * DAY), zulu(now))
    [told] = await project.errors()
    assert told["occurred_at"] == now - 3 * DAY
    assert told["received_at"] >= now
    one = ok(await project.owner.get(f"/v1/cases/{(await project.cases())[0]['case_id']}/events/{told['id']}"))
    assert (one["occurred_at"], one["received_at"]) == (told["occurred_at"], told["received_at"])


SENDING: dict[str, Callable[[Project, Any, Any], Awaitable[None]]] = {
    "sentry": Project.sentry,
    "posthog": Project.posthog,
}


@pytest.mark.parametrize("door", SENDING)
@pytest.mark.parametrize("ahead", [HOUR, -2 * HOUR, 400 * DAY])
async def test_a_wrong_clock_is_put_right_by_the_time_of_sending(project: Project, door: str, ahead: int) -> None:
    """An hour ahead, behind, and of another year: an event of ten minutes ago happened ten minutes ago."""
    now = await project.now()
    await SENDING[door](project, iso(now + ahead - 600), zulu(now + ahead))
    assert await project.ago() == 600


@pytest.mark.parametrize("door", SENDING)
@pytest.mark.parametrize(
    "happened",
    [0, "1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z", 4070908800, "NaN", "yesterday", True, {}, 10**30, "", None],
)
async def test_an_impossible_time_is_that_of_the_receipt(project: Project, door: str, happened: Any) -> None:
    """Of 1970, of 2099, no number, a text: nothing is refused."""
    now = await project.now()
    await SENDING[door](project, happened, iso(now))
    assert await project.ago() == ARRIVAL
    if isinstance(happened, str) and happened:  # As it was sent, it is still shown.
        [told], [case] = await project.errors(), await project.cases()
        one = ok(await project.owner.get(f"/v1/cases/{case['case_id']}/events/{told['id']}"))
        assert one["extra"]["timestamp"] == happened


async def test_a_number_beyond_all_is_adjusted_and_says_no_time(project: Project) -> None:
    """Infinity, as JSON can write it (G-133). What stands beside it counts."""
    told, dsn = {**PYTHON_EVENT, "timestamp": 12345.678}, project.made["sdks"]["sentry_dsn"]
    body = of_event(told, dsn=dsn, sent_at=zulu(await project.now())).replace(b"12345.678", b"1e4000000")
    ok(await project.world.call("POST", f"/api/{project.made['alias']}/envelope/", content=body))
    assert await project.ago() == ARRIVAL
    assert (await project.errors())[0]["adjusted"] == ["timestamp"]


@pytest.mark.parametrize("sent", [None, "soon", [], "2026-13-45T99:00:00Z", 10**40])
async def test_without_a_time_of_sending_nothing_is_put_right(project: Project, sent: Any) -> None:
    """A header with an odd time refuses nothing."""
    now = await project.now()
    await project.sentry(iso(now - HOUR), sent)
    assert (await project.errors())[0]["occurred_at"] == now - HOUR
    await project.sentry(iso(now + HOUR), sent)
    assert await project.ago() == ARRIVAL


async def test_an_event_lies_at_most_thirty_days_back(project: Project) -> None:
    """One second of a day less counts, and more does not."""
    now = await project.now()
    await project.sentry(now - REACH + DAY, None)
    assert (await project.errors())[0]["occurred_at"] == now - REACH + DAY
    await project.sentry(now - REACH - 1, None)
    assert await project.ago() == ARRIVAL


async def test_a_record_of_opentelemetry_says_when_it_was(project: Project) -> None:
    """By its own time, else by that of a collector. None in the future, and none of 1970."""
    now, second = await project.now(), 10**9
    for happened, observed, expected in [
        ((now - 3 * DAY) * second + 5, now * second, now - 3 * DAY),
        (0, (now - HOUR) * second, now - HOUR),
        ((now - HOUR) * second, 0, now - HOUR),
    ]:
        await project.otlp(happened, observed)
        assert (await project.errors())[0]["occurred_at"] == expected
    for happened in ((now + HOUR) * second, second, 2**64 - 1):
        await project.otlp(happened, 0)
        assert await project.ago() == ARRIVAL


async def test_an_offset_of_a_browser_counts_from_its_receipt(project: Project) -> None:
    """PostHog's SDK for browsers says how long ago an event was (milliseconds)."""
    key = project.made["sdks"]["posthog_key"]
    for offset, ago in [(90_500, 90), (0, ARRIVAL), (-5, ARRIVAL), ("7", ARRIVAL), (10**300, ARRIVAL), (True, ARRIVAL)]:
        told = posthog_event(EXCEPTION, offset=offset)
        del told["timestamp"]
        told["properties"] = {**EXCEPTION["properties"], "token": key}
        ok(await project.world.call("POST", "/e/", content=json.dumps([told]).encode()))
        assert await project.ago() == ago


async def test_a_time_of_sending_stands_wherever_the_sdk_puts_it(project: Project) -> None:
    """Before or behind the events, as Python's SDK calls it, and beside an event alone."""
    now = await project.now()
    key, ahead = project.made["sdks"]["posthog_key"], now + HOUR
    told = [posthog_event(EXCEPTION, timestamp=iso(ahead - 600)) for _ in range(4)]
    times = {"sent_at": zulu(ahead)}, {"sentAt": iso(ahead)}
    for body in (
        {"api_key": key, **times[0], "batch": told[:1]},
        {"batch": told[1:2], **times[1], "api_key": key},
        {"api_key": key, **told[2], **times[0]},
        {"api_key": key, "batch": [*told[3:], *({**CAPTURED, "properties": {"p": "x" * 9000}} for _ in range(40))]}
        | times[0],
    ):
        ok(await project.world.call("POST", "/batch/", content=json.dumps(body).encode()))
        assert await project.ago() == 600


@pytest.mark.parametrize("door", ["sentry", "posthog"])
async def test_anybody_can_send_by_the_public_dsn_so_a_day_is_the_most(project: Project, door: str) -> None:
    """Of two days ago, and of an hour ago."""
    now = await project.now()
    send: Any = SENDING[door]
    await send(project, iso(now - 2 * DAY), iso(now), public=True)
    assert await project.ago() == ARRIVAL
    await send(project, iso(now - HOUR), iso(now), public=True)
    assert (await project.errors())[0]["occurred_at"] == now - HOUR


async def test_what_says_no_time_happened_when_it_came(project: Project) -> None:
    """A report in the service's own form, and a row from before the column."""
    dsn = project.world.having(project.made["dsn"])
    ok(await dsn.post("/v1/logs/", NATIVE_LOG), 202)
    assert await project.ago() == ARRIVAL
    await project.world.sql(
        "update log_events set occurred_at = null where project_id = %s returning id", project.made["id"]
    )
    assert await project.ago() == ARRIVAL


async def test_a_case_tells_when_its_errors_happened(project: Project) -> None:
    """In the list, in its record and in its latest error, beside the times of receipt. An old one moves the first."""
    now = await project.now()
    await project.sentry(iso(now - HOUR), None)
    await project.sentry(iso(now - 3 * DAY), None)
    [listed] = await project.cases()
    record = ok(await project.owner.get(f"/v1/cases/{listed['case_id']}"))
    for shown in (listed, record):
        assert (shown["first_occurred_at"], shown["last_occurred_at"]) == (now - 3 * DAY, now - HOUR)
        assert now <= shown["first_seen_at"] <= shown["last_seen_at"]
    assert record["latest_event"]["occurred_at"] == now - 3 * DAY
    await project.world.call(
        "POST", "/v1/logs/", NATIVE_LOG, headers={"authorization": f"Bearer {project.made['sdks']['posthog_key']}"}
    )
    for shown in await project.cases():
        assert shown["last_occurred_at"] == shown["last_seen_at"]


async def test_a_product_event_has_its_time(project: Project) -> None:
    """In the database, for questions."""
    now = await project.now()
    await project.posthog(iso(now - 3 * DAY), iso(now), like=CAPTURED)
    told = "select occurred_at from analytics_events where project_id = %s"
    assert await project.world.sql(told, project.made["id"]) == [(now - 3 * DAY,)]


@pytest.mark.parametrize("of_today", [True, False])
async def test_a_trend_shows_errors_on_the_days_on_which_they_happened(project: Project, *, of_today: bool) -> None:
    """Of a case, in its record and in a list: two of three days ago, and none of three weeks ago."""
    now = await project.now()
    for ago in (3 * DAY, 3 * DAY, 21 * DAY, 0):
        await project.sentry(iso(now - ago), None)
    if not of_today:
        await project.world.sql(
            "update log_events set received_at = received_at - %s where project_id = %s and occurred_at < %s",
            2 * DAY, project.made["id"], now - DAY,
        )  # fmt: skip
        await project.world.sql(
            "update case_stats set first_seen_at = first_seen_at - %s where project_id = %s",
            2 * DAY, project.made["id"],
        )  # fmt: skip
    [listed] = ok(await project.owner.get(f"/v1/projects/{project.made['id']}/cases?trend=true"))["cases"]
    record = ok(await project.owner.get(f"/v1/cases/{listed['case_id']}"))
    day = now - now % DAY
    for shown in (listed, record):
        counted = {bucket["from_at"]: bucket["events"] for bucket in shown["trend"]["buckets"] if bucket["events"]}
        assert counted == {day - 3 * DAY: 2, day: 1}


async def test_a_person_is_shown_by_when_things_happened(project: Project) -> None:
    """Of what arrived at once: the order of the events, the first and the last one, and who met errors of the week."""
    now = await project.now()
    await project.posthog(iso(now - HOUR), iso(now), like=CAPTURED)
    await project.posthog(iso(now - 3 * DAY), iso(now))
    await project.posthog(iso(now - 2 * DAY), iso(now), like=CAPTURED)
    await project.posthog(iso(now - 9 * DAY), iso(now))
    people = f"/v1/projects/{project.made['id']}/users"
    found = ok(await project.owner.get(f"{people}/u1/summary"))
    happened = [now - ago for ago in (HOUR, 2 * DAY, 3 * DAY, 9 * DAY)]
    assert [event["occurred_at"] for event in found["recent_events"]] == happened
    assert all(event["received_at"] >= now for event in found["recent_events"])
    stats = found["event_stats"]
    assert (stats["first_occurred_at"], stats["last_occurred_at"]) == (happened[-1], happened[0])
    assert now <= stats["first_seen_at"] <= stats["last_seen_at"]
    for days, errors in ((1, 0), (7, 1), (30, 2)):
        shown = ok(await project.owner.get(people, params={"days": days}))
        assert (shown["total_events"], [user["error_count"] for user in shown["users"]]) == (errors, [errors][:errors])
