"""Deliveries in the console: a test, a delivery sent again, a stretch of the past, and what a receiver did wrong."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.service.http.cases.test_case import log
from tests.service.webhooks.test_outbox import listener as listener  # noqa: PLC0414 (fixtures are found by name)
from tests.service.webhooks.test_outbox import register
from tests.service.webhooks.test_outbox import shop as shop  # noqa: PLC0414
from tests.support.api import Api, Person, ok
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.auditing import auditor_of
from tests.support.console import Browser, Shown, browser_of
from tests.support.listening import Listener

pytestmark = pytest.mark.shares_server

Shop = tuple[Person, str, Api]
PATIENCE = 20


async def sees(browser: Browser, place: str, text: str) -> Shown:
    """A page once it has a text: deliveries are made by the worker."""
    give_up = time.monotonic() + PATIENCE
    while text not in (page := await browser.open(place)).text:
        assert time.monotonic() < give_up, f"no {text!r} in {page.text}"
        await asyncio.sleep(0.05)
    return page


async def test_a_test_is_sent_and_its_answer_shown(shop: Shop, listener: Listener):
    owner, project_id, _ = shop
    made = await register(owner, project_id, listener.url)
    browser, place = await browser_of(owner), f"projects/{project_id}/webhooks/{made['id']}"
    form = (await browser.open(place)).form("test_webhook")
    page = await browser.send(form)
    assert "The test was sent. The last answer says how it went." in page.text
    await listener.until_arrived(1)
    assert listener.arrived[0].event == "webhook.test"
    listener.arrived[0].verify(made["secret"])
    await sees(browser, place, "tested")
    await browser.send(form)
    assert len(listener.arrived) == 1, "a form sent twice is carried out once"
    listener.status = 500
    await browser.send((await browser.open(place)).form("test_webhook"))
    assert "500" in (await browser.open(place)).text


async def test_a_delivery_is_sent_again_and_the_past_too(shop: Shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    browser, place = await browser_of(owner), f"projects/{project_id}/webhooks/{made['id']}"
    assert "No delivery." in (await browser.open(place)).text
    await log(dsn, "heron failed")
    await log(dsn, "ibis failed")
    await listener.until_arrived(2)
    give_up = time.monotonic() + PATIENCE
    while len(rows(page := await browser.open(f"{place}?status=delivered"))) < 2:
        assert time.monotonic() < give_up, page.text
        await asyncio.sleep(0.05)
    form = page.form("resend_webhook_delivery")
    await browser.send(form)
    await listener.until_arrived(3)
    assert listener.arrived[-1].id == form.value("_path.delivery_id")
    again = page.form("replay_webhook")
    kept = await browser.send(again, 400, after="many", until="9")
    assert (kept.form("replay_webhook").value("after"), kept.form("replay_webhook").value("until")) == ("many", "9")
    assert "was not carried out" in kept.text
    path = f"/v1/projects/{project_id}/webhooks/{made['id']}/deliveries"
    [first, last] = [one["position"] for one in ok(await owner.get(path))["deliveries"]]
    done = await browser.send(again, after=str(first - 1), until=str(last))
    assert "Done:" in done.text
    await listener.until_arrived(5)
    assert len({one.id for one in listener.arrived}) == 2
    assert "No delivery with this status." in (await browser.open(f"{place}?status=exhausted")).text
    await browser.open(f"{place}?status=nonsense", 400)


async def test_a_failed_delivery_says_why_and_when_it_goes_on(shop: Shop, listener: Listener):
    owner, project_id, dsn = shop
    made = await register(owner, project_id, listener.url)
    listener.status = 503
    await log(dsn, "kite failed")
    await listener.until_arrived(1)
    browser, place = await browser_of(owner), f"projects/{project_id}/webhooks/{made['id']}"
    page = await sees(browser, place, "503")
    assert "next" in page.text
    assert "unhealthy" in page.text
    listener.status = 204
    await browser.send(page.form("resend_webhook_delivery"))
    await listener.until_arrived(2)
    await sees(browser, f"{place}?status=delivered", "204")


async def test_who_may_send_again(shop: Shop, listener: Listener):
    """Auditors see deliveries without a button, and are refused. What is not this webhook's is not found."""
    owner, project_id, dsn = shop
    made, other = [await register(owner, project_id, listener.url) for _ in range(2)]
    await log(dsn, "gull failed")
    await listener.until_arrived(2)
    browser, place = await browser_of(owner), f"projects/{project_id}/webhooks/{made['id']}"
    await sees(browser, f"{place}?status=delivered", "204")
    form = (await browser.open(place)).form("resend_webhook_delivery")
    theirs = await browser.post(form.action, [*form._replace(fields=swapped(form.fields, other["id"])).fields], 404)
    assert "was not carried out" in theirs.text
    auditor = await auditor_of(shop[0].world, project_id)
    page = await auditor.open(place)
    assert "case.created" in page.text
    assert not [one for one in page.forms if "/do/" in one.action]
    [leave] = [one for one in page.forms if one.action == "/console/leave"]
    mine = [(name, leave.value("_csrf") if name == "_csrf" else value) for name, value in form.fields]
    await auditor.post(form.action, mine, 403)
    await browser.send((await browser.open(place)).form("test_webhook"))
    await listener.until_arrived(3)
    assert [one.event for one in listener.arrived] == ["case.created", "case.created", "webhook.test"]


def rows(page: Shown) -> list[str]:
    """The ids of the deliveries on a page."""
    forms = [one for one in page.forms if one.action.endswith("/resend_webhook_delivery")]
    return [one.value("_path.delivery_id") for one in forms]


def swapped(fields: list[tuple[str, str]], webhook_id: str) -> list[tuple[str, str]]:
    """The fields with another webhook in the path."""
    return [(name, webhook_id if name == "_path.id" else value) for name, value in fields]
