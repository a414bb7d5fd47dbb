"""Members, invitations, credentials and the DSN."""

from __future__ import annotations

import pytest

from tests.support.api import World
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.auditing import auditor_of
from tests.support.console import browser_of
from tests.support.members import Members, address_of, verified

pytestmark = pytest.mark.shares_server


async def test_a_person_is_invited_accepts_and_is_removed(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project("Shop <b>"))["id"]
    browser, email = await browser_of(owner), address_of()
    place = f"projects/{project_id}/members"
    page = await browser.open(place)
    refused = await browser.send(page.form("invite_member", email=""), 400, email="no address")
    assert "This was not carried out" in refused.text
    assert refused.form("invite_member", email="no address").value("role") == "member"
    invited = await browser.send(page.form("invite_member", email=""), email=email)
    assert email in invited.text
    invitation = invited.form("revoke_invitation").value("_path.invitation_id")
    guest = await verified(world, email)
    guests = await browser_of(guest)
    theirs = await guests.open(f"invitations/{invitation}")
    assert "Shop &lt;b&gt;" in theirs.html
    await guests.send(theirs.form("accept_invitation"))
    assert (await Members(project_id).roles(owner))[guest.user_id] == "member"
    page = await browser.open(place)
    promoted = await browser.send(page.form("invite_member", email=email))
    assert (await Members(project_id).roles(owner))[guest.user_id] == "member"  # Owners may pay: they accept.
    offered = promoted.form("revoke_invitation").value("_path.invitation_id")
    await guests.send((await guests.open(f"invitations/{offered}")).form("accept_invitation"))
    assert (await Members(project_id).roles(owner))[guest.user_id] == "owner"
    page = await browser.open(place)
    await browser.send(page.form("remove_member", **{"_path.user_id": guest.user_id}))
    assert guest.user_id not in await Members(project_id).roles(owner)


async def test_an_invitation_is_revoked_and_closed_to_others(world: World):
    owner = await world.sign_in()
    members = Members((await owner.create_project())["id"])
    browser, invitation = await browser_of(owner), await members.invited(owner, address_of())
    stranger = await browser_of(await verified(world, address_of()))
    theirs = await stranger.open(f"invitations/{invitation}", 404)
    assert theirs.text == (await stranger.open("invitations/inv_none1", 404)).text
    page = await browser.open(f"projects/{members.project_id}/members")
    gone = await browser.send(page.form("revoke_invitation"))
    assert "No invitation is open" in gone.text


async def test_a_credential_is_shown_once_and_revoked(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    browser, place = await browser_of(owner), f"projects/{project_id}/credentials"
    page = await browser.open(place)
    made = await browser.send(page.form("create_credential"), name="<i>release</i>")
    assert "service_ci_" in made.html
    assert "shown once" in made.text
    page = await browser.open(place)
    assert "&lt;i&gt;release&lt;/i&gt;" in page.html
    done = await browser.send(page.form("revoke_credential"))
    assert "revoked" in done.text


async def test_the_dsn_is_shown_checked_and_replaced(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    browser, place = await browser_of(owner), f"projects/{made['id']}/credentials"
    page = await browser.open(place)
    assert made["dsn"] in page.html
    assert "sentry_sdk.init" in page.text
    [check] = [one for one in page.forms if one.action.endswith("/verify")]
    assert "This is the DSN of this project." in (await browser.send(check, dsn=made["dsn"])).text
    assert "This is not the DSN of this project." in (await browser.send(check, dsn="https://x@y/1")).text
    new = await browser.send(page.form("rotate_dsn"))
    assert "service_dsn_" in new.html
    assert made["dsn"] not in new.html


async def test_auditors_see_neither_the_dsn_nor_forms_of_owners(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    auditor = await auditor_of(world, made["id"])
    page = await auditor.open(f"projects/{made['id']}/credentials")
    assert made["dsn"] not in page.html
    assert "create_credential" not in page.html
    page = await auditor.open(f"projects/{made['id']}/members")
    assert "invite_member" not in page.html
    stranger = await browser_of(await world.sign_in())
    for name in ("members", "credentials", "usage", "webhooks", "alerts", "public-queries"):
        theirs = await stranger.open(f"projects/{made['id']}/{name}", 404)
        assert theirs.text == (await stranger.open(f"projects/proj_none1/{name}", 404)).text
