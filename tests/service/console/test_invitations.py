"""Invitations in the console: who sees one, what accepting says, and how one is closed before, while and after that."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.http.accounts.test_membership import WEEK
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import COOKIE, Browser, ShownForm, browser_of
from tests.support.members import Members, accept, address_of, verified

pytestmark = pytest.mark.shares_server

NOBODYS = "invitations/inv_" + "0" * 26


async def test_only_the_person_invited_sees_it(world: World):
    """Not another person, not whose address is unproven, not the owner who invited: for them there is none."""
    owner, email = await world.sign_in(), address_of()
    members = Members((await owner.create_project("Shop <b>"))["id"])
    place = f"invitations/{await members.invited(owner, email)}"
    guest = await browser_of(await verified(world, email))
    form = (await guest.open(place)).form("accept_invitation")
    unproven = await verified(world, email, proven=False, subject="somebody else")
    for other in (await verified(world), unproven, owner):
        browser = await browser_of(other)
        assert (await browser.open(place, 404)).text == (await browser.open(NOBODYS, 404)).text
        token = (await browser.open("again")).forms[0].value("_csrf")
        fields = [(name, token if name == "_csrf" else value) for name, value in form.fields]
        refused = (await browser.post(form.action, [*fields, ("_back", "")], 404)).html
        assert "Shop" not in (refused.partition("<main")[2] if other is owner else refused)
    assert list(await members.roles(owner)) == [owner.user_id]


@pytest.mark.parametrize("role", ["member", "owner"])
async def test_it_says_what_accepting_means_and_leads_into_the_project(world: World, role: str):
    owner, email = await world.sign_in(), address_of()
    members = Members((await owner.create_project("Shop"))["id"])
    person = await verified(world, email)
    guest, place = await browser_of(person), f"invitations/{await members.invited(owner, email, role)}"
    await guest.open(f"projects/{members.project_id}", 404)
    page = await guest.open(place)
    assert ("pay" in page.text) is (role == "owner")
    form = page.form("accept_invitation")
    inside = await guest.send(form)
    assert "You are a member now." in inside.text
    assert ("h1", "Overview") in inside.page.headings
    assert (await members.roles(owner))[person.user_id] == role
    await guest.send(form)  # twice, and carried out once
    assert await members.roles(owner) == {owner.user_id: "owner", person.user_id: role}
    again = await guest.open(place)
    assert not [one for one in again.forms if one.action.endswith("/accept_invitation")]
    assert f"/console/projects/{members.project_id}" in again.page.links


async def test_what_was_closed_meanwhile_is_not_accepted(world: World):
    """By the owner, by time, and with the project: the page that is still open says so, and the next look is a 404."""
    owner, email = await world.sign_in(), address_of()
    members = Members((await owner.create_project())["id"])
    person = await verified(world, email)
    guest = await browser_of(person)
    for close in ("by hand", "by time", "with the project"):
        invitation = await members.invited(owner, email)
        place = f"invitations/{invitation}"
        form = (await guest.open(place)).form("accept_invitation")
        if close == "by hand":
            host = await browser_of(owner)
            await host.send((await host.open(f"projects/{members.project_id}/members")).form("revoke_invitation"))
        elif close == "by time":
            await world.wait(WEEK)
            guest = await browser_of(person)  # a session does not last a week
            token = (await guest.open("again")).forms[0].value("_csrf")
            form = form._replace(fields=[(name, token if name == "_csrf" else value) for name, value in form.fields])
        else:
            ok(await owner.call("DELETE", f"/v1/projects/{members.project_id}", key="k"), 202)
        await guest.send(form, 404)
        assert (await guest.open(place, 404)).text == (await guest.open(NOBODYS, 404)).text, close
    assert (await person.get("/v1/projects")).json()["projects"] == []


async def test_of_an_acceptance_and_a_revocation_at_once_one_holds(world: World):
    owner, email = await world.sign_in(), address_of()
    members = Members((await owner.create_project())["id"])
    person = await verified(world, email)
    guest, host = await browser_of(person), await browser_of(owner)
    for _ in range(4):
        place = f"invitations/{await members.invited(owner, email)}"
        accepting = (await guest.open(place)).form("accept_invitation")
        revoking = (await host.open(f"projects/{members.project_id}/members")).form("revoke_invitation")
        statuses = await asyncio.gather(answer_to(guest, accepting), answer_to(host, revoking))
        joined = person.user_id in await members.roles(owner)
        assert (statuses[0] == 303) is joined
        assert await members.open(owner) == []
        if joined:
            ok(await members.remove(owner, person.user_id))
    assert (await accept(person, place.rpartition("/")[2])).status_code == 404


async def answer_to(browser: Browser, form: ShownForm) -> int:
    """The status of the answer to a form."""
    headers = {"cookie": f"{COOKIE}={browser.secret}", "origin": browser.origin}
    return (await browser.client.post(form.action, data=dict(form.fields), headers=headers)).status_code
