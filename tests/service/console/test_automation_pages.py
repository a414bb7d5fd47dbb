"""The automation in the console: candidates, the editor, enabling what was shown, and stopping it."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any, NamedTuple

import pytest

from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Browser, Shown, ShownForm, browser_of
from tests.support.members import Members
from tests.support.onboarding import Onboarding, onboard
from tests.support.playbook_samples import CASE, case_bindings, entered, render_request

pytestmark = pytest.mark.shares_server


class Scene(NamedTuple):
    """A project, its owner's browser, the place of its automation, and the path of its contract."""

    onboarding: Onboarding
    browser: Browser
    place: str
    path: str

    async def contract(self) -> dict[str, Any]:
        return ok(await self.onboarding.owner.get(self.path))

    async def candidate(self, **bindings: Any) -> dict[str, Any]:
        """A contract as a render makes it."""
        body = render_request(CASE)
        body["bindings"] = {**body["bindings"], "traffic_sample_event": "order_paid", **bindings}
        path = f"/v1/projects/{self.onboarding.project_id}/automation-playbooks/{CASE}/render"
        made: dict[str, Any] = ok(await self.onboarding.owner.post(path, body))["contract_input"]
        return made

    async def save(self, document: dict[str, Any], etag: str | None = None, status: int = 200) -> dict[str, Any]:
        headers = {} if etag is None else {"if-match": etag}
        return ok(await self.onboarding.owner.call("PUT", self.path, document, headers=headers), status)


async def opened(world: World) -> Scene:
    onboarding = await onboard(world)
    project = f"projects/{onboarding.project_id}"
    browser = await browser_of(onboarding.owner)
    return Scene(onboarding, browser, f"{project}/automation", f"/v1/{project}/automation-contract")


def of(page: Shown, ending: str) -> ShownForm:
    """The form of a page that goes to an address of its own."""
    [found] = [form for form in page.forms if form.action.endswith(ending)]
    return found


def to(form: ShownForm, action: str) -> ShownForm:
    """A form sent by its button for another address."""
    return form._replace(action=f"/console/{action}")


STATED = {
    f"readiness_assertions.{name}": "true"
    for name in (
        "repository_pull_request_access_confirmed",
        "ci_proof_callback_configured",
        "deploy_ingest_configured",
    )
}


async def test_from_a_playbook_to_an_enabled_contract_and_its_stop(world: World) -> None:
    scene = await opened(world)
    onboarding, browser, place = scene.onboarding, scene.browser, scene.place
    begun = await onboarding.to_proving()
    await onboarding.exercise(begun)
    empty = await browser.open(place)
    assert "There is no contract yet" in empty.text
    form = of(await browser.open(f"{place}/playbooks/{CASE}"), f"/playbooks/{CASE}")
    bindings = {**case_bindings(), "traffic_sample_event": "order_paid"}
    shown = await browser.send(form, **entered(bindings), **STATED)
    assert "Valid" in shown.text
    assert "lines added, 0 removed" in shown.text
    assert (
        "The approved signal map has no verified source" in shown.text
        or "Missing before it can be enabled" in shown.text
    )
    editor = of(shown, "/automation/check")
    assert json.loads(editor.value(":json"))["automations"][0]["bindings"]["automation_id"] == "heal-checkout"
    saved = await browser.send(to(editor, "do/put_automation_contract"))
    contract = await scene.contract()
    assert contract["contract_sha256"] in saved.text
    assert not contract["enabled"]
    early = await browser.send(saved.form("enable_automation_contract"), 409)
    assert "Missing before it can be enabled" in early.text
    gaps = early.html.partition("What is missing")[2].partition("</table>")[0]
    assert f"/console/projects/{onboarding.project_id}/credentials" in gaps
    assert f"/console/projects/{onboarding.project_id}/onboarding" in gaps
    assert not (await scene.contract())["enabled"]
    state = ok(await onboarding.read())
    assert ok(await onboarding.verify(state))["ok"]
    runner = {"kind": "automation_runner", "name": "r", "automation_id": "heal-checkout"}
    ok(await onboarding.owner.post(f"/v1/projects/{onboarding.project_id}/credentials", runner, key="runner"))
    ready = await browser.open(place)
    assert "Everything is there that an enable needs." in ready.text
    enabled = await browser.send(ready.form("enable_automation_contract"))
    assert (await scene.contract())["enabled"]
    assert "heal-checkout, max runs per day" in enabled.text
    disabled = await browser.send(enabled.form("disable_automation"))
    assert not (await scene.contract())["enabled"]
    again = await browser.send(disabled.form("enable_automation_contract", automation_id="heal-checkout"))
    assert (await scene.contract())["enabled"]
    paused = await browser.send(again.form("pause_automation_contract", reason=""), reason="It is late.")
    assert "Paused" in paused.text
    assert (await scene.contract())["paused"]


async def test_a_contract_is_shown_whole_before_its_buttons(world: World) -> None:
    """Each member of it stands before the button that enables all, and each automation before its own."""
    scene = await opened(world)
    contract = await scene.save(await scene.candidate(name="Heal " + "x" * 50), status=201)
    html = (await scene.browser.open(scene.place)).html
    for button in ("Enable all of it, as shown", "Enable heal-checkout"):
        before = re.sub(r"\s+", "", unescape(re.sub(r"<[^>]+>", "", html.partition(button)[0])))
        for one in contract["automations"]:
            for member in ("bindings", "policy", "readiness_assertions"):
                assert one[member]
                shown = re.sub(r"\s+", "", json.dumps(one[member], ensure_ascii=False))
                assert shown in before, (button, member)


async def test_what_was_overtaken_is_not_enabled(world: World) -> None:
    """An etag overtaken enables nothing, and the page shows both hashes."""
    scene = await opened(world)
    first = await scene.save(await scene.candidate(), status=201)
    form = (await scene.browser.open(scene.place)).form("enable_automation_contract")
    assert form.value("_if_match") == first["etag"]
    second = await scene.save(await scene.candidate(name="Another"), first["etag"])
    late = await scene.browser.send(form, 412)
    assert "This page was out of date" in late.text
    assert first["contract_sha256"] in late.text
    assert second["contract_sha256"] in late.text
    assert late.form("enable_automation_contract").value("_if_match") == second["etag"]
    assert not (await scene.contract())["enabled"]


async def test_a_save_of_an_old_editor_overwrites_nothing(world: World) -> None:
    scene = await opened(world)
    first = await scene.save(await scene.candidate(), status=201)
    editor = of(await scene.browser.open(f"{scene.place}/edit"), "/automation/check")
    second = await scene.save(await scene.candidate(name="Theirs"), first["etag"])
    mine = json.dumps(await scene.candidate(name="Mine"))
    late = await scene.browser.send(to(editor, "do/put_automation_contract"), 412, **{":json": mine})
    assert of(late, "/automation/check").value(":json") == mine
    assert (await scene.contract())["etag"] == second["etag"]
    compared = await scene.browser.send(of(late, "/automation/check"))
    assert "added" in compared.text
    assert "Theirs" in compared.text
    assert "Mine" in compared.text
    await scene.browser.send(to(of(compared, "/automation/check"), "do/put_automation_contract"))
    assert (await scene.contract())["automations"][0]["bindings"]["name"] == "Mine"


async def test_faults_stand_beside_the_text(world: World) -> None:
    scene = await opened(world)
    document = await scene.candidate()
    document["automations"][0]["bindings"]["budgets"]["max_runs_per_day"] = 0
    editor = of(await scene.browser.open(f"{scene.place}/edit"), "/automation/check")
    text = json.dumps(document)
    checked = await scene.browser.send(editor, **{":json": text})
    assert "Not valid" in checked.text
    assert "bindings.budgets.max_runs_per_day" in checked.text
    spread = json.dumps(document, indent=2)
    placed = await scene.browser.send(editor, **{":json": spread})
    [number] = [at for at, line in enumerate(spread.split("\n"), 1) if '"max_runs_per_day": 0' in line]
    found = re.search(r'class="line at"><span class="no">(\d+)</span><bdi>(.*?)</bdi>', placed.html)
    assert found is not None
    assert (int(found[1]), unescape(found[2]).strip()) == (number, '"max_runs_per_day": 0,')
    refused = await scene.browser.send(to(editor, "do/put_automation_contract"), 400, **{":json": text})
    assert "bindings.budgets.max_runs_per_day" in refused.text
    assert of(refused, "/automation/check").value(":json") == text
    for broken in ("{", "[]", "7", '"x"', '{"automations": 1}', '{"policy_version": 2, "automations": [7, null]}'):
        for action in ("automation/check", "automation/backtest"):
            place = f"projects/{scene.onboarding.project_id}/{action}"
            status = 200 if action.endswith("check") and "null" in broken else 400
            kept = await scene.browser.send(to(editor, place), status, **{":json": broken})
            assert kept.forms, broken


async def test_a_bad_binding_is_told_and_kept(world: World) -> None:
    scene = await opened(world)
    form = of(await scene.browser.open(f"{scene.place}/playbooks/{CASE}"), f"/playbooks/{CASE}")
    fields = {**entered(case_bindings()), **STATED, "bindings.trigger.cooldown_seconds": "soon"}
    refused = await scene.browser.send(form, 400, **fields)
    assert "bindings.trigger.cooldown_seconds" in refused.text
    kept = of(refused, f"/playbooks/{CASE}")
    assert kept.value("bindings.trigger.cooldown_seconds") == "soon"
    assert "bindings.trigger.max_cases_per_sweep must" not in refused.text
    await scene.browser.send(form, 400, **{**fields, "bindings.execution:json": "{"})


async def test_a_back_test_is_a_table_and_a_plot(world: World) -> None:
    scene = await opened(world)
    await scene.save(await scene.candidate(), status=201)
    editor = of(await scene.browser.open(f"{scene.place}/edit"), "/automation/check")
    test = to(editor, f"{scene.place}/backtest")
    shown = await scene.browser.send(test, _days="2")
    assert "Nothing was recorded." in shown.text
    assert '<svg class="plot"' in shown.html
    assert "Cases not offered a day" in shown.text
    assert "most 1 a day" in shown.text
    assert "Runs at most" in shown.text
    for days in ("0", "91", "many", ""):
        refused = await scene.browser.send(test, 400, _days=days)
        assert "days" in refused.text


async def test_members_stop_and_strangers_see_nothing(world: World) -> None:
    scene = await opened(world)
    await scene.save(await scene.candidate(name="<script>alert(1)</script>"), status=201)
    form = (await scene.browser.open(scene.place)).form("enable_automation_contract")
    joined = await Members(scene.onboarding.project_id).join(world, scene.onboarding.owner)
    member = await browser_of(joined)
    page = await member.open(scene.place)
    assert "<script>alert" not in page.html
    actions = {one.action for one in page.forms}
    assert "/console/do/enable_automation_contract" not in actions
    assert "/console/do/pause_automation_contract" in actions
    assert "reserved for" in (await member.forge(form)).text
    assert not (await scene.contract())["enabled"]
    stranger = await browser_of(await world.sign_in())
    for place in (scene.place, f"{scene.place}/edit"):
        theirs = await stranger.open(place, 404)
        none = await stranger.open(place.replace(scene.onboarding.project_id, "proj_none0000"), 404)
        assert theirs.text == none.text.replace("proj_none0000", scene.onboarding.project_id)
