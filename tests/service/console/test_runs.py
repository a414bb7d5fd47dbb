"""Pages of runs: what people see of a run in each status, and what they decide there."""

from __future__ import annotations

import asyncio
import re
from functools import partial

import pytest

from service.accounts.membership import set_member
from statemachines.accounts.membership import Role
from statemachines.runs import run as runs
from tests.support.consolescene import People
from tests.support.loop.http_scene import HttpScene
from tests.support.proofs import golden_event

pytestmark = pytest.mark.shares_server

AUDITOR = Role.AUDITOR
HOSTILE = "<script>alert(1)</script> ![x](http://evil.example/x.png) \u202e"
DIFF = "--- a/src/cart.py\n+++ b/src/cart.py\n-    return sum(items) / len(items)\n+    return <b>0</b>\n"


def ask(at: HttpScene, **changes: object) -> str:
    """Ask for an approval."""
    body = {"action": "draft_pr", "summary": HOSTILE, "evidence": {"diff": DIFF, "ratio": 0.5}} | changes
    return str(at.must(at.act("approvals", body), 201)["approval_id"])


def test_a_run_is_shown_in_each_step_of_its_life(at: HttpScene, people: People) -> None:
    assert "There is no run yet" in people.owner.open(f"projects/{at.world.project_id}/runs").text
    at.running()
    place = f"runs/{at.run_id}"
    listed = people.member.open(f"projects/{at.world.project_id}/runs")
    assert f"/console/{place}" in listed.html
    assert f"/console/{place}" in people.member.open(f"cases/{at.case_id}").html
    of_case = people.member.open(f"projects/{at.world.project_id}/runs?case_id={at.case_id}")
    assert f"/console/{place}" in of_case.html
    assert "Only runs of one case" in of_case.text
    assert "No run matches" in people.member.open(f"projects/{at.world.project_id}/runs?case_id=case_{0:026}").text
    started = people.owner.open(place).text
    assert "Run started" in started
    assert "It begins when CI records the deploy" in started
    grant = at.must(at.authorize(title=HOSTILE), 201)
    at.must(at.consume(grant["grant_id"]), 200)
    at.must(at.prove(), 201)
    opened = people.owner.open(place)
    assert "CI observed: PR opened" in opened.text
    assert "Bypass used Not observed" in opened.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in opened.html
    assert "<script>alert" not in opened.html
    at.must(at.prove("merged"), 201)
    at.traffic(1)
    assert at.deploy("c" * 40) == at.run_id
    verified = people.owner.send(people.owner.open(place).form("verify_automation_run"))
    assert "Pending" in verified.text
    assert "The service has counted" in verified.text
    over = verified
    for _ in range(5):  # traffic of the last moments may not count yet
        if "No recurrence" not in over.text:
            at.traffic(3)
            at.wait(130)
            over = people.owner.send(over.form("verify_automation_run"))
    assert "No recurrence" in over.text
    assert "Succeeded" in over.text
    assert not [one for one in over.forms if "cancel_automation_run" in one.action]
    way = people.owner.sees(place, "verified.v1").text
    assert "pr opened" in way
    assert re.search(r"Verified by .*? \+\d+ (min|h) .*? · ", way), "each event tells the time since the run began"
    for name in ("get_automation_run_proof", "get_automation_run_tlog_proof"):
        assert f"/console/download/{name}?run_id={at.run_id}" in over.html


def test_a_run_tells_what_people_did_to_its_pull_request(at: HttpScene, people: People) -> None:
    """A merge with commits of people names them, and its case says what it waits for (G-186, G-187)."""
    at.delivered()
    at.must(at.prove(), 201)
    at.must(at.prove("merged", head_sha="8" * 40, commits=["b" * 40, "8" * 40]), 201)
    page = people.member.open(f"runs/{at.run_id}")
    assert "Reason: merged_changed_by_person" in page.text
    assert "People changed it before the merge" in page.text
    assert "88888888" in page.text
    assert "People merged it with changes" in people.member.open(f"cases/{at.case_id}").text


def test_a_closed_pull_request_names_who_closed_it(at: HttpScene, people: People) -> None:
    at.delivered()
    at.must(at.prove("closed", merged=False, closed_by=HOSTILE), 201)
    page = people.member.open(f"runs/{at.run_id}")
    assert "Reason: closed_unmerged" in page.text
    assert "Closed by" in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
    assert "<script>alert" not in page.html


def test_a_proof_is_a_file_and_nothing_else_is(at: HttpScene, people: People) -> None:
    at.running()
    place = f"download/get_automation_run_proof?run_id={at.run_id}"
    owner, member, stranger = (who.get(place) for who in (people.owner, people.member, people.stranger))
    assert owner.headers["content-disposition"] == f'attachment; filename="{at.run_id}.proof.json"'
    assert owner.headers["x-content-type-options"] == "nosniff"
    assert owner.json()["run_id"] == at.run_id
    assert member.status_code == 200
    assert stranger.status_code == 404
    for other in (
        "get_dsn?project_id=" + at.world.project_id,
        "get_automation_run_proof",
        "cancel_automation_run?run_id=" + at.run_id,
    ):
        people.owner.open(f"download/{other}", 404)


def test_an_owner_sees_exactly_what_is_asked_and_decides(at: HttpScene, people: People) -> None:
    at.running()
    asked = ask(at)
    place = f"projects/{at.world.project_id}/approvals"
    assert "1 request waits" in people.owner.open(f"projects/{at.world.project_id}/runs").text
    page = people.owner.open(place)
    assert "<script>alert" not in page.html
    assert '<span class="added"><bdi>+    return &lt;b&gt;0&lt;/b&gt;</bdi>' in page.html
    assert "SHA-256 of what is asked" in page.text
    assert page.html.index("+    return &lt;b&gt;0") < page.html.index('value="approve"'), "it stands before its button"
    form = page.form("decide_automation_approval")
    assert "Owners decide." in people.member.open(place).text
    denied = people.member.forge(form, decision="approve", reason="mine")
    assert "This was not carried out" in denied.text
    long = people.owner.send(form, 400, decision="approve", reason="r" * 2001)
    assert "reason" in long.text
    done = people.owner.send(form, decision="approve", reason=HOSTILE)
    assert "Nothing waits for a decision" in done.text
    decided = people.owner.open(f"{place}?status=approved")
    assert asked in decided.text
    assert "<script>alert" not in decided.html
    assert at.run()["phase"] == "running"


def test_of_two_decisions_at_once_one_holds_and_the_other_sees_it(at: HttpScene, people: People) -> None:
    at.running()
    ask(at)
    place = f"runs/{at.run_id}"
    forms = [people.owner.open(place).form("decide_automation_approval") for _ in range(2)]

    browser = people.owner.browser

    async def decide(number: int, decision: str) -> int:
        fields = dict(forms[number].fields) | {"decision": decision, "reason": f"I say {decision}"}
        headers = {"cookie": f"service_session={browser.secret}", "origin": browser.origin}
        answer = await browser.client.post(forms[number].action, data=fields, headers=headers)
        if answer.status_code != 303:
            assert "This page was out of date" in answer.text
            assert "I say" in answer.text
            assert "pending" in answer.text
        return answer.status_code

    async def both() -> list[int]:
        return list(await asyncio.gather(decide(0, "approve"), decide(1, "reject")))

    assert sorted(people.owner.run(both())) == [303, 409]


def test_a_run_is_cancelled_once_and_a_stale_cancel_says_so(at: HttpScene, people: People) -> None:
    at.running()
    place = f"runs/{at.run_id}"
    form = people.owner.open(place).form("cancel_automation_run")
    people.member.forge(form)
    done = people.owner.send(form, reason="Not needed")
    assert "Cancelled" in done.text
    at.must(at.call("GET", at.path, who="owner"), 200)
    other = [(name, "another" if name == "_key" else value) for name, value in form.fields]
    stale = people.owner.post(form.action, other, 409)
    assert "This page was out of date" in stale.text


@pytest.mark.parametrize("status", ["failed", "escalated"])
def test_a_run_that_was_handed_over_says_why(at: HttpScene, people: People, status: str) -> None:
    at.running()
    at.must(at.patch({"status": status, "reason": HOSTILE}), 200)
    page = people.member.open(f"runs/{at.run_id}")
    assert status.capitalize() in page.text
    assert "Reason: &lt;script&gt;" in page.text
    assert "Parts of the output Pull request Never came to be" in page.text
    assert "<script>alert" not in page.html
    listed = people.member.open(f"projects/{at.world.project_id}/runs?status={status}")
    assert f"/console/runs/{at.run_id}" in listed.html
    assert "No run matches" in people.member.open(f"projects/{at.world.project_id}/runs?status=succeeded").text


def test_what_a_cancelled_run_leaves_outside_is_named(at: HttpScene, people: People) -> None:
    at.delivered()
    done = people.owner.send(people.owner.open(f"runs/{at.run_id}").form("cancel_automation_run"))
    assert "For a person to inspect" in done.text
    assert "Find out whether the pull request exists" in done.text
    assert "External follow up required" in done.text
    at.must(at.prove(), 201)
    page = people.owner.open(f"runs/{at.run_id}").text
    assert "Pull request Present Provider proof Present" in page
    assert "Deploy Never came to be Verification Never came to be" in page


def test_a_long_run_begins_with_its_newest_events(at: HttpScene, people: People) -> None:
    at.running()
    charges = [golden_event("run.charged.v1", {}) for _ in range(160)]
    at.world.record(runs.stream(at.world.project_id, at.run_id), *charges)
    place = f"runs/{at.run_id}"
    page = people.owner.sees(place, "revision 161")
    assert page.text.count("Charged by") == 100
    assert "The picture shows the first and the last events" in page.text
    assert "revision 1: run.started.v1" in page.text
    [older] = [link for link in page.page.links if link.startswith(f"/console/{place}?before=")]
    before = people.owner.open(older.removeprefix("/console/"))
    assert before.text.count("Charged by") == 60
    assert "Started by runner" in before.text
    assert {link for link in before.page.links if "?before=" in link} <= {older}


def test_members_see_what_the_run_tells_and_strangers_nothing(at: HttpScene, people: People) -> None:
    at.running()
    ask(at)
    page = people.member.open(f"runs/{at.run_id}")
    assert "Owners and auditors see each event" in page.text
    assert "Approval requested" in page.text
    for place in (
        f"runs/{at.run_id}",
        f"projects/{at.world.project_id}/runs",
        f"projects/{at.world.project_id}/approvals",
    ):
        theirs = people.stranger.open(place, 404)
        none = people.stranger.open(place.replace(at.run_id, "run_0").replace(at.world.project_id, "proj_0"), 404)
        assert theirs.text == none.text


def test_an_auditor_reads_every_event_and_decides_nothing(at: HttpScene, people: People) -> None:
    at.running()
    ask(at)
    at.world.run(partial(set_member, project_id=at.world.project_id, user_id=at.world.users["stranger"], role=AUDITOR))
    auditor = people.stranger
    page = auditor.sees(f"runs/{at.run_id}", "run.approval_requested.v1")
    assert "Owners and auditors see" not in page.text
    owners = people.owner.open(f"runs/{at.run_id}")
    for operation, entered in (("decide_automation_approval", {"decision": "approve"}), ("cancel_automation_run", {})):
        assert f"/console/do/{operation}" not in {form.action for form in page.forms}
        assert "This was not carried out" in auditor.forge(owners.form(operation), **entered).text
    assert "run.started.v1" in auditor.open(f"projects/{at.world.project_id}/log").text
    assert at.run()["phase"] == "human_review"


def test_receipts_are_listed_and_looked_for(at: HttpScene, people: People) -> None:
    at.prepare()
    place = f"projects/{at.world.project_id}/receipts"
    empty = people.owner.open(place)
    assert "There is no receipt yet" in empty.text
    at.error(2, message=f"Declined {HOSTILE}")
    found = people.owner.send(empty.form("issue_automation_triggers"), automation_id="heal")
    assert "Issued" in found.text
    assert "<script>alert" not in found.html
    people.member.send(empty.form("issue_automation_triggers"), 403, automation_id="heal")
    closed = people.owner.open(f"{place}?status=expired")
    assert "No receipt matches" in closed.text


def test_small_print_is_folded_pauses_are_told_and_older_events_follow(at: HttpScene, people: People) -> None:
    at.running(max_turns_per_run=500)
    for number in range(4):
        at.must(at.act("usage", {"turns": 1, "label": f"look {number}"}), 200)
    at.wait(800)
    at.must(at.act("approvals", {"action": "draft_pr", "summary": "May I?"}), 201)
    place = f"runs/{at.run_id}"
    shown = people.owner.sees(place, "Approval requested")
    assert "4 events: charged" in shown.text
    assert "Nothing for 13 min" in shown.text
    assert "in review" in shown.text
    positions = [int(link.partition("event=")[2]) for link in shown.page.links if "event=" in link]
    position = min(positions) + 1
    older = people.owner.open(f"{place}?before={position}")
    assert "To the newest events" in older.text
    for nonsense in ("-1", "x", "9" * 20, "%C2%B2"):
        people.owner.open(f"{place}?before={nonsense}", 404)
