"""The list of projects, the overview of one, and its deletion."""

from __future__ import annotations

import re

import pytest

from tests.support.api import Person, World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.auditing import auditor_of
from tests.support.console import browser_of, shown
from tests.support.members import Members

pytestmark = pytest.mark.shares_server

HOSTILE = "<script>alert(1)</script>"


async def _with_data(world: World, owner: Person) -> str:
    made = await owner.create_project("Shop")
    sender = world.having(made["dsn"])
    ok(await sender.post("/v1/logs/", {"message": f"{HOSTILE} \u202ereversed", "level": "error"}), 202)
    ok(await sender.post("/v1/analytics/", {"event": "signup", "distinct_id": "u"}), 202)
    ok(await sender.post("/v1/deploys/", {"version": f"1-{HOSTILE}", "environment": "production"}), 202)
    return str(made["id"])


async def test_the_list_says_how_each_project_stands(world: World):
    owner = await world.sign_in()
    project_id = await _with_data(world, owner)
    quiet = (await owner.create_project("Quiet"))["id"]
    page = await (await browser_of(owner)).open("")
    assert f"/console/projects/{project_id}" in page.page.links
    assert f"/console/projects/{quiet}/cases" in page.page.links
    assert "nothing yet" in page.text
    assert "no contract" in page.text
    assert "Events of your account this month, plan Free" in page.text
    assert "3 of 100" in page.text


async def test_the_list_has_pages(world: World):
    owner = await world.sign_in()
    for number in range(21):
        await owner.create_project(f"Product {number}")
    browser = await browser_of(owner)
    first = await browser.open("")
    [more] = [link for link in first.page.links if link.startswith("?cursor=")]
    assert "Product 20" in first.text
    assert "Product 0 " not in first.text
    headers = {"cookie": f"service_session={browser.secret}"}
    assert "Product 0 " in shown(await world.client.get(f"/console{more}", headers=headers)).text


async def test_an_overview_shows_what_arrives_and_what_is_next(world: World):
    owner = await world.sign_in()
    project_id = await _with_data(world, owner)
    page = await (await browser_of(owner)).open(f"projects/{project_id}")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
    assert HOSTILE not in page.html
    assert page.html.count('class="deploy"') == 3, "a mark in each plot, and its key"
    marks = re.findall(rf'<a class="to-deploy" href="/console/(projects/{project_id}/deploys/\w+)"', page.html)
    assert len(marks) == 2
    assert "&lt;script&gt;" in (await (await browser_of(owner)).open(marks[0])).html
    assert page.html.count("<li>2</li><li>1</li><li>0</li>") == 2, "the scale of both"
    assert [name for level, name in page.page.headings if level == "h2"][-3:] == ["Open cases", "Next steps", "Facts"]
    assert "Plan what to measure" in page.text
    assert f"/console/projects/{project_id}/delete" in page.page.links
    assert not [one for one in page.forms if "pause_automation_contract" in one.action], "nothing is enabled"


async def test_roles_are_told_what_they_may_do(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project())["id"]
    rules = await (await browser_of(owner)).open(f"projects/{project_id}/suppressions?pattern=x")
    stop = rules.form("create_suppression")._replace(action="/console/do/pause_automation_contract")
    member = await browser_of(await Members(project_id).join(world, owner))
    auditor = await auditor_of(world, project_id)
    assert "You are a member here" in (await member.open(f"projects/{project_id}")).text
    page = await auditor.open(f"projects/{project_id}")
    assert "You are an auditor here" in page.text
    assert f"/console/projects/{project_id}/delete" not in page.page.links
    assert stop.action not in {form.action for form in page.forms}
    refused = await auditor.forge(stop)
    assert "This was not carried out" in refused.text


async def test_a_project_is_deleted_by_its_name_alone(world: World):
    owner = await world.sign_in()
    name = "Shop <b>"
    project_id = (await owner.create_project(name))["id"]
    browser = await browser_of(owner)
    page = await browser.open(f"projects/{project_id}/delete")
    [form] = [one for one in page.forms if one.action.endswith("/delete")]
    wrong = await browser.send(form, 400, name="shop")
    assert "is not the name of this project" in wrong.text
    assert 'value="shop"' in wrong.html
    begun = await browser.send(form, name=name)
    assert "being deleted" in begun.text or "is deleted" in begun.text
    for _ in range(50):
        again = [one for one in begun.forms if one.action.endswith("/delete")]
        assert ('hx-trigger="every 3s"' in begun.html) is bool(again), "it looks again by itself, until the end"
        if not again:
            break
        await world.wait(2)
        begun = await browser.send(again[0])
    assert "The project is deleted. Keep this receipt." in begun.text
    assert (await owner.get("/v1/projects")).json()["projects"] == []
    await browser.open(f"projects/{project_id}/delete", 404)


async def test_only_owners_delete(world: World):
    owner = await world.sign_in()
    project_id = (await owner.create_project("Shop"))["id"]
    auditor = await auditor_of(world, project_id)
    page = await (await browser_of(owner)).open(f"projects/{project_id}/delete")
    [form] = [one for one in page.forms if one.action.endswith("/delete")]
    theirs = await auditor.open(f"projects/{project_id}/delete")
    assert "Only owners can delete a project" in theirs.text
    assert form.action not in {one.action for one in theirs.forms}
    await auditor.forge(form, name="Shop")
    assert len((await owner.get("/v1/projects")).json()["projects"]) == 1
    stranger = await browser_of(await world.sign_in())
    theirs = await stranger.open(f"projects/{project_id}/delete", 404)
    assert theirs.text == (await stranger.open("projects/proj_none1/delete", 404)).text
