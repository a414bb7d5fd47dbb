"""The onboarding in the console: its states, its forms, and decisions that were overtaken."""

from __future__ import annotations

import copy
import json
import re
from html import unescape
from typing import Any

import pytest

from service.accounts.membership import set_member
from statemachines.accounts.membership import Role
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Browser, browser_of
from tests.support.members import Members
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import plan_body, snapshot_body, target

pytestmark = pytest.mark.shares_server

SNAPSHOT = json.dumps(snapshot_body("d" * 40, "e" * 64))


async def opened(world: World) -> tuple[Onboarding, Browser, str]:
    """A project, its owner's browser, and the place of its onboarding."""
    onboarding = await onboard(world)
    return onboarding, await browser_of(onboarding.owner), f"projects/{onboarding.project_id}/onboarding"


def other_plan() -> dict[str, Any]:
    return {**copy.deepcopy(plan_body()), "business_question": "How many come back?"}


async def test_from_the_empty_state_to_the_receipt(world: World) -> None:
    """A person walks all states by the forms of the pages, and the product proves the plan."""
    onboarding, browser, place = await opened(world)
    empty = await browser.open(place)
    assert "There is no plan yet" in empty.text
    assert onboarding.project_id in empty.text
    planned = await browser.send(empty.form("start_onboarding"), **{"plan:json": json.dumps(plan_body())})
    state = ok(await onboarding.read())
    assert state["status"] == "planned"
    assert state["plan_sha256"] in planned.text
    for words in ("How many visitors pay?", "order_paid", "src/pay.py", "payments.add(payment)", "Safe to provoke"):
        assert words in planned.text, words
    assert f"/console/{place}" in (await browser.open("")).page.links, "the list of projects tells that a plan waits"
    approve = planned.form("review_onboarding", decision="approve")
    assert (approve.value("plan_sha256"), approve.value("_if_match")) == (state["plan_sha256"], state["etag"])
    approved = await browser.send(approve)
    assert f"/console/{place}" not in (await browser.open("")).page.links
    assert "Start the proof" in approved.text
    kept = await browser.send(own(approved, "proof"), **{"implementation_source_snapshot:json": SNAPSHOT})
    assert "shown once" in kept.text
    values = [value for value in kept.html.split('"') if value.startswith("service_onboarding_")]
    assert values
    proving = await browser.open(place)
    assert "Not verified yet" in proving.text
    lacking = await browser.send(own(proving, "verify"))
    assert "Missing" in lacking.text
    assert "No workflow is bound, and there is no live CI credential." in lacking.text
    assert (await onboarding.read()).json()["status"] == "proving"
    begun = ok(await onboarding.prove((await onboarding.read()).json()), 201)
    again = await browser.open(place)
    await onboarding.send_event(begun, "order_created", order_kind="book")
    await onboarding.send_event(begun, "order_paid", amount=12)
    part = await browser.send(own(again, "verify"))
    assert "Seen, but never with currency" in part.text
    await onboarding.exercise(begun)
    verified = await browser.send(own(part, "verify"))
    assert "The source is verified since" in verified.text
    assert "Seen 1 time" in verified.text
    assert "Evidence Our own records" in verified.text
    assert ok(await onboarding.read())["status"] == "verified"


def own(page: Any, name: str) -> Any:
    """The form of a page that goes to an address of its own."""
    [found] = [form for form in page.forms if form.action.endswith(f"/onboarding/{name}")]
    return found


async def test_a_plan_is_shown_whole_before_its_button(world: World) -> None:
    """With texts longer than what is rendered as Markdown, and as many parts as fit."""
    onboarding, browser, place = await opened(world)
    plan = plan_body()
    plan["plan_markdown"] = "".join(f"- Step {number} of the plan\n" for number in range(500))
    [first, *_] = plan["milestones"]
    plan["milestones"] = [
        {**first, "event": f"event_{number}", "meaning": f"Meaning {number}.", "targets": [target(f"src/{number}.ts")]}
        for number in range(60)
    ]
    ok(await onboarding.start(plan), 201)
    html = (await browser.open(place)).html
    before = unescape(re.sub(r"<[^>]+>", "", html.partition("Approve this plan")[0]))
    assert [text for text in texts_of(plan) if text not in before] == []
    assert "Step 499 of the plan" in before


def texts_of(value: Any) -> list[str]:
    """Every line of every text in a value."""
    if isinstance(value, dict):
        return texts_of([*value.values()])
    if isinstance(value, list):
        return [text for one in value for text in texts_of(one)]
    return [line.removeprefix("- ") for line in value.splitlines()] if isinstance(value, str) else []


async def test_the_markers_are_not_shown_again(world: World) -> None:
    onboarding, browser, place = await opened(world)
    await onboarding.to_approved()
    kept = await browser.send(
        own(await browser.open(place), "proof"), **{"implementation_source_snapshot:json": SNAPSHOT}
    )
    again = await browser.send(own(await browser.open(place), "proof"))
    assert kept.html != again.html
    later = await browser.open(place)
    for page in (kept, again):
        secrets = {part for part in page.text.split() if len(part) > 30 and part not in later.text}
        assert secrets, page.text
    changed = json.dumps(snapshot_body("f" * 40, "e" * 64))
    refused = await browser.send(own(later, "proof"), 409, **{"implementation_source_snapshot:json": changed})
    assert "another source snapshot" in refused.text
    assert "f" * 40 in refused.html


async def test_two_owners_approve_at_once(world: World) -> None:
    onboarding, browser, place = await opened(world)
    second = await browser_of(await Members(onboarding.project_id).join(world, onboarding.owner, "owner"))
    ok(await onboarding.start(plan_body()), 201)
    forms = [(one, (await one.open(place)).form("review_onboarding", decision="approve")) for one in (browser, second)]
    assert "Start the proof" in (await browser.send(forms[0][1])).text
    late = await second.send(forms[1][1], 412)
    assert "This page was out of date" in late.text
    assert "planned" in late.text
    assert "approved" in late.text
    assert ok(await onboarding.read())["revision"] == 2


async def test_a_replaced_plan_is_never_approved_by_the_other_hash(world: World) -> None:
    """The page says what has changed; the form on it is for the plan it shows, and nothing has been approved."""
    onboarding, browser, place = await opened(world)
    first = ok(await onboarding.start(plan_body()), 201)
    form = (await browser.open(place)).form("review_onboarding", decision="approve")
    second = ok(await onboarding.replace(first, other_plan()))
    late = await browser.send(form, 412)
    assert first["plan_sha256"] in late.text
    assert second["plan_sha256"] in late.text
    assert late.form("review_onboarding", decision="approve").value("plan_sha256") == second["plan_sha256"]
    forged = await browser.send(form, 409, _if_match=second["etag"])
    assert "another plan" in forged.text
    assert ok(await onboarding.read())["status"] == "planned"


async def test_a_plan_is_replaced_and_a_bad_one_keeps_its_text(world: World) -> None:
    onboarding, browser, place = await opened(world)
    ok(await onboarding.start(plan_body()), 201)
    form = (await browser.open(place)).form("review_onboarding", decision="replace")
    assert json.loads(form.value("replacement_plan:json")) == plan_body()
    bad = {**plan_body(), "milestones": []}
    refused = await browser.send(form, 400, **{"replacement_plan:json": json.dumps(bad)})
    assert "replacement_plan.milestones" in refused.text
    kept = refused.form("review_onboarding", decision="replace")
    assert json.loads(kept.value("replacement_plan:json")) == bad
    broken = await browser.send(form, 400, **{"replacement_plan:json": "{"})
    assert "is no JSON" in broken.text
    replaced = await browser.send(form, **{"replacement_plan:json": json.dumps(other_plan())})
    assert "How many come back?" in replaced.text
    assert ok(await onboarding.read())["status"] == "planned"


async def test_a_hostile_plan_is_text(world: World) -> None:
    onboarding, browser, place = await opened(world)
    plan = plan_body()
    plan["plan_markdown"] = (
        "<script>alert(1)</script>\n\n[press](javascript:alert(2)) ![seen](https://evil.example/x.png)\n\n"
        '<img src=x onerror=alert(3)>\n\n[go](https://evil.example/)\n\n<a href="data:text/html,x">y</a>\n\n# Head'
    )
    plan["business_question"] = '"><img src=x onerror=alert(4)> \u202egnp'
    plan["milestones"][0]["meaning"] = "<iframe src=//evil.example></iframe>"
    plan["milestones"][0]["targets"][0]["anchor"] = "{{ 7 * 7 }} ${x} <svg onload=alert(5)>"
    ok(await onboarding.start(plan), 201)
    page = await browser.open(place)
    for tag in ("<script>alert", "<img", "<iframe", "<svg onload", '<a href="javascript:', '<a href="data:'):
        assert tag not in page.html.partition("<main")[2], tag
    assert 'rel="noopener noreferrer"' in page.html
    assert "{{ 7 * 7 }}" in page.html


async def test_members_see_the_approved_plan_and_strangers_nothing(world: World) -> None:
    onboarding, browser, place = await opened(world)
    members = Members(onboarding.project_id)
    member = await browser_of(await members.join(world, onboarding.owner))
    reader = await world.sign_in()
    await world.operate(lambda store: set_member(store, onboarding.project_id, reader.user_id, Role.AUDITOR))
    auditor = await browser_of(reader)
    assert "No plan is approved yet" in (await member.open(place)).text
    form = (await browser.open(place)).form("start_onboarding")
    refused = await member.forge(form, **{"plan:json": json.dumps(plan_body())})
    assert "reserved for" in refused.text
    await onboarding.to_approved()
    page = await member.open(place)
    assert "You see the approved plan" in page.text
    assert "order_paid" in page.text
    assert [one.action for one in page.forms if "onboarding" in one.action] == []
    seen = await auditor.open(place)
    assert "order_paid" in seen.text
    assert [one.action for one in seen.forms if "onboarding" in one.action] == []
    stranger = await browser_of(await world.sign_in())
    theirs, none = await stranger.open(place, 404), await stranger.open("projects/proj_none0000/onboarding", 404)
    assert theirs.text == none.text.replace("proj_none0000", onboarding.project_id)
