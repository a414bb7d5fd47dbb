"""Saved views in the console, over HTTP: saved from a filter, opened, changed and removed."""

from __future__ import annotations

import re
from html import unescape

import pytest

from statemachines.accounts.membership import Role
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.erring import HOSTILE, SCRIPT, erring_shop

pytestmark = pytest.mark.shares_server


async def test_a_filter_of_cases_becomes_a_view(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err("card", tags={"team": SCRIPT}, user={"id": HOSTILE})
    other_id = await shop.err("cart")
    filtered = await shop.browser.open(f"projects/{shop.id}/cases?tag=team%3D{SCRIPT.replace('/', '%2F')}&seen=day")
    assert case_id in filtered.html
    assert other_id not in filtered.html
    link = re.search(r'href="/console/(projects/[^"]*/views\?[^"]*)#save"', filtered.html)
    assert link is not None
    page = await shop.browser.open(unescape(link[1]))
    form = page.form("save_case_view")
    assert (form.value("filter.tag"), form.value("filter.seen_within")) == (f"team={SCRIPT}", "86400")
    refused = await shop.browser.send(form, 400, name="\u202e")
    assert refused.form("save_case_view").value("filter.tag") == f"team={SCRIPT}"
    made = await shop.browser.send(form, name=SCRIPT)
    assert "The view is saved." in made.text
    assert "<script>alert" not in made.html
    [place] = re.findall(r'href="/console/(projects/[^"]*/cases\?view=[^"]*)"', made.html)
    opened = await shop.browser.open(place)
    assert case_id in opened.html
    assert other_id not in opened.html
    assert "<script>alert" not in opened.html

    [edit] = re.findall(r'href="/console/(projects/[^"]*/views/view_[^"]*)"', made.html)
    shown = await shop.browser.open(edit)
    assert "1 case" in shown.text
    form = shown.form("change_case_view")
    changed = await shop.browser.send(form, **{"name": "All", "filter.tag": "", "filter.status": "all"})
    assert "The view is changed." in changed.text
    assert "2 cases" in changed.text
    stale = await shop.browser.send(form, 412, _key="another", name="Other")
    assert "has changed since" in stale.text
    gone = await shop.browser.send(changed.form("remove_case_view"))
    assert "The view is removed." in gone.text
    assert "No view yet" in gone.text
    await shop.browser.open(place, 404)


async def test_all_cases_of_a_view_are_previewed_and_acted_on(world: World):
    shop = await erring_shop(world)
    first, second = await shop.err(SCRIPT), await shop.err("card")
    made = ok(await shop.owner.post(f"/v1/projects/{shop.id}/case-views", {"name": "All", "filter": {}}), 201)
    place = f"projects/{shop.id}/views/{made['view_id']}"
    page = await shop.browser.open(f"{place}?action=resolve")
    assert "2 would move, 0 stay as they are, and 0 would be refused" in page.text
    assert "<script>alert" not in page.html
    [form] = [one for one in page.forms if one.action.endswith("/cases/batch")]
    ok(await shop.owner.post(f"/v1/cases/{first}/ignore", {"case_revision": 1}))
    done = await shop.browser.send(form)
    assert "1 case resolved. 0 stayed as they were, 1 was refused." in done.text
    assert "The case has changed since you read it." in done.text
    assert [(await shop.case(one))["status"] for one in (first, second)] == ["ignored", "resolved"]
    assert "1 case resolved" in (await shop.browser.send(form)).text  # sent twice, carried out once
    await shop.browser.send(form, 400, cases="[")
    await shop.browser.send(form, 400, cases="[]", _key="other")

    assigned = await shop.browser.open(f"{place}?action=assign")
    assert "0 cases" in assigned.text
    await shop.err("cart")
    [form] = [
        one for one in (await shop.browser.open(f"{place}?action=assign")).forms if one.action.endswith("/cases/batch")
    ]
    assert "1 case assigned" in (await shop.browser.send(form, user_id=shop.owner.user_id)).text


async def test_a_span_that_a_program_has_saved_stays(world: World):
    shop = await erring_shop(world)
    body = {"name": "Lately", "filter": {"seen_within": 7_000, "order": "errors", "person": "u-1"}}
    made = ok(await shop.owner.post(f"/v1/projects/{shop.id}/case-views", body), 201)
    page = await shop.browser.open(f"projects/{shop.id}/views/{made['view_id']}")
    assert page.form("change_case_view").value("filter.seen_within") == "7000"
    assert "Most errors" not in page.text
    await shop.browser.send(page.form("change_case_view"), name="Latest")
    [view] = ok(await shop.owner.get(f"/v1/projects/{shop.id}/case-views"))["views"]
    assert (view["name"], view["filter"]["seen_within"], view["filter"]["order"]) == ("Latest", 7_000, "errors")
    assert (await shop.browser.open(f"projects/{shop.id}/cases?view={made['view_id']}")).html


async def test_views_keep_to_their_project_and_role(world: World):
    shop, other = await erring_shop(world), await erring_shop(world)
    made = ok(await other.owner.post(f"/v1/projects/{other.id}/case-views", {"name": "x", "filter": {}}), 201)
    _, auditor = await other.join(Role.AUDITOR)
    for place in ("views", f"views/{made['view_id']}"):
        foreign = await shop.browser.open(f"projects/{other.id}/{place}", 404)
        assert foreign.text == (await shop.browser.open(f"projects/proj_none1/{place}", 404)).text
        page = await auditor.open(f"projects/{other.id}/{place}")
        assert not [form for form in page.forms if "case_view" in form.action]
    await shop.browser.open(f"projects/{shop.id}/views/{made['view_id']}", 404)
    await shop.browser.open(f"projects/{shop.id}/cases?view={made['view_id']}", 404)
