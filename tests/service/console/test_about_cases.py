"""People, suppression rules and source maps in the console, over HTTP."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from statemachines.accounts.membership import Role
from tests.support import mappings
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.erring import BIDI, HOSTILE, SCRIPT, ErringShop, erring_shop
from tests.support.mappings import Segment

pytestmark = pytest.mark.shares_server

HOSTILE_ID = f"<script>alert(1)<x?y#z&%2F{BIDI}"
UNNAMED_ID = f"{SCRIPT}/../x"


async def _upload(shop: ErringShop, release: str) -> None:
    content = mappings.document([[Segment(0, 0, 0, 0)]], ["src/app.ts"], sourcesContent=["a()"])
    query = f"release={quote(release)}&source_url=~/{quote(release)}.min.js"
    headers = {"content-type": "application/octet-stream", "authorization": f"Bearer {shop.owner.secret}"}
    path = f"/v1/projects/{shop.id}/source-maps?{query}"
    ok(await shop.world.client.put(path, content=content, headers=headers))


async def test_people_are_listed_and_shown(world: World):
    shop = await erring_shop(world)
    empty = await shop.browser.open(f"projects/{shop.id}/people")
    assert "No error of this time names a person" in empty.text
    assert "curl" in empty.text
    for user_id in ("u-1", "u-1", "u-1", HOSTILE_ID, HOSTILE_ID, UNNAMED_ID):
        case_id = await shop.err(HOSTILE, user={"id": user_id, "email": f"{SCRIPT}@x"})
    page = await shop.browser.open(f"projects/{shop.id}/people?days=30")
    assert "<script>alert" not in page.html
    links = re.findall(r'href="/console/(projects/[^"]*/people/person\?id=[^"]*)"', page.html)
    assert links == [f"projects/{shop.id}/people/person?id={quote(one)}" for one in ("u-1", HOSTILE_ID, UNNAMED_ID)]
    for link in links[:2]:
        person = await shop.browser.open(link)
        assert case_id in person.html
        assert "<script>alert" not in person.html
        assert "The recordings were not read" in person.text or "No recording" in person.text
    unnamed = await shop.browser.open(links[2])
    assert "holds a slash or a control character" in unnamed.text
    assert "<script>alert" not in unnamed.html
    unknown = await shop.browser.open(f"projects/{shop.id}/people/person?id=nobody")
    assert "No event of this project names this person" in unknown.text
    assert "People" in (await shop.browser.open(f"projects/{shop.id}/people/person")).text
    for query in ("people?days=91", "people?days=x", f"people/person?id={'x' * 201}"):
        assert "Not to be shown" in (await shop.browser.open(f"projects/{shop.id}/{query}", 400)).text


async def test_a_person_is_shown_with_names_and_properties(world: World):
    """Whichever name is asked for; texts of others stay texts."""
    shop = await erring_shop(world)
    told = {"$anon_distinct_id": "anon-1", "$set": {"plan": SCRIPT, "seats": 3, "tags": [SCRIPT]}}
    for name, properties in (("u-1", told), ("u-2", {"$anon_distinct_id": "anon-1"})):
        body = {"event": "$identify", "distinct_id": name, "properties": properties}
        ok(await shop.dsn.post("/v1/analytics/", body), 202)
    for name in ("u-1", "anon-1"):
        page = await shop.browser.open(f"projects/{shop.id}/people/person?id={name}")
        assert "<script>alert" not in page.html
        assert "&lt;script&gt;alert" in page.html
        for text in ("Names", "u-1", "anon-1", "Properties", "plan", "seats", "identified"):
            assert text in page.text
    refused = await shop.browser.open(f"projects/{shop.id}/people/person?id=u-2")
    assert "Names not joined" in refused.text


async def test_an_owner_deletes_a_person(world: World):
    """By typing the id; a member is offered no such form; the page goes on until the receipt is there."""
    shop = await erring_shop(world)
    await shop.err(user={"id": HOSTILE_ID})
    place = f"projects/{shop.id}/people/person?id={quote(HOSTILE_ID)}"
    _, member = await shop.join(Role.MEMBER)
    assert "Delete this person" not in (await member.open(place)).text
    page = await shop.browser.open(place)
    [form] = [one for one in page.forms if one.action.endswith("/people/delete")]
    wrong = await shop.browser.send(form, 400, confirm="somebody else")
    assert "is not the id of this person" in wrong.text
    shown = await shop.browser.send(form, confirm=HOSTILE_ID)
    for _ in range(100):
        again = [one for one in shown.forms if one.action.endswith("/people/delete")]
        if not again:
            break
        shown = await shop.browser.send(again[0])
    assert "The person is deleted" in shown.text
    assert HOSTILE_ID not in shown.html
    assert "No event of this project names this person" in (await shop.browser.open(place)).text


async def test_a_rule_is_tried_made_and_removed(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    fingerprint = (await shop.case(case_id))["fingerprint"]
    place = f"projects/{shop.id}/suppressions"
    first = await shop.browser.open(place)
    assert "No rule yet" in first.text
    assert not [form for form in first.forms if form.action.endswith("create_suppression")]
    link = re.search(
        r'href="/console/([^"]*/suppressions\?pattern=[^"]*)"', (await shop.browser.open(f"cases/{case_id}")).html
    )
    assert link is not None
    page = await shop.browser.open(link[1])
    assert "1 case" in page.text
    assert page.form("create_suppression").value("fingerprint_pattern") == fingerprint
    refused = await shop.browser.send(page.form("create_suppression"), 400, action="prompt_hint", reason=SCRIPT)
    assert "needs a hint_text" in refused.text
    assert refused.form("create_suppression").value("reason") == SCRIPT
    made = await shop.browser.send(refused.form("create_suppression"), action="auto_ignore")
    assert "The rule counts for errors from now on" in made.text
    assert fingerprint in made.text
    assert "<script>alert" not in made.html
    form = made.form("remove_suppression")
    assert "No rule yet" in (await shop.browser.send(form)).text
    gone = await shop.browser.send(form)  # sent twice, carried out once
    assert "No rule yet" in gone.text
    none = await shop.browser.open(f"{place}?pattern={'x' * 201}")
    assert 'role="alert"' in none.html
    nothing = await shop.browser.open(f"{place}?pattern={quote(HOSTILE)}")
    assert "0 cases" in nothing.text
    assert "<script>alert" not in nothing.html


async def test_source_maps_are_listed_and_removed(world: World):
    shop = await erring_shop(world)
    place = f"projects/{shop.id}/source-maps"
    empty = await shop.browser.open(place)
    assert "No source map yet" in empty.text
    assert "sentry-cli sourcemaps upload" in empty.text
    for release in ("r1", SCRIPT):
        await _upload(shop, release)
    page = await shop.browser.open(place)
    assert "2 of 2 files" in page.text
    assert "<script>alert" not in page.html
    one = await shop.browser.open(f"{place}?release=r1")
    assert "1 of 2 files" in one.text
    assert "No file is stored for this release" in (await shop.browser.open(f"{place}?release=r2")).text
    form = one.form("remove_source_map")
    removed = await shop.browser.send(form)
    assert "The file is removed." in removed.text
    again = await shop.browser.post(form.action, [pair for pair in form.fields if pair[0] != "_key"], 404)
    assert "This was not carried out" in again.text


async def test_pages_about_cases_keep_to_their_project_and_role(world: World):
    shop, other = await erring_shop(world), await erring_shop(world)
    await other.err(user={"id": "u-1"})
    await _upload(other, "r1")
    _, auditor = await other.join(Role.AUDITOR)
    for name in ("people", "people/person?id=u-1", "suppressions?pattern=*", "source-maps"):
        foreign = await shop.browser.open(f"projects/{other.id}/{name}", 404)
        assert foreign.text == (await shop.browser.open(f"projects/proj_none1/{name}", 404)).text
        page = await auditor.open(f"projects/{other.id}/{name}")
        assert not [form for form in page.forms if "suppression" in form.action or "source_map" in form.action]
