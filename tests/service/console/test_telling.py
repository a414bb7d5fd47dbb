"""Webhooks, alerts, public queries, and usage."""

from __future__ import annotations

import re

import pytest

from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.auditing import auditor_of
from tests.support.console import browser_of

pytestmark = pytest.mark.shares_server


async def test_a_webhook_from_its_creation_to_its_end(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    browser, place = await browser_of(owner), f"projects/{project_id}/webhooks"
    page = await browser.open(place)
    again = await browser.send(page.form("create_webhook"), 400, url="nonsense", description="<b>mine</b>")
    assert again.form("create_webhook").value("url") == "nonsense"
    made = await browser.send(
        page.form("create_webhook"), url="https://receiver.example/hook", description="<b>mine</b>"
    )
    assert "whsec_" in made.html
    assert "&lt;b&gt;mine&lt;/b&gt;" in (await browser.open(place)).html
    [hook] = ok(await owner.get(f"/v1/projects/{project_id}/webhooks"))["webhooks"]
    page = await browser.open(f"{place}/{hook['id']}")
    page = await browser.send(page.form("change_webhook", enabled="false"))
    assert "paused" in page.text
    page = await browser.send(page.form("change_webhook", enabled="true"))
    changed = await browser.send(page.form("change_webhook", url=hook["url"]), description="ours")
    assert 'value="ours"' in changed.html
    assert "whsec_" in (await browser.send(changed.form("rotate_webhook_secret"))).html
    await browser.open(f"{place}/{hook['id']}?status=failed")
    await browser.open(f"{place}/wh_none1", 404)
    auditor = await auditor_of(world, project_id)
    await auditor.forge(changed.form("delete_webhook"))
    await browser.send(changed.form("delete_webhook"))
    assert ok(await owner.get(f"/v1/projects/{project_id}/webhooks"))["webhooks"] == []


async def test_a_destination_and_a_rule_from_their_creation_to_their_end(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    browser, place = await browser_of(owner), f"projects/{project_id}/notifications"
    page = await browser.open(place)
    wish = {"kind": "discord", "url": "https://chat.example/hidden-part", "name": "<b>ours</b>"}
    await browser.send(page.form("add_notification_destination"), **wish)
    page = await browser.open(place)
    assert "&lt;b&gt;ours&lt;/b&gt;" in page.html
    assert "hidden-part" not in page.html
    [one] = ok(await owner.get(f"/v1/projects/{project_id}/notifications"))["destinations"]
    assert one["kind"] == "discord"
    page = await browser.open(f"{place}/{one['id']}")
    quiet = {"quiet_hours.begins": "22:00", "quiet_hours.ends": "07:00", "quiet_hours.timezone": "Europe/Berlin"}
    page = await browser.send(page.form("set_notification_rule"), **{"events[]": "run.ended", **quiet})
    [one] = ok(await owner.get(f"/v1/projects/{project_id}/notifications"))["destinations"]
    assert one["rule"]["events"] == ["run.ended"]
    assert one["rule"]["quiet_hours"]["timezone"] == "Europe/Berlin"
    page = await browser.send((await browser.open(f"{place}/{one['id']}")).form("remove_notification_rule"))
    auditor = await auditor_of(world, project_id)
    await auditor.forge(page.form("delete_notification_destination"))
    await browser.open(f"{place}/dest_none1", 404)
    await browser.send(page.form("delete_notification_destination"))
    assert ok(await owner.get(f"/v1/projects/{project_id}/notifications"))["destinations"] == []


async def test_an_alert_is_previewed_created_evaluated_and_deleted(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    ok(await world.having(made["dsn"]).post("/v1/analytics/", {"event": "signup", "distinct_id": "u"}), 202)
    browser, place = await browser_of(owner), f"projects/{made['id']}/alerts"
    page = await browser.open(f"{place}?blueprint=event-count")
    form = page.form("create_alert")
    wanted = {"params.event": "signup", "threshold_value": "1", "name": "<b>any signup</b>"}
    shown = await browser.send(form._replace(action=f"/console/{place}"), **wanted)
    assert "It would have triggered at" in shown.text
    assert shown.form("create_alert").value("params.event") == "signup"
    again = await browser.send(form, 400, **{**wanted, "threshold_value": "much"})
    assert again.form("create_alert").value("threshold_value") == "much"
    listed = await browser.send(form, **wanted)
    assert "&lt;b&gt;any signup&lt;/b&gt;" in listed.html
    assert "triggered" in (await browser.send(listed.form("evaluate_alert"))).text
    assert "No alert watches" in (await browser.send(listed.form("delete_alert"))).text


async def test_a_number_is_published_and_withdrawn(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    browser, place = await browser_of(owner), f"projects/{project_id}/public-queries"
    form = (await browser.open(f"{place}?blueprint=top-events")).form("create_public_query")
    made = await browser.send(form, title="<b>top</b>")
    assert "agp_" in made.html
    listed = await browser.open(place)
    assert "&lt;b&gt;top&lt;/b&gt;" in listed.html
    assert "Nothing of this project is public" in (await browser.send(listed.form("delete_public_query"))).text


async def test_what_is_published_is_read_by_anybody_until_it_is_withdrawn(world: World):
    """By its address alone, and with its key; no other key, and nothing from the moment of the withdrawal on."""
    owner = await world.sign_in()
    made = await owner.create_project()
    ok(await world.having(made["dsn"]).post("/v1/analytics/", {"event": "signup", "distinct_id": "u"}), 202)
    browser, place = await browser_of(owner), f"projects/{made['id']}/public-queries"
    form = (await browser.open(f"{place}?blueprint=event-count")).form("create_public_query")
    kept = await browser.send(form, 400, **{"params.event": "signup", "cache_seconds": "soon"})
    assert kept.form("create_public_query").value("cache_seconds") == "soon"
    assert kept.form("create_public_query").value("params.event") == "signup"
    shown = await browser.send(form, **{"params.event": "signup", "title": "Signups"})
    [key] = set(re.findall(r"agp_[0-9A-Za-z_-]{32}", shown.html))
    twice = await browser.send(form, **{"params.event": "signup", "title": "Signups"})
    assert key not in twice.html, "shown once"
    listed = await browser.open(place)
    assert key not in listed.html
    [address] = [link for link in listed.page.links if "/v1/public/q/" in link]
    for secret in (None, key):
        assert ok(await world.having(secret).get(address))["rows"] == [{"row_count": 1, "unique_users": 1}]
    refused(await world.having("agp_" + "x" * 32).get(address), 401, "invalid_publishable_key")
    withdrawn = await browser.send(listed.form("delete_public_query"))
    assert "Nothing of this project is public" in withdrawn.text
    for secret in (None, key):
        refused(await world.having(secret).get(address), 404, "publication_not_found")
    auditor = await auditor_of(world, made["id"])
    page = await auditor.open(place)
    assert not [one for one in page.forms if one.action.endswith("_public_query")]


async def test_usage_stands_against_the_plan(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    ok(await world.having(made["dsn"]).post("/v1/analytics/", {"event": "signup", "distinct_id": "u"}), 202)
    page = await (await browser_of(owner)).open(f"projects/{made['id']}/usage")
    assert "within the plan" in page.text
    assert "1 of 100" in page.text
    assert "Your account in the last 60 days" in page.text
