"""The sign-in to the console: a link that works once, a new secret each time, and the end of a session."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from service.accounts import membership
from tests.support.api import Person, World
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import COOKIE, Browser, browser_of, shown

pytestmark = pytest.mark.shares_server


async def link_for(world: World, person: Person) -> str:
    """A new token of a person."""
    made = await world.operate(lambda store: membership.offer_session(store, person.user_id))
    return str(made.secret)


async def send(world: World, token: str, *, after: str = "", **headers: str) -> httpx2.Response:
    """Use a token as the form does."""
    sent = {"origin": world.server.base_url, **headers}
    return await world.client.post("/console/enter", data={"token": token, "next": after}, headers=sent)


def secret_in(answer: httpx2.Response) -> str:
    """The secret in the cookie of an answer."""
    name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
    assert name == COOKIE
    return str(value)


async def is_open(world: World, secret: str) -> bool:
    answer = await world.client.get("/console/sessions", headers={"cookie": f"{COOKIE}={secret}"})
    return answer.status_code == 200


async def test_a_link_signs_in_once(world: World):
    person = await world.sign_in()
    token = await link_for(world, person)
    page = shown(await world.client.get("/console/enter", params={"token": token, "next": "settings"}))
    [form] = page.forms
    assert (form.action, form.value("token"), form.value("next")) == ("/console/enter", token, "settings")
    entered = await send(world, token, after="settings")
    assert (entered.status_code, entered.headers["location"]) == (303, "/console/settings")
    cookie = entered.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"))
    assert entered.headers["cache-control"] == "no-store"
    assert await is_open(world, secret_in(entered))
    again = await send(world, token)
    assert again.status_code >= 400
    assert "set-cookie" not in again.headers
    assert "has expired or was used" in again.text


async def test_of_two_uses_at_once_one_signs_in(world: World):
    token = await link_for(world, await world.sign_in())
    answers = await asyncio.gather(*(send(world, token) for _ in range(4)))
    assert sorted(answer.status_code == 303 for answer in answers) == [False, False, False, True]


async def test_a_late_link_signs_nobody_in(world: World):
    person = await world.sign_in()
    token = await link_for(world, person)
    await world.wait(121)
    assert (await send(world, token)).status_code >= 400
    assert (await send(world, "service_link_nonsense")).status_code >= 400
    assert (await send(world, "")).status_code >= 400


async def test_a_planted_session_is_not_taken_over(world: World):
    victim, attacker = await world.sign_in(), await browser_of(await world.sign_in())
    planted = f"{COOKIE}={attacker.secret}"
    entered = await send(world, await link_for(world, victim), cookie=planted)
    assert secret_in(entered) != attacker.secret
    assert not await is_open(world, attacker.secret)
    made_up = await send(world, await link_for(world, victim), cookie=f"{COOKIE}=service_ses_made_up")
    assert await is_open(world, secret_in(made_up))


async def test_another_origin_signs_nobody_in(world: World):
    token = await link_for(world, await world.sign_in())
    assert (await send(world, token, origin="https://evil.example")).status_code == 403
    assert (await send(world, token)).status_code == 303


@pytest.mark.parametrize("after", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
async def test_the_way_after_it_stays_here(world: World, after: str):
    entered = await send(world, await link_for(world, await world.sign_in()), after=after)
    assert entered.headers["location"] == "/console"


async def test_signing_out_ends_the_session(world: World):
    browser = await browser_of(await world.sign_in())
    [form] = [one for one in (await browser.open("")).forms if one.action == "/console/leave"]
    headers = {"cookie": f"{COOKIE}={browser.secret}", "origin": browser.origin}
    left = await world.client.post("/console/leave", data=dict(form.fields), headers=headers)
    assert (left.status_code, left.headers["location"]) == (303, "/console/enter")
    assert "Max-Age=0" in left.headers["set-cookie"]
    assert not await is_open(world, browser.secret)


async def test_other_browsers_are_listed_and_ended(world: World):
    person = await world.sign_in()
    here, there = await browser_of(person), await browser_of(person)
    page = await here.open("sessions")
    assert "this browser" in page.text
    [form] = [one for one in page.forms if one.action == "/console/do/end_session"]
    await here.send(form)
    assert not await is_open(world, there.secret)
    assert await is_open(world, here.secret)


async def test_an_old_sign_in_is_asked_for_again_before_a_dangerous_step(world: World):
    person = await world.sign_in()
    browser = await browser_of(person)
    project_id = (await person.create_project())["id"]
    await world.wait(901)
    page = await browser.open(f"projects/{project_id}")
    [csrf] = {form.value("_csrf") for form in page.forms if form.method == "post"}
    fields = [("_csrf", csrf), ("_back", f"projects/{project_id}"), ("_path.project_id", project_id)]
    refused = await browser.post("/console/do/rotate_dsn", [*fields, ("confirm", project_id)], 403)
    assert "Sign in again" in refused.text
    stopped = await browser.post("/console/do/pause_automation_contract", fields, 404)  # there is no contract yet
    assert "Sign in again" not in stopped.text


async def test_the_link_of_the_command_line_leads_in(world: World):
    made = await world.operate(
        lambda store: membership.offer_first_session(store, membership.email_identity("new@example.com", None))
    )
    assert made.is_new
    entered = await send(world, made.secret)
    browser = Browser(world.client, secret_in(entered))
    assert (await browser.open("")).page.headings[0] == ("h1", "Projects")
    query = parse_qs(urlsplit(f"{world.server.base_url}/console/enter?token={made.secret}").query)
    assert query == {"token": [made.secret]}


async def test_without_an_issuer_a_link_is_the_only_way(world: World):
    assert "oidc" not in (await world.client.get("/console/enter")).text
    for place in ("oidc", "oidc/callback?code=a&state=b"):
        assert (await world.client.get(f"/console/{place}")).status_code == 404
