"""Claims over HTTP: one holder, exact revisions, renew and release by the right hands (G-105)."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.support.automation_world import closed
from tests.support.loop.http_scene import RIVAL, HttpScene

pytestmark = pytest.mark.shares_server


def renew(at: HttpScene, epoch: int = 1, *, who: str = "heal", claim_id: str | None = None) -> httpx2.Response:
    path = f"/v1/cases/{at.case_id}/claims/{claim_id or at.claim_id}/renew"
    return at.post(path, {"lease_epoch": epoch}, who=who)


def release(at: HttpScene, body: dict[str, object] | None = None, *, who: str = "heal") -> httpx2.Response:
    return at.post(f"/v1/cases/{at.case_id}/claims/{at.claim_id}/release", body or {}, who=who)


def test_a_claim_from_its_making_to_its_end(at: HttpScene) -> None:
    at.prepare()
    at.error(2)
    closed(at.call("GET", f"/v1/cases/{at.case_id}/claims/active"), 404, "claim_not_found")
    at.issue()
    closed(at.claim(case_revision=2), 409, "case_revision_stale")
    closed(at.claim(trigger_receipt_id="trc_" + "0" * 26), 404, "trigger_receipt_not_found")
    made = at.must(at.claim(), 201)
    assert at.must(at.claim(), 200)["claim_id"] == made["claim_id"]
    rival = at.claim(who=RIVAL)
    assert rival.json()["error"]["code"] in {"case_already_claimed", "receipt_not_claimable"}
    shown = at.must(at.call("GET", f"/v1/cases/{at.case_id}/claims/active", who="member"), 200)
    assert shown["claim_id"] == made["claim_id"]
    refused = at.call("GET", f"/v1/cases/{at.case_id}", who=RIVAL)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "claim_required")
    closed(renew(at, 2), 409, "stale_lease_epoch")
    at.must(renew(at, who=RIVAL), 200)
    closed(renew(at, claim_id="claim_" + "0" * 26), 404, "claim_not_found")
    at.wait(600)
    renewed = at.must(renew(at), 200)
    assert renewed["lease_expires_at"] >= made["lease_expires_at"] + 600
    assert renewed["lease_epoch"] == 1
    closed(release(at), 400, "invalid_payload")
    closed(release(at, {"lease_epoch": 1}, who="member"), 403, "owner_required")
    done = at.must(release(at, {"lease_epoch": 1, "reason": "Not reproducible."}), 200)
    assert (done["status"], done["released_at"] is not None) == ("released", True)
    closed(release(at, {"lease_epoch": 1}), 409, "claim_not_active")
    closed(renew(at), 409, "claim_not_active")
    receipt = at.must(at.call("GET", f"/v1/automation-trigger-receipts/{at.receipt_id}"), 200)
    assert receipt["status"] == "closed"
    refused = at.call("GET", f"/v1/cases/{at.case_id}")
    assert refused.json()["error"]["code"] == "claim_required", "a released claim shows nothing any more"


def test_a_runner_sees_the_stack_of_the_latest_error_and_no_person(at: HttpScene) -> None:
    """What members see without the members that are theirs, and nothing of them in `origins` (G-176, G-137)."""
    frame = {
        "file": "pay.py",
        "function": "charge",
        "in_app": True,
        "module": "shop.pay",
        "package": "shop",
        "line": 7,
        "context_line": "raise Declined('ada@shop.example')",
        "pre_context": ["a = 1"],
        "post_context": ["b = 2"],
    }
    cause = {
        "type": "Refused",
        "value": "by ada@shop.example from 203.0.113.9",
        "frames": [{**frame, "vars": {"z": 1}}],
    }
    sent = {
        "user": {"id": "ada@shop.example", "name": "Ada", "ip_address": "203.0.113.9"},
        "tags": {"who": "ada@shop.example", "region": "eu"},
        "extra": {
            "exception": {"type": "Declined", "frames": [{**frame, "vars": {"card": "v1"}}], "causes": [cause]},
            "breadcrumbs": [{"message": "clicked"}],
            "request": {"url": "https://shop.example/pay", "data": {"body": "b1"}, "headers": {"X-Real-Ip": "h1"}},
            "contexts": {"runtime": {"name": "CPython"}},
            "user": "somebody",
        },
    }
    at.prepare()
    at.must(at.call("PATCH", f"{at.project}/settings", {"frame_variables": True}, who="owner"))
    at.error(2, **sent)
    at.issue()
    at.must(at.claim(), 201)
    answers, began, answered = {}, 0.0, 0.0
    while not answers or int(began) != int(answered):  # The age of the case in seconds is in them.
        began = time.time()
        answers = {who: at.call("GET", f"/v1/cases/{at.case_id}", who=who) for who in ("heal", "member")}
        answered = time.time()
    shown, known = at.must(answers["member"], 200), at.must(answers["heal"], 200)
    assert list(known["latest_event"]) == [
        "id", "message", "level", "environment", "release", "user_id", "tags", "received_at", "occurred_at",
        "adjusted", "dsn", "exception",
    ]  # fmt: skip
    for name in ("breadcrumbs", "request", "user", "grouping"):
        assert shown["latest_event"].pop(name)
        assert shown["origins"].pop(f"/latest_event/{name}")
    assert shown["latest_event"]["exception"]["frames"][0]["vars"] == {"card": "v1"}
    hidden = "raise Declined('[address]')"
    told = known["latest_event"].pop("exception")
    assert told["frames"] == [{**frame, "context_line": hidden}]
    assert told["causes"] == [
        {**cause, "value": "by [address] from [address]", "frames": [{**frame, "context_line": hidden}]}
    ]
    assert known["latest_event"].pop("user_id") is None
    assert known["latest_event"].pop("tags") == known.pop("tags") == {"who": "[address]", "region": "eu"}
    assert known["origins"]["/latest_event/exception"] == "untrusted_telemetry"
    for word in ("ada@shop", "203.0.113.9", "v1", "b1", "h1", "CPython", "clicked", "Ada"):
        assert word not in json.dumps(told)
        assert f'"{word}' not in answers["heal"].text, word
    for name in ("exception", "user_id", "tags"):
        shown["latest_event"].pop(name)
    shown.pop("tags")
    assert known == shown


def test_a_lease_that_lapsed_is_over_everywhere_at_once(at: HttpScene) -> None:
    at.running()
    at.wait(900)
    closed(renew(at), 409, "lease_expired")
    closed(release(at, {"lease_epoch": 1}), 409, "lease_expired")
    closed(at.call("GET", f"/v1/cases/{at.case_id}/claims/active"), 404, "claim_not_found")
    assert at.call("GET", f"/v1/cases/{at.case_id}").json()["error"]["code"] == "claim_required"
    for body in ({"phase": "running"}, {"status": "failed", "reason": "r"}):
        closed(at.patch(body), 409, "lease_expired")
    at.wait(61)
    at.issue()
    taken = at.must(at.claim(who=RIVAL), 201)
    assert taken["lease_epoch"] == 2
    closed(at.patch({"phase": "running"}), 409, "lease_expired")
    cases = at.must(at.call("GET", f"{at.project}/cases", who="member"), 200)["cases"]
    assert [case["claimed"] for case in cases] == [True]


def test_an_owner_takes_a_claim_back(at: HttpScene) -> None:
    at.running()
    assert at.must(release(at, who="owner"), 200)["status"] == "released"
    closed(at.patch({"phase": "running"}), 409, "claim_not_active")
    assert at.run()["status"] == "failed", "without its lease a run that had no effect yet is over"


def test_of_many_rivals_one_holds_the_case(at: HttpScene) -> None:
    """Thirty-two claims at once by two runners: one runner's claim, one epoch, every other answer a refusal (P12)."""
    at.prepare()
    at.error(2)
    at.issue()
    receipt = {"trigger_receipt_id": at.receipt_id, "case_revision": 1}
    path = f"/v1/cases/{at.case_id}/claims"

    def claim(number: int) -> httpx2.Response:
        with at.server.client() as client:
            who = ("heal", RIVAL)[number % 2]
            return at.world.call("POST", path, receipt, who=who, key=f"rival-{number}", client=client)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(claim, range(32)))
    won = [answer.json() for answer in answers if answer.is_success]
    assert {(body["claim_id"], body["lease_epoch"]) for body in won} == {(won[0]["claim_id"], 1)}
    assert sum(answer.status_code == 201 for answer in answers) == 1
    codes = {answer.json()["error"]["code"] for answer in answers if not answer.is_success}
    assert codes <= {"case_already_claimed", "receipt_not_claimable", "service_unavailable"}


def test_a_claimed_case_is_neither_merged_nor_split(at: HttpScene) -> None:
    """What a runner was given does not change under it, neither as what is merged nor as what takes it in (G-145)."""
    at.running()
    held = at.case_id
    at.error(message="Another one")
    other, at.case_id = at.case_id, held
    body = {"case_revision": 1, "into_case_id": at.case_id}
    into = at.post(f"/v1/cases/{other}/merge", body, who="member")
    assert (into.status_code, into.json()["error"]["code"]) == (409, "case_already_claimed")
    away = at.post(f"/v1/cases/{at.case_id}/merge", {"case_revision": 1, "into_case_id": other}, who="member")
    assert (away.status_code, away.json()["error"]["code"]) == (409, "case_already_claimed")
    assert at.must(release(at, who="owner"), 200)["status"] == "released"
    at.must(at.post(f"/v1/cases/{other}/merge", body, who="member"), 200)
