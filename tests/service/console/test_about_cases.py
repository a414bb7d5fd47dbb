"""People, logs, suppression rules and source maps in the console, over HTTP."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from statemachines.accounts.membership import Role
from tests.support import mappings
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Shown
from tests.support.erring import BIDI, HOSTILE, SCRIPT, ErringShop, erring_shop
from tests.support.mappings import Segment

pytestmark = pytest.mark.shares_server

HOSTILE_ID = f"<script>alert(1)<x?y#z&%2F{BIDI}"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
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
        assert "This page cannot be shown" in (await shop.browser.open(f"projects/{shop.id}/{query}", 400)).text


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


async def _log(shop: ErringShop, message: str, level: str = "info", **members: Any) -> None:
    ok(await shop.dsn.post("/v1/logs/", {"level": level, "message": message, **members}), 202)


def _messages(page: Shown) -> list[str]:
    """The messages of the logs on a page."""
    return re.findall(r'<th scope="row" data-label="Message"><bdi>([^<]*)</bdi>', page.html)


def _onward(page: Shown) -> str:
    """The query of the next page; empty for none."""
    found = re.search(r'class="button" href="(\?[^"]*)">Next page', page.html)
    return found[1].replace("&amp;", "&") if found else ""


async def test_logs_are_shown_by_filters(world: World):
    """Each with all that is stored of it, as text, and no error among them."""
    shop = await erring_shop(world)
    place = f"projects/{shop.id}/logs"
    assert "No record below error is stored" in (await shop.browser.open(place)).text
    assert f'href="/console/{place}" aria-current="page"' in (await shop.browser.open(place)).html
    held = {
        "exception": {"type": "Slow", "value": HOSTILE, "frames": [{"function": "pay", "filename": "pay.py"}]},
        "breadcrumbs": [{"message": HOSTILE}],
        "contexts": {"runtime": {"name": "CPython"}, "trace": {"trace_id": TRACE}, SCRIPT: {SCRIPT: [HOSTILE]}},
        "request": {"method": "POST"},
        "logger": "pay",
        "more": "z" * 2100,
    }
    await _log(shop, f"Cart {HOSTILE}", "warning", release="1.0", user={"id": HOSTILE_ID, "email": SCRIPT}, extra=held)
    await world.wait(2)
    await _log(shop, "Cart opened", release="1.1", user={"id": "u-2"}, tags={SCRIPT: SCRIPT})
    await shop.err("Cart broke", user={"id": "u-2"})
    page = await shop.browser.open(place)
    assert "<script>alert" not in page.html
    [opened, hostile] = _messages(page)
    assert (opened, "Cart &lt;script&gt;" in hostile) == ("Cart opened", True)
    for text in ("Slow: ", "at pay (pay.py)", "CPython", "Breadcrumbs", "POST", "Logger", "and 100 more characters"):
        assert text in page.text, text
    for query, expected in (
        ("level=warning", [hostile]),
        ("q=OPENED", [opened]),
        ("user=u-2", [opened]),
        (f"user={quote(HOSTILE_ID)}", [hostile]),
        ("release=1.0", [hostile]),
        (f"trace={TRACE}", [hostile]),
        ("when=hour", [opened, hostile]),
        ("from=1&to=2", []),
        ("when=&from=1&to=2", [opened, hostile]),
        ("when=day&from=1&to=x", [opened, hostile]),
        ("level=debug", []),
    ):
        shown = await shop.browser.open(f"{place}?{query}")
        assert _messages(shown) == expected, query
        assert ("fits these filters" in shown.text) == (not expected)
    links = re.findall(r'href="/console/([^"]*/logs\?[^"]*)"', page.html)
    led_to = [_messages(await shop.browser.open(link.replace("&amp;", "&"))) for link in links]
    assert led_to == [[opened], [hostile], [hostile]]
    [_, filters] = [form for form in (await shop.browser.open(f"{place}?from=1&to=2")).forms if form.method == "get"]
    assert [filters.value(name) for name in ("when", "from", "to")] == ["given", "1", "2"]
    for query in ("level=error", "from=x", "trace=a%20b", "cursor=x", "from=2&to=1"):
        assert "This page cannot be shown" in (await shop.browser.open(f"{place}?{query}", 400)).text


async def test_logs_are_shown_in_pages(world: World):
    """A page tells how far it looked, where it ends early or has nothing."""
    shop = await erring_shop(world)
    await _log(shop, "first")
    await world.sql(
        "insert into log_events (project_id, received_at, id, level, message, environment, tags, extra, case_id) "
        "select project_id, received_at, 'log_' || n, 'info', 'm', 'e', '{}', '{}', "
        "case when n > 10 then 'case_none' end from log_events, generate_series(1, 10030) n where project_id = %s",
        shop.id,
    )
    place = f"projects/{shop.id}/logs"
    early = await shop.browser.open(place)
    assert "This page ends before it is full: it looked at records back to" in early.text
    nothing = await shop.browser.open(f"{place}?q=nothing")
    assert "No record matches among those looked at, back to" in nothing.text
    last = [await shop.browser.open(place + _onward(page)) for page in (early, nothing)]
    assert [_onward(page) for page in last] == ["", ""]
    assert "fits these filters" in last[1].text
    assert sorted(_messages(early) + _messages(last[0])) == ["first", *["m"] * 10]


async def test_an_error_leads_to_the_logs_around_it(world: World):
    """Of its trace, of its person and of everybody, and to none from another time."""
    shop = await erring_shop(world)
    traced = {"contexts": {"trace": {"trace_id": TRACE}}}
    await _log(shop, "of the trace", extra=traced)
    await _log(shop, "of the person", user={"id": HOSTILE_ID})
    await _log(shop, "of another", user={"id": "u-2"})
    await _log(shop, "of before", user={"id": HOSTILE_ID}, extra=traced)
    await world.sql("update log_events set occurred_at = received_at - 3700 where message = 'of before'")
    case_id = await shop.err("Card refused", user={"id": HOSTILE_ID}, extra=traced)
    case = await shop.browser.open(f"cases/{case_id}")
    [event_id] = re.findall(rf'href="/console/cases/{case_id}/errors/(log_\w+)"', case.html)
    for page in (case, await shop.browser.open(f"cases/{case_id}/errors/{event_id}")):
        around = page.html.partition("Logs around it:")[2].partition("</p>")[0]
        links = re.findall(r'href="/console/([^"]*)">([^<]*)<', around)
        found = {words: set(_messages(await shop.browser.open(link.replace("&amp;", "&")))) for link, words in links}
        assert found == {
            "of the same trace": {"of the trace"},
            "of the same person": {"of the person"},
            "of everybody": {"of the trace", "of the person", "of another"},
        }
    plain = await shop.browser.open(f"cases/{await shop.err('No trace', extra={'contexts': {'trace': [TRACE]}})}")
    around = plain.html.partition("Logs around it:")[2].partition("</p>")[0]
    assert re.findall(r'">([^<]*)</a>', around) == ["of everybody"]


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
    for name in ("people", "people/person?id=u-1", "logs", "suppressions?pattern=*", "source-maps"):
        foreign = await shop.browser.open(f"projects/{other.id}/{name}", 404)
        assert foreign.text == (await shop.browser.open(f"projects/proj_none1/{name}", 404)).text
        page = await auditor.open(f"projects/{other.id}/{name}")
        assert not [form for form in page.forms if "suppression" in form.action or "source_map" in form.action]


async def test_texts_of_people_are_shown_as_text(world: World):
    """On the page of their case, of their error, and of the project: hostile ones too, and never as comments."""
    shop = await erring_shop(world)
    alias = ok(await shop.owner.get(f"/v1/projects/{shop.id}/dsn"))["alias"]

    async def write(kind: str, body: dict[str, Any]) -> None:
        content = json.dumps({}).encode() + b"\n" + json.dumps({"type": kind}).encode() + b"\n"
        sent = await shop.dsn.call("POST", f"/api/{alias}/envelope/", content=content + json.dumps(body).encode())
        assert sent.status_code == 200, sent.text

    event_id = uuid4().hex
    await write("event", {"event_id": event_id, "message": "Card refused", "level": "error", "user": {"id": "u1"}})
    for number in range(11):
        await write("user_report", {"event_id": event_id, "comments": f"text {number}", "name": "Ann"})
    await write("user_report", {"event_id": event_id, "comments": HOSTILE, "name": HOSTILE, "email": HOSTILE})
    await write("user_report", {"comments": "About nothing", "email": "bob@example.com"})
    [case] = ok(await shop.owner.get(f"/v1/projects/{shop.id}/cases"))["cases"]
    page = await shop.browser.open(f"cases/{case['id']}")
    for told in ("What people wrote", "text 10", "text 2", "Ann", "All of it"):
        assert told in page.text, told
    assert "text 1 " not in page.text
    [event] = ok(await shop.owner.get(f"/v1/cases/{case['id']}/events"))["events"]
    error = await shop.browser.open(f"cases/{case['id']}/errors/{event['id']}")
    assert "text 10" in error.text
    listed = await shop.browser.open(f"projects/{shop.id}/feedback")
    for told in ("About nothing", "bob@example.com", "text 0", "its error"):
        assert told in listed.text, told
    for shown in (page, error, listed):
        assert SCRIPT not in shown.html
        assert escape(SCRIPT) in shown.html
    alone = await shop.browser.open(f"projects/{shop.id}/feedback?about=none")
    assert "About nothing" in alone.text
    assert "text 0" not in alone.text
    assert ok(await shop.owner.get(f"/v1/cases/{case['id']}"))["comments"] == []
