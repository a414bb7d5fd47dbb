"""Decisions over HTTP: what receipts and starts were decided on, in full (R-AUT-22)."""

from __future__ import annotations

from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene


def test_decisions_show_inputs_thresholds_and_checks(at: HttpScene) -> None:
    """One at issue, one at the start; none holds a text of telemetry (R-AUT-23)."""
    at.running()
    body = at.must(at.call("GET", f"{at.project}/automation-decisions", who="member"), 200)
    assert [(item["stage"], item["passed"]) for item in body["decisions"]] == [("start", True), ("issue", True)]
    for item in body["decisions"]:
        assert item["inputs"]["event_count"] == 2
        assert item["thresholds"] == {"minimum_event_count": 2, "maximum_last_seen_age_seconds": 86400}
        assert all(check["passed"] for check in item["checks"])
        assert "Payment" not in str(item)
    closed(at.call("GET", f"{at.project}/automation-decisions"), 403, "principal_not_allowed")
