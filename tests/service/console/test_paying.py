"""Paying in the console: the way to the payment page and to the portal, and what the provider does wrong."""

from __future__ import annotations

from tests.service.http.billing.test_payment import UPDATED, new_id, tell
from tests.service.http.billing.test_payment import provider as provider  # noqa: PLC0414 (fixtures are found by name)
from tests.service.http.billing.test_payment import running as running  # noqa: PLC0414
from tests.service.http.billing.test_payment import server as server  # noqa: PLC0414
from tests.support.api import Person, World
from tests.support.api import world as world  # noqa: PLC0414
from tests.support.console import Browser, Shown, ShownForm, browser_of
from tests.support.members import Members
from tests.support.payments import KEY, FakePayments, subscription

SESSIONS = "/v1/checkout/sessions"


async def at_usage(person: Person, project_id: str) -> tuple[Browser, Shown]:
    """A person at the page of usage."""
    browser = await browser_of(person)
    return browser, await browser.open(f"projects/{project_id}/usage")


def ways(page: Shown) -> dict[str, ShownForm]:
    """The forms that lead to the provider, by the end of their address."""
    forms = [one for one in page.forms if "/usage/" in one.action]
    return {one.action.rpartition("/")[2]: one for one in forms}


async def test_the_way_to_the_payment_page_and_to_the_portal(world: World, provider: FakePayments):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    browser, page = await at_usage(owner, project_id)
    assert ways(page).keys() == {"checkout"}
    left = await browser.send(ways(page)["checkout"])
    [address] = [link for link in left.page.links if link.startswith(f"{provider.url}/pay/cs_")]
    assert 'rel="noreferrer"' in left.html
    assert [one["client_reference_id"] for one in provider.sent(SESSIONS)] == [owner.user_id]
    again = await browser.send(ways(page)["checkout"])
    assert address in again.page.links, "a form sent twice makes one page"
    await tell(world, UPDATED, subscription(new_id(), user_id=owner.user_id, until=1_999_999_999), 100)
    page = await browser.open(f"projects/{project_id}/usage")
    assert "Paid until" in page.text
    left = await browser.send(ways(page)["portal"])
    assert [link for link in left.page.links if link.startswith(f"{provider.url}/portal/")]


async def test_a_member_pays_for_their_own_account(world: World, provider: FakePayments):
    """Whatever project stands in the address: none of another is charged, seen or named."""
    owner = await world.sign_in()
    project_id = (await owner.create_project("Secret name"))["id"]
    member = await Members(project_id).join(world, owner)
    browser, page = await at_usage(member, project_id)
    form = ways(page)["checkout"]
    await browser.send(form)
    assert [one["client_reference_id"] for one in provider.sent(SESSIONS)] == [member.user_id]
    stranger = await browser_of(await world.sign_in())
    fields = {**dict(form.fields), "_csrf": (await stranger.open("again")).forms[0].value("_csrf"), "_back": ""}
    theirs = await stranger.post(form.action, [*fields.items(), ("_key", "another")])
    assert "Secret name" not in theirs.html


async def test_what_the_provider_does_wrong_stands_on_the_page(world: World, provider: FakePayments):
    """Its failure as a problem without its secrets, and no address that is none as a link."""
    owner = await world.sign_in()
    browser, page = await at_usage(owner, (await owner.create_project())["id"])
    form = ways(page)["checkout"]
    refused = await browser.send(form, 400, plan="free")
    assert "was not carried out" in refused.text
    assert provider.calls == []
    provider.fail[SESSIONS] = 500
    failed = await browser.send(form, 503)
    assert "was not carried out" in failed.text
    assert KEY not in failed.html
    assert ways(failed).keys() == {"checkout"}, "and it can be tried again"
    provider.fail.clear()
    provider.answer_as[SESSIONS] = {"id": "cs_1", "object": "checkout.session", "url": "javascript:alert(1)"}
    [fresh] = ways(await browser.open(page.address.partition("/console/")[2])).values()
    answer = await world.client.post(
        fresh.action,
        data=dict(fresh.fields),
        headers={"cookie": f"service_session={browser.secret}", "origin": browser.origin},
    )
    assert 'href="javascript:' not in answer.text
