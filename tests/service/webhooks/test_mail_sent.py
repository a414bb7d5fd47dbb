"""Mail through real processes: from an event to a mail server, to the verified address of a member alone."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from service.webhooks.mail import MAIL_A_DAY
from service.webhooks.sending import tidy
from tests.service.http.cases.test_case import log
from tests.service.http.projects.test_project import add_member
from tests.service.webhooks.test_notifications import (
    HOUR,
    now_quiet,
    sent,
    shown,
    until,
    until_looked_again,
    until_states,
)
from tests.support.api import Person, World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.cluster import TestCluster
from tests.support.console import browser_of
from tests.support.mailing import PostOffice, Taken, post_office
from tests.support.server import ServerHandle, free_port, running_server

DAY = 86_400
RULE = {"events": ["case.created"]}
ONE_CLICK = "List-Unsubscribe=One-Click"


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def server(port: int, tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    env = {"SERVICE_SMTP_URL": f"smtp://127.0.0.1:{port}", "SERVICE_SMTP_SENDER": "service@example.com"}
    with running_server(tmp_path_factory.mktemp("mail"), cluster, env) as handle:
        yield handle


@pytest.fixture
async def office(port: int) -> AsyncIterator[PostOffice]:
    async with post_office(port) as one:
        yield one


@pytest.fixture
async def shop(world: World):
    """A project of an owner with a verified address: (owner, project id, its DSN as a caller)."""
    owner = await world.sign_in(verified=True)
    made = await owner.create_project()
    return owner, made["id"], world.having(made["dsn"])


def path_of(project_id: str) -> str:
    return f"/v1/projects/{project_id}/notifications/destinations"


async def add(owner: Person, project_id: str, member: Person | None = None, **rule: Any) -> str:
    """Add mail to a member, with a rule of theirs. The owner without one."""
    named = {} if member is None else {"member_id": member.user_id}
    made = ok(await owner.post(path_of(project_id), {"kind": "mail", "name": "Me", **named}), 201)
    assert (made["kind"], made["url"], made["origin"]) == ("mail", None, "mailto:")
    assert made["member_id"] == (member or owner).user_id
    ok(await (member or owner).call("PUT", f"{path_of(project_id)}/{made['id']}/rule", RULE | rule))
    return str(made["id"])


async def address_of(world: World, person: Person) -> str:
    return str((await world.sql("select email from people where id = %s", person.user_id))[0][0])


def link_in(taken: Taken) -> str:
    """The path of the link that ends mail."""
    found = re.fullmatch(r"<http://[^/]+(/unsubscribe/[A-Za-z0-9_-]+)>", taken.letter["List-Unsubscribe"])
    assert found is not None
    return found[1]


async def test_a_case_is_told_to_the_verified_address_of_a_member(world: World, shop, office: PostOffice) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id)
    case_id = (await log(dsn, "boom\r\nBcc: eve@example.com"))["case_id"]
    taken = await office.until_taken(1)
    address = await address_of(world, owner)
    assert (taken.sender, taken.recipients, taken.letter["To"]) == ("service@example.com", [address], address)
    assert taken.letter["Bcc"] is None
    assert taken.letter["Subject"].startswith("New case: ")
    assert taken.letter["List-Unsubscribe-Post"] == ONE_CLICK
    assert f"/console/cases/{case_id}" in taken.text
    assert "Errors: 1" in taken.text
    [one] = await until_states(owner, project_id, destination, "delivered")
    assert (one["last_status"], one["attempts"]) == (250, 1)
    [[events]] = await world.sql("select json_agg(payload)::text from events where project_id = %s", project_id)
    assert address not in events
    [[body]] = await world.sql("select body from webhook_deliveries where project_id = %s", project_id)
    assert address not in body
    assert "unsubscribe" not in body


async def test_no_mail_goes_to_an_address_that_nobody_verified(world: World, shop, office: PostOffice) -> None:
    owner, project_id, dsn = shop
    member = await add_member(world, project_id, f"unverified-{project_id}".replace("_", "-"))
    destination = await add(owner, project_id, member)
    await log(dsn, "boom")
    [one] = await until_states(member, project_id, destination, "failed")
    assert one["last_error"] == "The member has no rule, or no verified address for mail."
    assert office.taken == []


async def test_only_members_get_mail_and_each_by_their_own_rule(world: World, shop) -> None:
    owner, project_id, _ = shop
    member = await add_member(world, project_id, f"mailed-{project_id}".replace("_", "-"))
    stranger = await world.sign_in(verified=True)
    wish = {"kind": "mail", "name": "Them"}
    refused(await owner.post(path_of(project_id), wish | {"member_id": stranger.user_id}), 404, "not_found")
    refused(await owner.post(path_of(project_id), wish | {"member_id": "usr_nobody"}), 404, "not_found")
    refused(await member.post(path_of(project_id), wish), 403, "owner_required")
    for body in (
        wish | {"url": "https://example.com/x"},
        {"kind": "slack", "name": "No address"},
        {"kind": "slack", "name": "Both", "url": "https://127.0.0.1:9/x", "member_id": owner.user_id},
        wish | {"member_id": ""},
        wish | {"member_id": None},
    ):
        refused(await owner.post(path_of(project_id), body), 400, "invalid_payload")
    destination = await add(owner, project_id, member)
    rule = f"{path_of(project_id)}/{destination}/rule"
    refused(await owner.call("PUT", rule, RULE), 403, "principal_not_allowed")


async def test_the_link_in_a_message_ends_mail_without_a_sign_in(world: World, shop, office: PostOffice) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id)
    await log(dsn, "boom")
    link = link_in(await office.until_taken(1))
    page = await world.get(link)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert '<form method="post">' in page.text
    assert (await shown(owner, project_id, destination))["rule"] is not None, "a GET changes nothing"
    form = {"content-type": "application/x-www-form-urlencoded"}
    for _ in range(2):
        ended = await world.client.post(link, content=ONE_CLICK, headers=form)
        assert ended.status_code == 200, ended.text
    assert (await shown(owner, project_id, destination))["rule"] is None
    await log(dsn, "another of them")
    await until_mail_of_another(world, office, 1)
    assert [one.recipients for one in office.taken].count([await address_of(world, owner)]) == 1
    ok(await owner.call("PUT", f"{path_of(project_id)}/{destination}/rule", RULE))
    parts = {"content-type": "multipart/form-data; boundary=b"}
    body = '--b\r\ncontent-disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n'
    assert (await world.client.post(link, content=body, headers=parts)).status_code == 200
    assert (await shown(owner, project_id, destination))["rule"] is None
    ok(await owner.call("DELETE", f"{path_of(project_id)}/{destination}"))
    assert (await world.client.post(link, content=ONE_CLICK, headers=form)).status_code == 200
    for wrong in (link[:-3], link + "AAAA", "/unsubscribe/x", "/unsubscribe/%00", "/unsubscribe/" + "A" * 600):
        refused(await world.get(wrong), 404, "not_found")
        assert (await world.client.post(wrong, content=ONE_CLICK, headers=form)).status_code == 404


async def until_mail_of_another(world: World, office: PostOffice, times: int) -> None:
    """Wait until the worker has sent so much mail of another project, queued behind all before."""
    other = await world.sign_in(verified=True)
    made = await other.create_project()
    await add(other, made["id"])
    before = len(office.taken)
    for number in range(1, times + 1):
        await log(world.having(made["dsn"]), f"later {'y' * number}")
        await office.until_taken(before + number)


async def test_a_recipient_that_is_refused_stops_mail_until_a_test(shop, office: PostOffice) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id)
    office.replies = {"RCPT": "550 5.1.1 no such user here"}
    await log(dsn, "boom")

    async def stopped() -> bool:
        one = await shown(owner, project_id, destination)
        return (one["status"], one["stop_reason"], one["last_status"]) == ("stopped", "gone", 550)

    await until(stopped)
    assert "no such user" not in (await shown(owner, project_id, destination))["last_error"]
    office.replies = {}
    path = f"{path_of(project_id)}/{destination}"
    answer = ok(await owner.post(f"{path}/test", {}, key="again"))
    assert (answer["delivered"], answer["last_status"]) == (True, 250)
    assert ok(await owner.post(f"{path}/test", {}, key="again")) == answer
    assert (await office.until_taken(1)).letter["Subject"] == "A test of your notifications"
    assert (await shown(owner, project_id, destination))["status"] == "active"
    ok(await owner.call("DELETE", f"{path}/rule"))
    answer = ok(await owner.post(f"{path}/test", {}))
    assert (answer["delivered"], len(office.taken)) == (False, 1), "who has no rule gets no test either"


@pytest.mark.parametrize("reply", ["451 later", "554 never"])
async def test_a_failure_is_retried_and_repeats_the_letter(world: World, shop, office: PostOffice, reply: str) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id)
    office.replies = {"DATA": reply}
    await log(dsn, "boom")
    [failed] = await until_states(owner, project_id, destination, "failed")
    assert failed["last_status"] == int(reply[:3])
    office.replies = {}
    await world.wait(10)
    taken = await office.until_taken(1)
    [one] = await until_states(owner, project_id, destination, "delivered")
    assert one["attempts"] == 2
    assert taken.letter["Message-ID"].startswith(f"<{one['delivery_id']}@")


async def test_a_person_has_fifty_messages_a_day_of_all_projects(world: World, shop, office: PostOffice) -> None:
    owner, project_id, dsn = shop
    await add(owner, project_id)
    query = "insert into mail_days values (%s, (select service_seconds()) / 86400, array_fill('x'::text, array[%s]))"
    await world.sql(f"{query} returning 1", owner.user_id, MAIL_A_DAY - 1)
    other = await owner.create_project()
    second = await add(owner, other["id"])
    await log(dsn, "boom")
    await office.until_taken(1)
    await log(world.having(other["dsn"]), "boom")
    await log(world.having(other["dsn"]), "another of them")
    held = await until_states(owner, other["id"], second, "held", "held")
    now = (await world.sql("select service_seconds()"))[0][0]
    assert all(now < one["next_attempt_at"] <= now + DAY + 60 for one in held)
    answer = ok(await owner.post(f"{path_of(other['id'])}/{second}/test", {}))
    assert answer["last_error"] == f"The member has had {MAIL_A_DAY} messages today."
    await world.wait(DAY + 60)
    taken = await office.until_taken(2)
    assert "New case: 2" in taken.text
    await until_states(owner, other["id"], second, "delivered", "merged")
    await tidy(world.server.database_url)
    days = await world.sql("select cardinality(deliveries) from mail_days where project_id = %s", owner.user_id)
    assert days == [(1,)]


async def test_quiet_hours_hold_mail_for_a_digest(world: World, shop, office: PostOffice) -> None:
    owner, project_id, dsn = shop
    destination = await add(owner, project_id, quiet_hours=await now_quiet(world))
    for message in ("one", "two and more"):
        await log(dsn, message)
    await until_states(owner, project_id, destination, "held", "held")
    await world.wait(3 * HOUR)
    taken = await office.until_taken(1)
    assert taken.letter["Subject"] == "While it was quiet"
    assert "New case: 2" in taken.text
    await until_states(owner, project_id, destination, "delivered", "merged")


@pytest.mark.parametrize("end", ["delete", "unsubscribe", "remove_member", "fence"])
async def test_an_end_races_mail_and_none_begins_after_it(world: World, shop, office: PostOffice, end: str) -> None:
    owner, project_id, dsn = shop
    name = f"mail-{end}-{project_id}".lower().replace("_", "-")
    await add_member(world, project_id, name)
    member = await world.sign_in(name, verified=True)
    made = [await add(owner, project_id, member) for _ in range(3)]
    flow = asyncio.create_task(
        at_once(20, lambda number: dsn.post("/v1/logs/", {"level": "error", "message": f"boom {'x' * number}"}))
    )
    await office.until_taken(1)
    if end == "delete":
        await asyncio.gather(*(owner.call("DELETE", f"{path_of(project_id)}/{one}") for one in made))
    elif end == "unsubscribe":
        await asyncio.gather(
            *(world.client.post(link, content=ONE_CLICK) for link in await links_of(world, office, made))
        )
    elif end == "remove_member":
        ok(await owner.call("DELETE", f"/v1/projects/{project_id}/members/{member.user_id}"))
    else:
        assert (await owner.call("DELETE", f"/v1/projects/{project_id}", key="end")).status_code in {200, 202}
    ended = time.monotonic()
    begun = await world.sql("select id from webhook_deliveries where project_id = %s and body is not null", project_id)
    await flow
    await until_mail_of_another(world, office, 3)
    address = f"{name}@example.com"
    late = {id_of(one) for one in office.taken if one.recipients == [address] and one.at > ended + 0.5}
    assert late - {id for (id,) in begun} == set(), "what had begun may be on the wire for longer"


def id_of(taken: Taken) -> str:
    """The id of the delivery of a letter."""
    return str(taken.letter["Message-ID"].partition("@")[0][1:])


async def links_of(world: World, office: PostOffice, destinations: list[str]) -> list[str]:
    """Wait for a letter of each destination, and return the links in these."""
    links: dict[str, str] = {}

    async def met() -> bool:
        for one in office.taken:
            [[destination]] = await world.sql("select webhook_id from webhook_deliveries where id = %s", id_of(one))
            links[destination] = link_in(one)
        return links.keys() >= set(destinations)

    await until(met)
    return [links[one] for one in destinations]


async def test_an_owner_adds_mail_to_a_member_in_the_console(world: World, shop) -> None:
    owner, project_id, _ = shop
    member = await add_member(world, project_id, f"console-{project_id}".replace("_", "-"))
    browser, place = await browser_of(owner), f"projects/{project_id}/notifications"
    page = await browser.open(place)
    assert await address_of(world, member) in page.text
    form = page.form("add_notification_destination")
    await browser.send(form, kind="mail", member_id=member.user_id, name="<i>Theirs</i>", url="")
    [one] = ok(await owner.get(f"/v1/projects/{project_id}/notifications"))["destinations"]
    assert (one["kind"], one["member_id"], one["origin"]) == ("mail", member.user_id, "mailto:")
    page = await browser.open(place)
    assert "&lt;i&gt;Theirs&lt;/i&gt;" in page.html
    page = await browser.open(f"{place}/{one['id']}")
    assert "Mail to a member" in page.text
    refused = await browser.send(form, 400, kind="slack", name="No address", url="")
    assert "must be the address of a chat" in refused.text


async def test_a_silent_mail_server_delays_no_chat(world: World, shop, port: int) -> None:
    """However many destinations of an account wait for it (P25)."""
    owner, project_id, dsn = shop

    held: list[asyncio.StreamWriter] = []

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await reader.read()

    silent = await asyncio.start_server(hang, "127.0.0.1", port)
    try:
        made = [await add(owner, project_id) for _ in range(10)]
        await log(dsn, "boom")
        await until_looked_again(world, await world.sign_in(), times=1)
        assert len(await sent(owner, project_id, made[0])) == 1
    finally:
        silent.close()
        for one in held:
            one.transport.abort()
        await asyncio.sleep(0)  # until their sockets are closed
