"""Events, questions and deploys in the console, and the search and the frame around all pages."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import pytest

from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Browser, Shown, browser_of

pytestmark = pytest.mark.shares_server

ODD = "sign,up <b>&\u202e"


class Shop:
    """A project with events of two people, and the browser of its owner."""

    def __init__(self, world: World, made: dict[str, Any], browser: Browser) -> None:
        self.world = world
        self.made = made
        self.browser = browser
        self.base = f"projects/{made['id']}"

    async def send(self, event: str, person: str, **properties: object) -> None:
        sent = {"event": event, "distinct_id": person, "properties": properties}
        ok(await self.world.having(self.made["dsn"]).post("/v1/analytics/", sent), 202)


@pytest.fixture
async def shop(world: World) -> Shop:
    owner = await world.sign_in()
    found = Shop(world, await owner.create_project("Shop"), await browser_of(owner))
    for person in ("u-1", "u-2"):
        await found.send("signup", person, plan="free <i>")
    await found.send("order_paid", "u-1", cents=500)
    await found.send(ODD, "u-2")
    return found


def links_of(page: Shown, text: str) -> list[str]:
    """The places of the links to the console whose words are these."""
    found = re.findall(r'<a [^>]*href="/console/([^"]*)"[^>]*>(.*?)</a>', page.html)
    return [html.unescape(place) for place, words in found if re.sub("<[^>]*>", "", words).strip() == text]


async def test_names_lead_to_an_event_and_on_to_its_values(shop: Shop) -> None:
    names = await shop.browser.open(f"{shop.base}/analytics")
    assert "3 names" in names.text
    assert "Events a day, oldest first: 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2" in names.html
    [place] = links_of(names, "signup")
    event = await shop.browser.open(place)
    assert "Row count" in event.text
    assert "Receipt (SHA-256)" in event.text
    [place] = links_of(event, "plan")
    values = await shop.browser.open(place)
    assert "free &lt;i&gt;" in values.html
    [odd] = links_of(names, html.escape(ODD, quote=False))
    assert "These events have no property" in (await shop.browser.open(odd)).text


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("blueprint=ordered-funnel&params.events:lines=signup%0Aorder_paid", "1 signup 2"),
        ("blueprint=retention&params.start_event=signup&params.return_event=signup&params.days:json=3", "came back"),
        ("blueprint=top-events", "order_paid"),
        ("blueprint=breakdown&params.event=signup&params.property=plan", "100.0 %"),
        ("blueprint=active-users&params.days:json=2", "Unique users"),
        ("blueprint=event-count&params.event=signup", "2 2"),
    ],
)
async def test_a_question_is_a_link_with_rows_a_receipt_and_a_file(shop: Shop, question: str, says: str) -> None:
    page = await shop.browser.open(f"{shop.base}/analytics/ask?{question}")
    assert says in page.text
    assert "Receipt (SHA-256)" in page.text
    [place] = links_of(page, "As CSV")
    headers = {"cookie": f"service_session={shop.browser.secret}"}
    file = await shop.world.client.get(f"/console/{place}", headers=headers)
    assert file.headers["content-disposition"].endswith('.csv"')
    columns = file.text.splitlines()[0].split(",")
    said = [
        one.lower().replace(" ", "_") for one in re.findall(r'<th scope="col"[^>]*title="[^"]*">([^<]*)', page.html)
    ]
    assert columns == said


async def test_an_answer_goes_on_as_an_alert_and_as_a_public_query(shop: Shop) -> None:
    page = await shop.browser.open(f"{shop.base}/analytics/ask?blueprint=event-count&params.event=signup")
    [alert] = links_of(page, "As an alert")
    form = (await shop.browser.open(alert)).form("create_alert")
    assert form.value("params.event") == "signup"
    [query] = links_of(page, "As a public query")
    assert (await shop.browser.open(query)).form("create_public_query").value("params.event") == "signup"


@pytest.mark.parametrize(
    ("question", "status", "says"),
    [
        ("blueprint=event-count&params.event=", 400, "params.event"),
        ("blueprint=event-count&params.event=signup&params.days:json=many", 400, "is no JSON"),
        ("blueprint=event-count&params.event=signup&params.days:json=91", 400, "params.days"),
        ("blueprint=ordered-funnel&params.events:lines=signup", 400, "params.events"),
        ("blueprint=deploy-impact&params.deploy_id=dep_none", 400, "must be a deploy of the project"),
        ("blueprint=no-such", 200, "Count of an event"),
        ("params.event=%00", 400, ""),
        ("params.event=%ED%A0%80", 200, "Receipt (SHA-256)"),
    ],
)
async def test_a_bad_question_is_told_so_and_stays_in_its_form(
    shop: Shop, question: str, status: int, says: str
) -> None:
    page = await shop.browser.open(f"{shop.base}/analytics/ask?{question}", status)
    assert says in page.text


async def test_a_deploy_names_who_told_it_and_the_cases_of_its_release(shop: Shop) -> None:
    sender = shop.world.having(shop.made["dsn"])
    assert "No deploy is recorded yet" in (await shop.browser.open(f"{shop.base}/deploys")).text
    deploy = ok(await sender.post("/v1/deploys/", {"version": "r<1>", "environment": "production"}), 202)
    ok(await sender.post("/v1/logs/", {"level": "error", "message": "Card <b>refused", "release": "r<1>"}), 202)
    listed = await shop.browser.open(f"{shop.base}/deploys")
    assert "r&lt;1&gt;" in listed.html
    assert "a DSN" in listed.text
    assert "No deploy went" in (await shop.browser.open(f"{shop.base}/deploys?environment=nowhere")).text
    async with asyncio.timeout(30):
        while True:  # until the events have a place in the log
            page = await shop.browser.open(f"{shop.base}/deploys/{deploy['id']}")
            if "Opened 1 " in page.text:
                break
            await asyncio.sleep(0.05)
    assert "Card &lt;b&gt;refused" in page.html
    assert "new since the deploy" in page.text
    assert "Came back 0 " in page.text
    await shop.browser.open(f"{shop.base}/deploys/dep_none", 404)
    event = await shop.browser.open(f"{shop.base}/analytics/event?name=signup")
    assert (
        f'class="to-deploy" href="/console/{shop.base}/deploys/{deploy["id"]}" aria-label="Deploy of r&lt;1&gt;'
        in event.html
    )


async def test_a_search_finds_cases_people_events_and_pages(shop: Shop) -> None:
    sent = {"level": "error", "message": "Basket broke", "user": {"id": "u-1"}}
    case_id = ok(await shop.world.having(shop.made["dsn"]).post("/v1/logs/", sent), 202)["case_id"]
    search = f"{shop.base}/search"
    assert f"/console/cases/{case_id}" in (await shop.browser.open(f"{search}?q=basket")).html
    assert f"/console/cases/{case_id}" in (await shop.browser.open(f"{search}?q={case_id}")).html
    assert "people/person?id=u-1" in (await shop.browser.open(f"{search}?q=u-1")).html
    assert "analytics/event?name=order_paid" in (await shop.browser.open(f"{search}?q=PAID")).html
    assert 'href="/docs/' in (await shop.browser.open(f"{search}?q=webhook+signature")).html
    assert "Nothing has these words" in (await shop.browser.open(f"{search}?q=..%2F%00zzyzx")).text
    assert "Cases are found by" in (await shop.browser.open(search)).text
    await (await browser_of(await shop.world.sign_in())).open(f"{search}?q=basket", 404)


async def test_the_frame_names_the_person_and_the_projects(shop: Shop) -> None:
    page = await shop.browser.open(shop.base)
    assert re.search(r'class="who"[^>]*><bdi>[^<]+@[^<]+</bdi>', page.html)
    assert [one for one in links_of(page, "Shop") if one == shop.base]
    assert "/docs" in page.page.links
    assert "Stop automation" not in page.text, "nothing is automated here"


async def test_a_new_project_begins_with_its_next_steps(world: World) -> None:
    owner = await world.sign_in()
    made = await owner.create_project("Shop")
    browser = await browser_of(owner)
    page = await browser.open(f"projects/{made['id']}")
    assert page.text.index("Next steps") < page.text.index("Waits for a decision")
    assert links_of(page, "Send the first event") == [f"projects/{made['id']}/credentials"]
    ok(await world.having(made["dsn"]).post("/v1/logs/", {"level": "error", "message": "boom"}), 202)
    later = await browser.open(f"projects/{made['id']}")
    assert later.text.index("Next steps") > later.text.index("Waits for a decision")
