"""What a review hands over: a report and its findings, at and beyond each of their bounds (R-AUT-47, R-AUT-48)."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.contracts.playbook import FunnelReviewOutput
from tests.support.plans import accepts, set_at

METRIC: dict[str, Any] = {
    "kind": "metric",
    "metric": "conversion",
    "unit": "ratio",
    "prior_value": 0.2,
    "current_value": None,
    "change": 1,
    "source_columns": ["current_users"],
}
HYPOTHESIS: dict[str, Any] = {
    "kind": "hypothesis",
    "rank": 1,
    "title": "The new form is slower",
    "rationale": "Its third field needs a look-up.",
    "expected_impact": "Two more orders in a hundred visits.",
    "confidence": "low",
    "evidence_columns": ["current_users"],
    "suggested_human_next_step": "Time the form with five people.",
}
GAP: dict[str, Any] = {"kind": "readiness_gap", "code": "sample", "message": "Too small."}
REPORT: dict[str, Any] = {
    "kind": "funnel_review",
    "period_start": 0,
    "period_end": 604800,
    "source_hash": "0123456789abcdef" * 4,
    "findings": [METRIC, HYPOTHESIS, GAP],
    "limitations": ["One week only."],
}

# (path, taken, refused)
BOUNDS: list[tuple[tuple[str | int, ...], list[Any], list[Any]]] = [
    (("kind",), [], ["report", "", None]),
    (("period_start",), [1], [0.5, "0", None]),
    (("period_end",), [1], [0.5, "0", None]),
    (("source_hash",), ["f" * 64], ["f" * 63, "f" * 65, "F" * 64, "g" * 64, "f" * 64 + "\n", "", None]),
    (("findings",), [[], [GAP] * 100], [[GAP] * 101, None, GAP, [None], [{"kind": "opinion"}]]),
    (("limitations",), [[], ["x"] * 20], [["x"] * 21, None, "x", [1], [None]]),
    (("findings", 1, "rank"), [1, 100], [0, 101, 1.5, "1", None]),
    (("findings", 1, "confidence"), ["low", "medium", "high"], ["certain", "", None]),
    (("findings", 1, "title"), ["x" * 200], ["", "x" * 201, None]),
    (("findings", 1, "rationale"), ["x" * 2000], ["", "x" * 2001, None]),
    (("findings", 1, "expected_impact"), ["x" * 1000], ["", "x" * 1001, None]),
    (("findings", 1, "suggested_human_next_step"), ["x" * 1000], ["", "x" * 1001, None]),
    (("findings", 1, "evidence_columns"), [[], ["x" * 200]], [[""], ["x" * 201], "x", None]),
    (("findings", 0, "metric"), ["x" * 200], ["", "x" * 201, None]),
    (("findings", 0, "prior_value"), [None, 0, -1.5], ["0", [0]]),
    (("findings", 2, "code"), ["x" * 160], ["", "x" * 161, None]),
    (("findings", 2, "message"), ["x" * 2000], ["", "x" * 2001, None]),
]


@pytest.mark.parametrize(("path", "taken", "refused"), BOUNDS, ids=[".".join(map(str, row[0])) for row in BOUNDS])
def test_bounds_of_a_report(path: tuple[str | int, ...], taken: list[Any], refused: list[Any]) -> None:
    """At the bound a value is taken, one step outside it is refused; 100 findings and 20 limitations at most."""
    assert accepts(FunnelReviewOutput, REPORT)
    for value in taken:
        assert accepts(FunnelReviewOutput, set_at(REPORT, path, value)), value
    for value in refused:
        assert not accepts(FunnelReviewOutput, set_at(REPORT, path, value)), value


@pytest.mark.parametrize("number", [0, 1, 2], ids=[finding["kind"] for finding in REPORT["findings"]])
def test_each_finding_has_exactly_its_members(number: int) -> None:
    """Every member of a metric, a hypothesis and a readiness gap is required, and none comes on top."""
    finding = REPORT["findings"][number]
    for name in finding:
        less = {key: value for key, value in finding.items() if key != name}
        assert not accepts(FunnelReviewOutput, set_at(REPORT, ("findings", number), less)), name
    assert not accepts(FunnelReviewOutput, set_at(REPORT, ("findings", number, "why"), "because"))


def test_a_report_has_exactly_its_members() -> None:
    for name in REPORT:
        assert not accepts(FunnelReviewOutput, {key: value for key, value in REPORT.items() if key != name}), name
    assert not accepts(FunnelReviewOutput, {**REPORT, "authorizes": ["merge"]})
