"""Notifications through real processes: from an event to a chat that answers as documented."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_case import log
from tests.service.http.projects.test_project import add_member
from tests.service.webhooks.test_message import CHATS
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414 (fixtures are found by name)
from tests.support.api import World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.listening import Arrived, Listener, listening, never, respond

SCHEMAS = Path(__file__).parents[2] / "foreign" / "chats"
HOUR = 3600
SOON = 8.0


@cache
def schema_of(kind: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text()))


@asynccontextmanager
async def chatting(kind: str = "slack") -> AsyncIterator[Listener]:
    """Run a chat that takes what its published reference describes, and notes what it does not."""

    def judge(arrived: Arrived) -> list[str]:
        faults = [str(fault) for fault in schema_of(kind).iter_errors(arrived.document)]
        signed = [name for name in arrived.headers if name.startswith(("webhook-", "x-service-"))]
        return [*faults, *signed]

    async with listening(judge) as one:
        one.status = 200
        yield one


@pytest.fixture
async def chat() -> AsyncIterator[Listener]:
    async with chatting() as one:
        yield one


async def add(owner: Any, project_id: str, url: str, kind: str = "slack", *events: str, **rule: Any) -> str:
    """Add a destination, with a rule of its owner."""
    path = f"/v1/projects/{project_id}/notifications/destinations"
    made = ok(await owner.post(path, {"kind": kind, "url": url, "name": "Our channel"}), 201)
    ok(await owner.call("PUT", f"{path}/{made['id']}/rule", {"events": list(events) or ["case.created"], **rule}))
    return str(made["id"])


async def shown(owner: Any, project_id: str, destination_id: str) -> dict[str, Any]:
    found = ok(await owner.get(f"/v1/projects/{project_id}/notifications"))["destinations"]
    return next(one for one in found if one["id"] == destination_id)


async def sent(owner: Any, project_id: str, destination_id: str) -> list[dict[str, Any]]:
    path = f"/v1/projects/{project_id}/notifications/destinations/{destination_id}/deliveries"
    return list(ok(await owner.get(path))["notifications"])


async def now_quiet(world: World) -> dict[str, str]:
    """Quiet hours from an hour ago until in two hours."""
    query = "select to_char((service_now() + make_interval(hours => %s)) at time zone 'UTC', 'HH24:MI')"
    begins, ends = [(await world.sql(query, hours))[0][0] for hours in (-1, 2)]
    return {"begins": begins, "ends": ends, "timezone": "UTC"}


async def until(true: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait until an answer meets a condition."""
    give_up = time.monotonic() + seconds
    while not (found := await true()):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)
    return found


async def until_states(owner: Any, project_id: str, destination_id: str, *states: str) -> list[dict[str, Any]]:
    """Wait until the notifications have these states."""
    give_up = time.monotonic() + 60
    found = await sent(owner, project_id, destination_id)
    while [one["status"] for one in found] != list(states):
        assert time.monotonic() < give_up, found
        await asyncio.sleep(0.05)
        found = await sent(owner, project_id, destination_id)
    return found


@pytest.mark.parametrize("kind", CHATS)
async def test_a_case_is_told_in_the_layout_of_each_chat(world: World, shop, kind: str) -> None:
    owner, project_id, dsn = shop
    async with chatting(kind) as chat:
        destination = await add(owner, project_id, f"{chat.url}/secret-part", kind)
        case_id = (await log(dsn, "boom <!here> @here"))["case_id"]
        await chat.until_arrived(1)
        body = chat.arrived[0].body.decode()
        assert f"/console/cases/{case_id}" in body
        assert "@here" not in body
        assert "<!here>" not in body
        assert chat.arrived[0].headers["content-type"] == "application/json"
        [one] = await until_states(owner, project_id, destination, "delivered")
        assert (one["event"], one["subject_id"], one["attempts"], one["last_status"]) == (
            "case.created",
            case_id,
            1,
            200,
        )
        [[events]] = await world.sql("select json_agg(payload)::text from events where project_id = %s", project_id)
        assert "secret-part" not in events
        assert "Our channel" not in events


async def test_a_project_may_switch_titles_off(shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    ok(await owner.call("PATCH", f"/v1/projects/{project_id}/settings", {"notification_titles": False}))
    await add(owner, project_id, chat.url)
    await log(dsn, "unmistakable")
    await chat.until_arrived(1)
    assert b"unmistakable" not in chat.arrived[0].body


async def test_only_what_a_rule_names_is_told_and_nothing_after_its_end(shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url, "slack", "case.regressed")
    case_id = (await log(dsn, "boom"))["case_id"]
    await act(owner, case_id, "resolve", 1)
    await log(dsn, "boom")
    await chat.until_arrived(1)
    assert "An error came back" in chat.arrived[0].body.decode()
    path = f"/v1/projects/{project_id}/notifications/destinations/{destination}/rule"
    assert ok(await owner.call("DELETE", path))["rule"] is None
    await log(dsn, "another")
    second = await add(owner, project_id, chat.url)
    other = await log(dsn, "a third")
    await chat.until_arrived(2)
    assert other["case_id"] in chat.arrived[1].body.decode()
    assert [one["event"] for one in await sent(owner, project_id, destination)] == ["case.regressed"]
    assert len(await sent(owner, project_id, second)) == 1


async def test_a_case_is_told_once_an_hour_and_the_rest_in_a_digest(world: World, shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url, "slack", "case.created", "case.regressed")
    case_ids = [(await log(dsn, message))["case_id"] for message in ("one", "two and more")]
    await chat.until_arrived(2)
    for case_id, message in zip(case_ids, ("one", "two and more"), strict=True):
        await act(owner, case_id, "resolve", 1)
        await log(dsn, message)
    await until_states(owner, project_id, destination, "delivered", "delivered", "held", "held")
    await world.wait(HOUR + 60)
    await chat.until_arrived(3)
    told = await until_states(owner, project_id, destination, "delivered", "delivered", "delivered", "merged")
    assert [one["event"] for one in told[2:]] == ["case.regressed"] * 2
    body = chat.arrived[2].body.decode()
    assert "While it was quiet" in body
    assert "An error came back: 2" in body
    assert not any(case_id in body for case_id in case_ids)


async def test_quiet_hours_hold_what_happens_until_they_end(world: World, shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url, "slack", "case.created", quiet_hours=await now_quiet(world))
    for message in ("one", "two and more", "three of them all"):
        await log(dsn, message)
    held = await until_states(owner, project_id, destination, "held", "held", "held")
    assert all(one["next_attempt_at"] for one in held)
    path = f"/v1/projects/{project_id}/notifications/destinations/{destination}/rule"
    ok(await owner.call("PUT", path, {"events": ["case.created"]}))
    await world.wait(3 * HOUR)
    await chat.until_arrived(1)
    await until_states(owner, project_id, destination, "delivered", "merged", "merged")
    assert "New case: 3" in chat.arrived[0].body.decode()


async def test_two_members_with_the_same_wish_are_told_once(world: World, shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url, quiet_hours=await now_quiet(world))
    member = await add_member(world, project_id, "second-teller")
    path = f"/v1/projects/{project_id}/notifications/destinations/{destination}/rule"
    ok(await member.call("PUT", path, {"events": ["case.created"]}))
    await log(dsn, "boom")
    await chat.until_arrived(1)  # the member's rule has no quiet hours
    await until_states(owner, project_id, destination, "delivered")


async def test_a_chat_that_asks_for_time_gets_it(world: World, shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url)

    async def too_many(_: Arrived, writer: asyncio.StreamWriter) -> None:
        await respond(writer, 429, b'{"retry_after": 90}', retry_after="90")

    chat.answering = too_many
    await log(dsn, "boom")
    await until_states(owner, project_id, destination, "failed")
    await log(dsn, "another of them")
    [first, second] = await until_states(owner, project_id, destination, "failed", "failed")
    now = (await world.sql("select extract(epoch from service_now())::bigint"))[0][0]
    assert first["last_status"] == 429
    assert first["next_attempt_at"] >= now + 60
    assert second["next_attempt_at"] >= now + 60
    chat.answering = None
    await world.wait(120)
    await until_states(owner, project_id, destination, "delivered", "delivered")


@pytest.mark.parametrize("status", [404, 410])
async def test_a_chat_that_is_gone_stops_its_destination_until_a_test(shop, chat: Listener, status: int) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url)
    chat.status = status
    await log(dsn, "boom")

    async def stopped() -> bool:
        one = await shown(owner, project_id, destination)
        return (one["status"], one["stop_reason"], one["last_status"]) == ("stopped", "gone", status)

    await until(stopped)
    await log(dsn, "another of them")
    chat.status = 200
    path = f"/v1/projects/{project_id}/notifications/destinations/{destination}/test"
    answer = ok(await owner.post(path, {}, key="again"))
    assert (answer["delivered"], answer["last_status"]) == (True, 200)
    assert ok(await owner.post(path, {}, key="again")) == answer
    assert (await shown(owner, project_id, destination))["status"] == "active"
    arrived = len(chat.arrived)
    third = await log(dsn, "a third one here")
    await chat.until_arrived(arrived + 1)
    assert third["case_id"] in chat.arrived[-1].body.decode()
    assert len(chat.arrived) == arrived + 1


async def malformed(_: Arrived, writer: asyncio.StreamWriter) -> None:
    """Answer with what is no HTTP."""
    writer.write(b"\x00\xff nonsense\r\n\r\n")
    await writer.drain()


async def test_an_answer_that_is_none_is_a_failure(shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url)
    chat.answering = malformed
    await log(dsn, "boom")
    [one] = await until_states(owner, project_id, destination, "failed")
    assert one["last_status"] is None
    assert one["last_error"]
    assert "nonsense" not in one["last_error"]


async def until_looked_again(world: World, owner: Any, times: int) -> None:
    """Wait until the worker has queued all events so far and looked so often at what is due to the account.

    Each message of another project of the owner is queued behind them, and sent after a look at all that is due.
    """
    other = await owner.create_project()
    async with chatting() as chat:
        await add(owner, other["id"], chat.url)
        for number in range(1, times + 1):
            await log(world.having(other["dsn"]), f"later {'y' * number}")
            await chat.until_arrived(number, 60)


@pytest.mark.parametrize("end", ["delete", "remove_rule", "remove_member", "fence"])
async def test_an_end_races_messages_and_none_begins_after_it(world: World, shop, chat: Listener, end: str) -> None:
    owner, project_id, dsn = shop
    member = await add_member(world, project_id, f"told-{end}-{project_id}".lower().replace("_", "-"))
    path = f"/v1/projects/{project_id}/notifications/destinations"
    made = [await add(owner, project_id, chat.url) for _ in range(4)]
    for one in made:
        ok(await member.call("PUT", f"{path}/{one}/rule", {"events": ["case.created"]}))
        ok(await owner.call("DELETE", f"{path}/{one}/rule"))
    flow = asyncio.create_task(
        at_once(40, lambda number: dsn.post("/v1/logs/", {"level": "error", "message": f"boom {'x' * number}"}))
    )
    await chat.until_arrived(3)
    if end == "delete":
        await asyncio.gather(*(owner.call("DELETE", f"{path}/{one}") for one in made))
    elif end == "remove_rule":
        await asyncio.gather(*(member.call("DELETE", f"{path}/{one}/rule") for one in made))
    elif end == "remove_member":
        ok(await owner.call("DELETE", f"/v1/projects/{project_id}/members/{member.user_id}"))
    else:
        assert (await owner.call("DELETE", f"/v1/projects/{project_id}", key="end")).status_code in {200, 202}
    ended = time.monotonic()
    begun = await world.sql(
        "select body from webhook_deliveries where project_id = %s and body is not null", project_id
    )
    await flow
    await until_looked_again(world, owner, times=3)
    late = Counter(one.body.decode() for one in chat.arrived if one.at > ended + 0.5)
    assert late - Counter(body for (body,) in begun) == Counter()  # what had begun may be on the wire for longer


async def test_a_member_who_comes_back_has_no_rule(world: World, shop, chat: Listener) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, chat.url, "slack", "alert.triggered")
    member = await add_member(world, project_id, "goes-and-returns")
    path = f"/v1/projects/{project_id}/notifications"
    ok(await member.call("PUT", f"{path}/destinations/{destination}/rule", {"events": ["case.created"]}))
    assert (await shown(owner, project_id, destination))["rule_count"] == 2
    ok(await owner.call("DELETE", f"/v1/projects/{project_id}/members/{member.user_id}"))
    refused(await member.get(path), 404, "project_not_found")
    assert (await shown(owner, project_id, destination))["rule_count"] == 1
    await world.wait(5)
    await add_member(world, project_id, "goes-and-returns")
    assert (await shown(member, project_id, destination))["rule"] is None
    await log(dsn, "boom")
    await until_states(owner, project_id, destination, "stopped")
    assert chat.arrived == []
    ok(await member.call("PUT", f"{path}/destinations/{destination}/rule", {"events": ["case.created"]}))
    assert (await shown(owner, project_id, destination))["rule_count"] == 2
    await log(dsn, "another of them")
    await chat.until_arrived(1)


async def test_silent_destinations_delay_no_other(world: World, shop, chat: Listener) -> None:
    """However many of an account are silent (P25)."""
    owner, project_id, dsn = shop
    async with chatting() as silent:
        silent.answering = never
        for _ in range(20):
            await add(owner, project_id, silent.url)
        await log(dsn, "boom")
        await silent.until_arrived(6)
        other = await world.sign_in()
        made = await other.create_project()
        await add(other, made["id"], chat.url)
        await log(world.having(made["dsn"]), "boom")
        await chat.until_arrived(1, SOON)
