"""The list of cases and its bulk actions, over HTTP."""

from __future__ import annotations

import pytest

from statemachines.accounts.membership import Role
from tests.support.api import World
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Browser, Shown, browser_of
from tests.support.erring import HOSTILE, SCRIPT, ErringShop, erring_shop

pytestmark = pytest.mark.shares_server


def several(page: Shown, project_id: str) -> list[tuple[str, str]]:
    """The fields of the form for several cases, none of them chosen yet."""
    [form] = [one for one in page.forms if one.action == f"/console/projects/{project_id}/cases/several"]
    return [pair for pair in form.fields if pair[0] != "user_id"]


async def act(browser: Browser, shop: ErringShop, deed: str, *chosen: str, status: int = 200, **more: str) -> Shown:
    """Do something to the chosen cases of the list."""
    page = await browser.open(f"projects/{shop.id}/cases?status=all")
    fields = [*several(page, shop.id), ("deed", deed), *(("chosen", one) for one in chosen), *more.items()]
    return await browser.post(f"/console/projects/{shop.id}/cases/several", fields, status)


async def test_a_list_without_cases_says_how_to_send_the_first(world: World):
    shop = await erring_shop(world)
    page = await shop.browser.open(f"projects/{shop.id}/cases")
    assert "No open case" in page.text
    assert "curl" in page.text
    assert "/v1/logs/" in page.text


async def test_cases_are_listed_filtered_and_paged(world: World):
    shop = await erring_shop(world)
    first = await shop.err("Alpha broke", environment="staging", release="r1", user={"id": "u1"})
    second = await shop.err("Beta broke", environment="production", release="r2", level="fatal")
    place = f"projects/{shop.id}/cases"
    everything = await shop.browser.open(place)
    assert first in everything.html
    assert second in everything.html
    for query, found in [
        ("environment=staging", first),
        ("release=r2", second),
        ("text=beta", second),
        ("seen=hour&text=alpha", first),
        ("status=all&environment=production", second),
    ]:
        page = await shop.browser.open(f"{place}?{query}")
        assert found in page.html, query
        assert ({first, second} - {found}).pop() not in page.html, query
    for query in ("status=resolved", "environment=none", "trust=synthetic"):
        assert "No case fits" in (await shop.browser.open(f"{place}?{query}")).text
    third = await shop.err("Gamma broke")
    page = await shop.browser.open(f"{place}?limit=2")
    assert page.html.count('name="chosen"') == 2
    [after] = [part.partition('"')[0] for part in page.html.split('class="button" href="?')[1:]]
    rest = await shop.browser.open(f"{place}?{after.replace('&amp;', '&')}")
    assert rest.html.count('name="chosen"') == 1
    assert {one for one in (first, second, third) if one in page.html + rest.html} == {first, second, third}


async def test_an_order_is_kept_from_page_to_page_and_through_a_bulk_form(world: World):
    shop = await erring_shop(world)
    sent = {"Alpha broke": 2, "Beta broke": 3, "Gamma broke": 1}
    ids = [await shop.err(title) for title, errors in sent.items() for _ in range(errors)]
    by_errors = [ids[2], ids[0], ids[5]]
    place = f"projects/{shop.id}/cases?order=errors&text=broke&limit=2"
    page = await shop.browser.open(place)
    assert [one for one in page.html.split('"') if one.startswith("c-case_")] == [f"c-{one}" for one in by_errors[:2]]
    assert "most errors first" in page.text
    assert '<option value="errors" selected>' in page.html
    assert "order=errors" in dict(several(page, shop.id))["_next"]
    [after] = [part.partition('"')[0] for part in page.html.split('class="button" href="?')[1:]]
    rest = await shop.browser.open(f"projects/{shop.id}/cases?{after.replace('&amp;', '&')}")
    assert [one for one in rest.html.split('"') if one.startswith("c-case_")] == [f"c-{by_errors[2]}"]
    assert '<option value="errors" selected>' in rest.html
    for order, words in (
        ("last_seen", "last error first"),
        ("people", "most people first"),
        ("newest", "newest first"),
    ):
        shown = await shop.browser.open(f"projects/{shop.id}/cases?order={order}")
        assert words in shown.text
        assert all(one in shown.html for one in by_errors)


async def test_a_filter_that_is_not_taken_is_told(world: World):
    shop = await erring_shop(world)
    for query in (
        "status=closed",
        "environment=" + "x" * 101,
        "cursor=none",
        "since=yesterday",
        "limit=201",
        "order=x",
    ):
        page = await shop.browser.open(f"projects/{shop.id}/cases?{query}", 400)
        assert "This page cannot be shown" in page.text


async def test_several_cases_are_acted_on_one_by_one(world: World):
    shop = await erring_shop(world)
    stale, fresh = await shop.err("Alpha broke"), await shop.err("Beta broke")
    await shop.owner.post(f"/v1/cases/{stale}/resolve", {"case_revision": 1})
    page = await act(shop.browser, shop, "ignore", f"{stale} 1", f"{fresh} 1")
    assert "1 of 2 cases ignored. 1 was refused" in page.text
    assert "The case has changed since you read it." in page.text
    assert [(await shop.case(one))["status"] for one in (stale, fresh)] == ["resolved", "ignored"]
    page = await act(shop.browser, shop, "reopen", f"{stale} 2", f"{fresh} 2")
    assert "2 of 2 cases reopened." in page.text
    page = await act(shop.browser, shop, "assign", f"{stale} 3", user_id=shop.owner.user_id)
    assert "1 of 1 case assigned." in page.text
    assert (await shop.case(stale))["assignee"] == shop.owner.user_id
    await act(shop.browser, shop, "assign", f"{stale} 3", user_id="")
    assert (await shop.case(stale))["assignee"] is None


async def test_a_bulk_form_sent_twice_is_carried_out_once(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    page = await shop.browser.open(f"projects/{shop.id}/cases")
    fields = [*several(page, shop.id), ("deed", "resolve"), ("chosen", f"{case_id} 1")]
    for _ in range(2):
        done = await shop.browser.post(f"/console/projects/{shop.id}/cases/several", fields)
        assert "1 of 1 case resolved." in done.text
    assert (await shop.case(case_id))["revision"] == 2


async def test_a_bulk_form_that_means_nothing_is_refused(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    for deed, chosen in [
        ("delete", [f"{case_id} 1"]),
        ("resolve", []),
        ("resolve", [case_id]),
        ("resolve", [f"{case_id} x"]),
        ("resolve", [f"case_{number} 1" for number in range(51)]),
    ]:
        page = await act(shop.browser, shop, deed, *chosen, status=400)
        assert "This was not carried out" in page.text
        assert case_id in page.html
    assert (await shop.case(case_id))["status"] == "open"


async def test_cases_of_others_are_none(world: World):
    shop, other = await erring_shop(world), await erring_shop(world)
    theirs, _ = await other.err(), await shop.err()
    page = await act(shop.browser, shop, "resolve", f"{theirs} 1", "case_none 1")
    assert "0 of 2 cases resolved. 2 were refused" in page.text
    assert (await other.case(theirs))["status"] == "open"
    foreign = await shop.browser.open(f"projects/{other.id}/cases", 404)
    assert foreign.text == (await shop.browser.open("projects/proj_none1/cases", 404)).text


async def test_an_auditor_reads_and_changes_nothing(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    _, reader = await shop.join(Role.AUDITOR)
    page = await reader.open(f"projects/{shop.id}/cases")
    assert case_id in page.html
    assert 'name="chosen"' not in page.html
    assert [form.action for form in page.forms if form.method == "post"] == ["/console/leave"]
    owners = await shop.browser.open(f"projects/{shop.id}/cases")
    [form] = [one for one in owners.forms if one.action.endswith("/cases/several")]
    page = await reader.forge(form, 200, deed="resolve", chosen=f"{case_id} 1")
    assert "0 of 1 case resolved." in page.text
    assert (await shop.case(case_id))["status"] == "open"


async def test_a_member_acts_without_seeing_the_members(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err()
    person, browser = await shop.join(Role.MEMBER)
    page = await act(browser, shop, "assign", f"{case_id} 1", user_id=person.user_id)
    assert "1 of 1 case assigned." in page.text


async def test_hostile_texts_of_a_list_are_texts(world: World):
    shop = await erring_shop(world)
    await shop.err(
        f"{HOSTILE} {'long ' * 1_500}",
        environment=SCRIPT,
        release=SCRIPT,
        extra={"exception": {"type": "W" * 190, "value": HOSTILE}},
    )
    browser = await browser_of(shop.owner)
    for query in ("", "?environment=%3Cscript%3Ealert(1)%3C/script%3E", "?text=%22%3E%3Cscript%3E+long"):
        page = await browser.open(f"projects/{shop.id}/cases{query}")
        assert "<script>alert" not in page.html
        assert "<img" not in page.html
    assert "<bdi>" in page.html
