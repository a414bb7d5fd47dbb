"""Decisions over HTTP: what was offered, started on or passed over and why, in full (R-AUT-22, G-137)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def listed(at: HttpScene, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = at.must(
        at.call("GET", f"{at.project}/automation-decisions{query}", who="member"), 200
    )["decisions"]
    return found


def work(at: HttpScene, who: str = "owner") -> dict[str, Any]:
    """What the page of the case says about work on it."""
    shown: dict[str, Any] = at.must(at.call("GET", f"/v1/cases/{at.case_id}", who=who), 200)["work"]
    return shown


def test_decisions_show_inputs_thresholds_and_checks(at: HttpScene) -> None:
    """One at issue, one at the start, with who asked; none holds a text of telemetry (R-AUT-23)."""
    at.running()
    items = listed(at, "?verdict=passed")
    assert [(item["stage"], item["asked_by"], item["receipt_id"]) for item in items] == [
        ("start", "runner", at.receipt_id),
        ("claim", "runner", at.receipt_id),
        ("issue", "runner" if items[2]["look"] == "issue" else "system", at.receipt_id),
    ]
    for item in items:
        assert item["inputs"]["event_count"] == 2
        assert item["thresholds"] == {"minimum_event_count": 2, "maximum_last_seen_age_seconds": 86400}
        assert item["passed"]
        assert all(check["passed"] for check in item["checks"])
        assert "Payment" not in str(item)
    closed(at.call("GET", f"{at.project}/automation-decisions"), 403, "principal_not_allowed")


def test_what_was_passed_over_is_shown_once_for_each_answer(at: HttpScene) -> None:
    """Looking again, by hand and by sweep, leaves one record until the answer is another one."""
    at.prepare()
    at.error()
    for _ in range(3):
        at.issue()
    [item] = listed(at)
    assert (item["verdict"], item["code"], item["passed"]) == ("passed_over", "materiality_not_met", False)
    assert (item["inputs"]["case_id"], item["receipt_id"], item["stage"]) == (at.case_id, "", "issue")
    assert [check["check"] for check in item["checks"] if not check["passed"]] == ["event_count"]
    at.error()
    for _ in range(3):
        at.issue()
    codes = [item["code"] for item in listed(at, f"?case_id={at.case_id}")]
    assert codes == ["receipt_open", None, "materiality_not_met"]
    first = at.case_id
    at.error(message="The receipt of an order was not sent")
    at.issue()
    assert listed(at)[0]["inputs"]["case_id"] == at.case_id
    assert {item["inputs"]["case_id"] for item in listed(at, f"?case_id={first}")} == {first}
    assert listed(at, "?automation_id=other") == listed(at, "?case_id=case_" + "0" * 26) == []
    assert [item["code"] for item in listed(at, "?verdict=passed")] == [None]
    assert None not in [item["code"] for item in listed(at, "?verdict=passed_over&automation_id=heal")]
    closed(at.call("GET", f"{at.project}/automation-decisions?verdict=maybe", who="owner"), 400, "invalid_payload")


def test_decisions_come_in_pages_that_do_not_shift(at: HttpScene) -> None:
    at.prepare()
    for number in range(5):
        at.error(message=f"Error of kind {'abcde'[number]}")
    at.issue()
    whole = [item["decision_id"] for item in listed(at)]
    assert len(set(whole)) == 5
    path, seen, cursor = f"{at.project}/automation-decisions?limit=2", list[str](), ""
    for _ in range(3):
        body = at.must(at.call("GET", path + cursor, who="owner"), 200)
        seen += [item["decision_id"] for item in body["decisions"]]
        at.error(message="Another error altogether")
        at.issue()
        cursor = f"&cursor={body['next_cursor']}"
    assert (seen, body["next_cursor"]) == (whole, None)


def test_a_case_says_why_it_is_not_worked_on(at: HttpScene) -> None:
    """By what is true now, whether or not a look has found it so yet (G-119)."""
    at.world.secrets["dsn"] = at.must(at.world.call("GET", f"{at.project}/dsn"))["dsn"]
    at.error()
    assert work(at) == {
        "working": False, "reason": "The project has no automation contract.", "automations": [],
    }  # fmt: skip
    at.prepare()
    [heal] = work(at)["automations"]
    assert (heal["automation_id"], heal["code"]) == ("heal", "materiality_not_met")
    assert [check["check"] for check in heal["checks"] if not check["passed"]] == ["event_count"]
    at.issue()
    assert work(at)["automations"][0]["since"] is not None
    at.error()
    assert work(at)["automations"][0]["code"] is None
    at.issue()
    assert (work(at)["automations"][0]["code"], work(at)["working"]) == ("receipt_open", False)
    at.must(at.claim(), 201)
    shown = work(at, who="heal")
    assert (shown["working"], shown["reason"]) == (True, "A runner has claimed the case.")
    at.must(at.start(), 201)
    assert work(at)["automations"][0]["code"] == "run_live"
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"))
    assert (work(at)["working"], work(at)["automations"][0]["code"]) == (False, "cooldown")
    at.pause()
    paused = work(at)
    assert paused["reason"] == ("Automation is paused for this project. An owner can enable it again.")
    assert (paused["automations"][0]["code"], paused["automations"][0]["checks"]) == ("automation_paused", [])


def test_more_cases_than_the_policy_offers_at_once_say_so(at: HttpScene) -> None:
    at.prepare()
    for kind in "abcde":
        at.error(2, message=f"Error of kind {kind}")
    crowded = [item["case_id"] for item in at.issue()["skipped"] if item["code"] == "max_cases_per_sweep"]
    assert crowded
    at.case_id = crowded[0]
    [item] = [item for item in listed(at, f"?case_id={at.case_id}") if item["code"] == "max_cases_per_sweep"]
    assert item["checks"][-1] == {
        "check": "max_cases_per_sweep", "passed": False, "observed": None, "required": "<=2",
    }  # fmt: skip
    assert work(at)["automations"][0]["code"] == "max_cases_per_sweep"
