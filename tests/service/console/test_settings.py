"""The settings of a person: preferences in a cookie, keys, and the end of the account."""

from __future__ import annotations

import pytest

from service.console.kit import visit
from tests.support.api import World, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Shown, ShownForm, browser_of

pytestmark = pytest.mark.shares_server


def _at(page: Shown, action: str) -> ShownForm:
    [found] = [one for one in page.forms if one.action == f"/console/{action}"]
    return found


async def test_preferences_are_kept_in_a_cookie(world: World):
    person = await world.sign_in()
    browser = await browser_of(person)
    form = _at(await browser.open("settings"), "preferences")
    fields = {**dict(form.fields), "theme": "dark", "zone": "Asia/Kolkata"}
    session = {"cookie": f"service_session={browser.secret}", "origin": browser.origin}
    saved = await world.client.post("/console/preferences", data=fields, headers=session)
    assert (saved.status_code, saved.headers["location"]) == (303, "/console/settings?done=preferences")
    cookie = saved.headers["set-cookie"]
    assert cookie.startswith("service_console=theme:dark|zone:Asia/Kolkata; Path=/console; ")
    assert "HttpOnly; SameSite=Lax" in cookie
    both = {"cookie": f"service_session={browser.secret}; {cookie.partition(';')[0]}"}
    page = await world.client.get("/console/settings?done=preferences", headers=both)
    assert 'data-theme="dark"' in page.text
    assert ' IST" data-ago>' in page.text
    assert "Saved." in page.text


async def test_an_unknown_zone_or_theme_is_refused_and_kept_as_entered(world: World):
    browser = await browser_of(await world.sign_in())
    form = _at(await browser.open("settings"), "preferences")
    for name, value in (("zone", "Mars/Olympus"), ("zone", "../../etc/passwd"), ("theme", "pink")):
        again = await browser.send(form, 400, **{name: value})
        assert "is none of those offered" in again.text
    assert _at(await browser.send(form, 400, zone="Mars/Olympus"), "preferences").value("zone") == "Mars/Olympus"


@pytest.mark.parametrize("cookie", ["zone:Mars/Olympus", "zone:../x|theme:pink", "|||", "zone:", "theme", '"'])
async def test_a_cookie_of_anybody_s_making_does_no_harm(world: World, cookie: str):
    browser = await browser_of(await world.sign_in())
    headers = {"cookie": f"service_session={browser.secret}; service_console={cookie}"}
    page = await world.client.get("/console/settings", headers=headers)
    assert page.status_code == 200
    assert ' UTC" data-ago>' in page.text
    assert "data-theme" not in page.text


def test_what_is_written_can_be_read():
    saved = {"theme": "light", "zone": "Europe/Berlin"}
    cookie = visit.written({**saved, "other": "x"}, secure=True)
    assert cookie.endswith("; Secure")
    assert visit.read_preferences(cookie.partition(";")[0].partition("=")[2]) == saved


async def test_a_key_is_revoked(world: World):
    person = await world.sign_in()
    other = (await person.get("/v1/keys")).json()["keys"][0]
    browser = await browser_of(person)
    page = await browser.open("settings")
    assert other["key_prefix"] in page.text
    form = page.form("revoke_key", **{"_path.key_id": other["id"]})
    stranger = await browser_of(await world.sign_in())
    fields = {**dict(form.fields), "_csrf": _at(await stranger.open("settings"), "preferences").value("_csrf")}
    assert "was not carried out" in (await stranger.post(form.action, [*fields.items()], 404)).text
    headers = {"cookie": f"service_session={browser.secret}", "origin": browser.origin}
    done = await world.client.post(form.action, data=dict(form.fields), headers=headers)
    assert done.headers["location"].endswith("?done=revoke_key")
    refused(await person.get("/v1/projects"), 401, "unauthenticated")


async def test_an_account_is_deleted_after_the_word(world: World):
    person = await world.sign_in()
    await person.create_project()
    browser = await browser_of(person)
    form = _at(await browser.open("settings"), "settings/delete-account")
    wrong = await browser.send(form, 400, confirm="delete")
    assert "must be DELETE" in wrong.text
    assert len((await person.get("/v1/projects")).json()["projects"]) == 1
    gone = await browser.send(form, confirm="DELETE")
    assert "Your account is" in gone.text
