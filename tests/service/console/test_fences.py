"""The end of a session, of a membership or of a role: every page and every form is closed from its answer on.

Browsers send requests in tight loops meanwhile, over HTTP and on PostgreSQL. What began after the answer is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count, cycle
from typing import Any, NamedTuple

import httpx2
import pytest
import pytest_asyncio

from service.accounts.membership import set_member
from statemachines.accounts.membership import Role
from tests.support import seen
from tests.support.console import COOKIE, Browser
from tests.support.fullscene import AUDITOR, FullScene
from tests.support.intruding import ID, MEMBER, OWNER, SIGN_IN, Intruder

pytestmark = pytest.mark.shares_server

LOOPS = 3


class Late(NamedTuple):
    """An answer to a request that began after the fence."""

    what: str
    status: int
    location: str


@pytest_asyncio.fixture
async def client(full: FullScene) -> AsyncIterator[httpx2.AsyncClient]:
    async with seen.async_client(full.at.server.base_url, timeout=60) as opened:
        yield opened


def places_of(full: FullScene, intruder: Intruder) -> list[str]:
    """The places of the project that owner, member and auditor belong to."""
    found = [one.place for one in full.places() if one.who == OWNER and ID.search(one.place)]
    return [one for one in found if intruder.is_own(one)]


async def race(
    browser: Browser, places: Sequence[str], form: tuple[str, dict[str, str]], fence: Callable[[], Any]
) -> list[Late]:
    """Ask for all places and send a form in loops, set the fence amid them, and tell of what began after it."""
    headers = {"cookie": f"{COOKIE}={browser.secret}", "origin": browser.origin}
    keys, fenced, late, before = count(), asyncio.Event(), list[Late](), list[int]()

    async def ask(turn: int) -> None:
        """Go round in a part of the places, once more in whole after the fence."""
        share = places[turn::LOOPS]
        left = len(share)
        for place in cycle(share):
            began_late = fenced.is_set()
            shown = await browser.client.get(f"/console/{place}", headers=headers)
            address, fields = form
            sent = await browser.client.post(address, data={**fields, "_key": f"race-{next(keys)}"}, headers=headers)
            if began_late:
                told = [(place, shown), (address, sent)]
                late.extend(Late(what, one.status_code, one.headers.get("location", "")) for what, one in told)
                left -= 1
            else:
                before.append(shown.status_code)
            if not left:
                return

    loops = [asyncio.create_task(ask(turn)) for turn in range(LOOPS)]
    while len(before) < LOOPS * 2:  # noqa: ASYNC110 - other tasks decide
        await asyncio.sleep(0.01)
    await asyncio.to_thread(fence)
    fenced.set()
    await asyncio.gather(*loops)
    assert 200 in before, "the pages were open"
    assert {one.what for one in late} == {*places, form[0]}
    return late


def comment(full: FullScene, token: str) -> tuple[str, dict[str, str]]:
    """A form that a member may send, about a case."""
    fields = {"_csrf": token, "_back": "again", "_path.case_id": full.ids["case_id"], "text": "I am still here."}
    return "/console/do/comment_on_case", {**fields, "case_revision": "1"}


async def test_a_session_that_was_ended_opens_nothing(
    full: FullScene, intruder: Intruder, client: httpx2.AsyncClient
) -> None:
    """Not a page of any project, not one of the person, and no form."""
    secret = full.session(OWNER)
    [newest, *_] = full.at.must(full.world.call("GET", "/v1/auth/sessions"))["sessions"]
    places = [*places_of(full, intruder), "settings", "sessions", "operator", "again"]

    def end() -> None:
        full.at.must(full.world.call("DELETE", f"/v1/auth/sessions/{newest['session_id']}"))

    late = await race(Browser(client, secret), places, comment(full, intruder.token(secret)), end)
    assert [one for one in late if (one.status, one.location.partition("?")[0]) != (303, SIGN_IN)] == []
    assert intruder.get("settings", intruder.sessions[OWNER]).status_code == 200, "another browser of the same person"


async def test_a_member_who_was_removed_sees_no_page_of_the_project(
    full: FullScene, intruder: Intruder, client: httpx2.AsyncClient
) -> None:
    """As if it had never been: 404 on each, and the pages of the person stay."""
    secret, places = intruder.sessions[MEMBER], places_of(full, intruder)

    def remove() -> None:
        path = f"{full.at.project}/members/{full.world.users[MEMBER]}"
        full.at.must(full.world.call("DELETE", path))

    late = await race(Browser(client, secret), places, comment(full, intruder.tokens[MEMBER]), remove)
    assert [one for one in late if one.status != 404] == []
    assert intruder.get("settings", secret).status_code == 200


async def test_a_member_who_became_an_auditor_changes_nothing(
    full: FullScene, intruder: Intruder, client: httpx2.AsyncClient
) -> None:
    """Pages of what auditors read stay open to them, and each form is refused."""
    user_id, secret = full.world.users[AUDITOR], intruder.sessions[AUDITOR]
    places = [one for one in places_of(full, intruder) if intruder.get(one, secret).status_code == 200]

    async def become(store: Any, role: Role) -> None:
        await set_member(store, full.world.project_id, user_id, role)

    await asyncio.to_thread(full.world.run, lambda store: become(store, Role.MEMBER))
    form = comment(full, intruder.tokens[AUDITOR])
    late = await race(
        Browser(client, secret),
        places,
        form,
        lambda: full.world.run(lambda store: become(store, Role.AUDITOR)),
    )
    assert {one.status for one in late if one.what == form[0]} == {403}
    assert {one.status for one in late if one.what != form[0]} == {200}
