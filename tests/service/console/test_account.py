"""A person in the console signs in once more, and settles the sign-in of a device."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from service.accounts import membership
from tests.support.api import Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Browser

pytestmark = pytest.mark.shares_server

HEADERS = {"content-type": "application/x-www-form-urlencoded"}


async def link_of(person: Person) -> str:
    made = await person.world.operate(lambda store: membership.offer_session(store, person.user_id))
    return str(made.secret)


async def enter(world: World, link: str, after: str = "", **headers: str) -> httpx2.Response:
    fields = urlencode({"token": link, "next": after})
    return await world.client.post("/console/enter", content=fields, headers={**HEADERS, **headers})


def secret_in(answer: httpx2.Response) -> str:
    found = re.match(r"service_session=(service_ses_\w+);", answer.headers["set-cookie"])
    assert found is not None
    return found[1]


async def test_a_sign_in_once_more_makes_the_session_fresh(world: World) -> None:
    person = await world.sign_in()
    browser = Browser(world.client, secret_in(await enter(world, await link_of(person))))
    await world.wait(901)
    stale = await browser.open("sessions")
    [leaving] = [one for one in stale.forms if one.action == "/console/leave"]
    fields = [("_csrf", leaving.value("_csrf")), ("user_code", "BCDF-GHJK"), ("decision", "confirm")]
    asked = await browser.post("/console/device", [*fields, ("_back", "device")], 403)
    assert "/console/again?next=device" in asked.html
    page = await browser.open("again?next=device")
    [form] = [one for one in page.forms if one.action == "/console/again"]
    sent = {**dict(form.fields), "link": f"http://x/console/enter?token={await link_of(person)}"}
    headers = {**HEADERS, "cookie": f"service_session={browser.secret}", "origin": browser.origin}
    renewed = await world.client.post(form.action, content=urlencode(sent), headers=headers)
    assert (renewed.status_code, renewed.headers["location"]) == (303, "/console/device")
    assert secret_in(renewed) != browser.secret
    await Browser(world.client, secret_in(renewed)).open("device")
    gone = await world.client.get("/console", headers={"cookie": f"service_session={browser.secret}"})
    assert gone.headers["location"] == "/console/enter"


@pytest.mark.parametrize("decision", ["confirm", "refuse"])
async def test_a_person_settles_the_sign_in_of_a_device(world: World, decision: str) -> None:
    person = await world.sign_in()
    browser = Browser(world.client, secret_in(await enter(world, await link_of(person))))
    started: Any = ok(await world.post("/v1/auth/device", {"client_name": "laptop <b>"}))
    page = await browser.open(f"device?user_code={started['user_code']}")
    assert "laptop &lt;b&gt;" in page.html
    [form] = [one for one in page.forms if one.action == "/console/device" and one.method == "post"]
    await browser.send(form, decision=decision)
    poll = await world.post("/v1/auth/device/poll", {"device_code": started["device_code"]})
    if decision == "confirm":
        assert ok(poll)["user_id"] == person.user_id
    else:
        refused(poll, 400, "access_denied")


async def test_a_person_makes_a_key_in_settings(world: World) -> None:
    """It is shown once, it carries out what its person may, and it is in no record."""
    person = await world.sign_in()
    browser = Browser(world.client, secret_in(await enter(world, await link_of(person))))
    [form] = [one for one in (await browser.open("settings")).forms if one.action == "/console/settings/keys"]
    made = await browser.send(form)
    found = re.search(r"service_sk_\w+", made.text)
    assert found is not None
    assert "shown once" in made.text
    listed = await world.having(found[0]).get("/v1/keys")
    assert len(ok(listed)["keys"]) == 2
    assert found[0] not in (await browser.open("settings")).html
    [[kept]] = await world.sql("select count(*) from idempotency i where i::text like %s", f"%{found[0]}%")
    assert kept == 0


async def test_an_old_sign_in_makes_no_key(world: World) -> None:
    person = await world.sign_in()
    browser = Browser(world.client, secret_in(await enter(world, await link_of(person))))
    await world.wait(901)
    [form] = [one for one in (await browser.open("settings")).forms if one.action == "/console/settings/keys"]
    asked = await browser.send(form, 403)
    assert "/console/again?next=settings" in asked.html
    assert len(ok(await person.get("/v1/keys"))["keys"]) == 1


async def test_no_secret_of_a_sign_in_is_kept(world: World) -> None:
    """Neither in the record of the request, nor anywhere else in the database."""
    person = await world.sign_in()
    secret = secret_in(await enter(world, await link_of(person)))
    [[kept]] = await world.sql("select count(*) from idempotency i where i::text like %s", f"%{secret}%")
    assert kept == 0
