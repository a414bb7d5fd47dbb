"""Live pages: changes are told to the session that was shown the page, for as long as it may see it."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from tests.support.api import Person, World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import COOKIE, Browser, browser_of
from tests.support.members import Members
from tests.support.plans import plan_body

pytestmark = pytest.mark.shares_server

PATIENCE = 30


class Heard:
    """What a page has heard."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self) -> str:
        """The name of the next event. Raises StopAsyncIteration at the end."""
        async with asyncio.timeout(PATIENCE):
            while True:
                line = await anext(self._lines)
                if line.startswith("event: "):
                    return line.removeprefix("event: ")

    async def ended(self) -> bool:
        try:
            while True:
                await self.next()
        except StopAsyncIteration:
            return True


async def address_of(browser: Browser, place: str) -> str:
    """Where a page says that it hears of changes."""
    page = await browser.open(place)
    found = re.search(r'data-follows="([^"]+)"', page.html)
    assert found, page.html
    return html.unescape(found.group(1))


@asynccontextmanager
async def listening(browser: Browser, address: str) -> AsyncIterator[Heard]:
    async with browser.client.stream("GET", address, headers={"cookie": f"{COOKIE}={browser.secret}"}) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        yield Heard(answer)


async def shop(world: World) -> tuple[Person, Browser, str]:
    owner = await world.sign_in()
    project = await owner.create_project()
    return owner, await browser_of(owner), project["id"]


async def test_a_change_is_told(world: World) -> None:
    owner, browser, project_id = await shop(world)
    address = await address_of(browser, f"projects/{project_id}/onboarding")
    async with listening(browser, address) as heard:
        assert await heard.next() == "begun"
        ok(await owner.post(f"/v1/projects/{project_id}/onboarding", {"intent": "start", "plan": plan_body()}), 201)
        assert await heard.next() == "changed"


async def test_only_what_was_shown_to_the_session(world: World) -> None:
    _, browser, project_id = await shop(world)
    _, theirs, _ = await shop(world)
    address = await address_of(browser, f"projects/{project_id}/onboarding")
    for asked, who in (
        (address, theirs),
        (address.replace("onb_", "map_"), browser),
        (address.partition("&token")[0], browser),
        ("/console/follow", browser),
    ):
        async with browser.client.stream("GET", asked, headers={"cookie": f"{COOKIE}={who.secret}"}) as answer:
            assert answer.status_code == 404, asked
    stranger = await browser.client.get(address)
    assert (stranger.status_code, stranger.headers["location"]) == (303, "/console/enter?next=follow")


async def test_it_ends_with_the_membership(world: World) -> None:
    owner, _, project_id = await shop(world)
    members = Members(project_id)
    member = await members.join(world, owner, "owner")
    browser = await browser_of(member)
    address = await address_of(browser, f"projects/{project_id}/onboarding")
    async with listening(browser, address) as heard:
        assert await heard.next() == "begun"
        assert (await members.remove(owner, member.user_id)).status_code == 200
        assert await heard.ended()
    gone = await browser.client.get(address, headers={"cookie": f"{COOKIE}={browser.secret}"})
    assert gone.status_code == 404


async def test_it_ends_with_the_session(world: World) -> None:
    owner, _, project_id = await shop(world)
    session = await owner.open_session()
    browser = Browser(owner.client, session.secret)
    address = await address_of(browser, f"projects/{project_id}/onboarding")
    async with listening(browser, address) as heard:
        assert await heard.next() == "begun"
        ended = await owner.call("DELETE", f"/v1/auth/sessions/{session.session_id}")
        assert ended.status_code < 300, ended.text
        assert await heard.ended()
    gone = await browser.client.get(address, headers={"cookie": f"{COOKIE}={browser.secret}"})
    assert gone.status_code == 303


async def test_a_bearer_token_alone_is_no_session(world: World) -> None:
    owner, _, _ = await shop(world)
    answer = await owner.get("/console/follow")
    assert answer.status_code == 303


async def test_too_many_parameters_are_refused(world: World) -> None:
    _, browser, project_id = await shop(world)
    await browser.open(f"projects/{project_id}?" + "&".join(f"a{number}=1" for number in range(60)), 400)
