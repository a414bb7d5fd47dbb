"""The frame of all pages: who gets in, what a form needs, and what a page may load."""

from __future__ import annotations

import gc
import html
import re
import weakref
from typing import Any, cast
from urllib.parse import quote

import pytest

from service.auth.refusals import Unauthenticated
from service.console import site
from service.console.kit.page import View, page
from service.console.kit.rendering import render
from service.console.kit.visit import ReadRefused, Said, Visit
from service.console.pages.projects import LOOKS
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import browser_of
from tests.support.html import HtmlPage

pytestmark = pytest.mark.shares_server


async def test_a_stranger_is_led_to_the_sign_in(world: World):
    home = await world.client.get("/console")
    assert (home.status_code, home.headers["location"]) == (303, "/console/enter")
    shown = await world.client.get("/console/projects/proj_1/cases")
    assert shown.headers["location"] == "/console/enter?next=projects%2Fproj_1%2Fcases"


async def test_a_project_is_created_and_leads_on(world: World):
    person = await world.sign_in()
    browser = await browser_of(person)
    home = await browser.open("")
    made = await browser.send(home.form("create_project"), name="Shop <script>alert(1)</script>")
    assert "service_dsn_" in made.html
    [project] = (await person.get("/v1/projects")).json()["projects"]
    base = f"/console/projects/{project['project_id']}"
    assert {base, f"{base}/onboarding", f"{base}/credentials"} <= set(made.page.links)
    assert "Send a first event" in made.text
    dsn = (await person.get(f"/v1/projects/{project['project_id']}/dsn")).json()["dsn"]
    later = await browser.open(f"projects/{project['project_id']}/credentials")
    for begin in ('sentry_sdk.init(dsn="', 'Sentry.init({ dsn: "', 'export SERVICE_DSN="'):
        assert f'{begin}{dsn}"' in html.unescape(made.html)
        assert f'{begin}{dsn}"' in html.unescape(later.html)
    public = (await person.get(f"/v1/projects/{project['project_id']}/dsn")).json()["public_dsn"]
    for shown in (made, later):
        assert f'Sentry.init({{ dsn: "{public}" }})' in html.unescape(shown.html)
    buttons = re.findall(r'data-copy="([^"]+)"[^>]*aria-label="Copy the snippet for ([^"]+)"', made.html)
    assert {"Sentry in Python", "Sentry in Node", "OpenTelemetry", "HTTP"} <= {name for _, name in buttons}
    assert all(text in made.html.replace(f'data-copy="{text}"', "") for text, _ in buttons), "what is copied is shown"
    assert "nobody can read it again" not in made.text, "the service can show it to owners"
    listed = await browser.open("")
    assert "Shop &lt;script&gt;alert(1)&lt;/script&gt;" in listed.html
    assert "<script>alert" not in listed.html


async def test_a_page_waits_for_the_first_event(world: World):
    """It reads itself anew until the event is there, and not for ever."""
    person = await world.sign_in()
    made = await person.create_project()
    browser = await browser_of(person)
    place = f"projects/{made['id']}/arrived"
    waiting = await browser.open(place)
    assert "Waiting for your first event" in waiting.text
    assert f'hx-get="/console/{place}?looked=1"' in waiting.html
    assert f"looked={LOOKS}" in (await browser.open(f"{place}?looked={LOOKS - 1}")).html
    for looked in (LOOKS, LOOKS + 1, 99_999):
        assert "hx-get" not in (await browser.open(f"{place}?looked={looked}")).html
    for odd in ("-1", "x", "1" * 6, "²"):
        assert f"{place}?looked=1" in (await browser.open(f"{place}?looked={quote(odd)}")).html
    ok(await world.having(made["dsn"]).post("/v1/logs/", {"level": "error", "message": "boom"}), 202)
    arrived = await browser.open(f"{place}?looked=5")
    assert "Your first event is here" in arrived.text
    assert "hx-get" not in arrived.html
    stranger = await browser_of(await world.sign_in())
    await stranger.open(place, 404)


async def test_the_links_of_the_first_pages_lead_on(world: World):
    """Also back to the first page, whose address ends with a slash where somebody types it."""
    browser = await browser_of(await world.sign_in())
    home = await browser.open("")
    made = await browser.send(home.form("create_project"), name="Shop")
    links = [*home.page.links, *made.page.links]
    assert "/console/" in links
    for link in (one for one in links if one.startswith("/console")):
        answer = await world.client.get(link, headers={"cookie": f"service_session={browser.secret}"})
        assert answer.status_code == 200, link
    assert (await world.client.get("/console/settings/")).status_code == 404


async def test_a_form_sent_twice_is_carried_out_once(world: World):
    person = await world.sign_in()
    browser = await browser_of(person)
    form = (await browser.open("")).form("create_project")
    await browser.send(form, name="once")
    await browser.send(form, name="once")
    assert len((await person.get("/v1/projects")).json()["projects"]) == 1


async def test_a_refused_form_keeps_what_was_entered(world: World):
    browser = await browser_of(await world.sign_in())
    form = (await browser.open("")).form("create_project")
    again = await browser.send(form, 400, name="x" * 300)
    assert "This was not carried out" in again.text
    assert again.form("create_project").value("name") == "x" * 300


async def test_a_form_of_another_session_or_origin_is_refused(world: World):
    person = await world.sign_in()
    browser, other = await browser_of(person), await browser_of(await world.sign_in())
    theirs = (await other.open("")).form("create_project")
    refused = await browser.send(theirs, 403, name="stolen")
    assert "another sign-in" in refused.text
    own = (await browser.open("")).form("create_project")
    headers = {"cookie": f"service_session={browser.secret}", "origin": "https://evil.example"}
    foreign = await world.client.post(own.action, data=dict(own.fields) | {"name": "stolen"}, headers=headers)
    assert foreign.status_code == 403
    assert (await person.get("/v1/projects")).json()["projects"] == []


async def test_a_place_without_a_page_is_not_found(world: World):
    browser = await browser_of(await world.sign_in())
    for place in ("nothing", "projects/proj_1/nothing/here", "assets/none.css"):
        answer = await world.client.get(f"/console/{place}", headers={"cookie": f"service_session={browser.secret}"})
        assert answer.status_code == 404, place


async def test_a_project_of_others_looks_like_none(world: World):
    owner, stranger = await world.sign_in(), await world.sign_in()
    project_id = (await owner.create_project())["id"]
    browser = await browser_of(stranger)
    theirs, none = await browser.open(f"projects/{project_id}", 404), await browser.open("projects/proj_none1", 404)
    assert theirs.text == none.text


async def test_files_are_tagged_and_packed(world: World):
    for name in ("console.css", "console.js", "htmx.js", "icon.svg"):
        plain = await world.client.get(f"/console/assets/{name}", headers={"accept-encoding": "identity"})
        packed = await world.client.get(f"/console/assets/{name}", headers={"accept-encoding": "gzip"})
        assert packed.content == plain.content
        assert packed.headers["content-encoding"] == "gzip"
        tag = {"if-none-match": plain.headers["etag"]}
        assert (await world.client.get(f"/console/assets/{name}", headers=tag)).status_code == 304


async def test_files_named_by_their_bytes_are_kept_for_ever(world: World):
    browser = await browser_of(await world.sign_in())
    shown = await browser.open("")
    assert len(shown.page.loaded) > 2
    for address in shown.page.loaded:
        answer = await world.client.get(address)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable", address
        stale = await world.client.get(re.sub(r"v=\w+", "v=0", address))
        assert stale.headers["cache-control"] == "public, no-cache", address


async def test_a_first_visit_takes_at_most_100_kilobytes(world: World):
    """From the sign-in to a project with cases, with all files, as a browser counts bodies, and heads with them."""
    person = await world.sign_in()
    project_id = (await person.create_project())["id"]
    browser = await browser_of(person)
    headers = {"cookie": f"service_session={browser.secret}", "accept-encoding": "gzip"}
    wire, seen = 0, set[str]()
    for place in ("/enter", "", f"/projects/{project_id}", f"/projects/{project_id}/cases"):
        answer = await world.client.get(f"/console{place}", headers=headers)
        for loaded in [answer, *[await world.client.get(one, headers=headers) for one in HtmlPage(answer.text).loaded]]:
            if str(loaded.url) not in seen:
                seen.add(str(loaded.url))
                wire += loaded.num_bytes_downloaded + sum(len(a) + len(b) + 4 for a, b in loaded.headers.raw)
    assert len(seen) > 6
    assert wire <= 100_000, wire


async def test_a_session_that_ends_between_two_reads_leads_to_the_sign_in():
    async def reads(_: Visit) -> View:
        raise ReadRefused(Said(401, {"error": {"code": "unauthenticated"}}, {}))

    visit = Visit(cast("Any", None), "", {}, {})
    with pytest.raises(Unauthenticated):  # The edge makes the way to the sign-in of it.
        await site._view(visit, page("")(reads))


class _Shown:
    place = csrf = ""
    of_operator = False


def test_nothing_of_a_page_that_was_answered_waits_for_the_collector():
    """Its facts may be megabytes, and the collector of a process that serves passes seldom."""
    shown = _Shown()
    gone = weakref.ref(shown)
    empty = dict.fromkeys(("project", "problem", "checkpoint"))
    texts = dict.fromkeys(("done", "here", "follows", "theme", "base_url", "sections", "changed"), "")
    facts = {
        **empty,
        **texts,
        "frame": site.Surroundings(None, {}, False, [], ""),
        "now": 0,
        "zoned": False,
        "may": lambda _: False,
        "visit": shown,
        "view": View("log/verifying.html", "How to verify"),
    }
    gc.disable()
    try:
        render("log/verifying.html", facts)
        del shown, facts
        assert gone() is None
    finally:
        gc.enable()
