"""The machine of a report: every edge and non-edge of G-112, one source and one record for ever."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from schemas.contracts.playbook import FunnelReviewOutput
from statemachines.kernel.machine import Rejection, apply, replay
from statemachines.reports import report as r
from statemachines.reports.report import MACHINE, Report, SourceWish, Status
from statemachines.reports.source import FunnelGap, FunnelStep, plan_of, rows_of
from tests.statemachines.tables import check_released, check_table
from tests.support.examples import example
from tests.support.weekly import gap, metric, report_on

EVENTS = (r.ReportSourceIntended, r.ReportSourceMaterialized, r.ReportRecorded)
EDGES = [
    (r.ReportSourceIntended.TOPIC, Status.ABSENT, Status.INTENDED),
    (r.ReportSourceMaterialized.TOPIC, Status.INTENDED, Status.MATERIALIZED),
    (r.ReportRecorded.TOPIC, Status.MATERIALIZED, Status.RECORDED),
]
PLAN = plan_of(["opened", "paid"], 1, 2_000_000, 3_000_000)
WISH = SourceWish(run_id="run_1", automation_id="review", plan=PLAN, state_revision=1, patient_until=400)
READINGS: list[Any] = [
    [FunnelStep("opened", 4, 5), FunnelStep("paid", 1, 3)],
    [FunnelStep("opened", 9, 9), FunnelStep("paid", 2, 2)],
    FunnelGap("provider_unreachable"),
    FunnelGap("period_not_kept"),
]


def test_a_report_moves_along_the_edges_only() -> None:
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


def test_what_was_released_is_read_and_written_to_the_byte() -> None:
    check_released(MACHINE, [example(event) for event in EVENTS])


def test_a_run_has_one_report_and_no_other_run_has_it() -> None:
    assert r.report_id("proj_1", "run_1") == r.report_id("proj_1", "run_1")
    assert len({r.report_id(p, n) for p in ("proj_1", "proj_2") for n in ("run_1", "run_2")}) == 4


def test_a_failed_read_is_tried_again_for_a_while_and_is_then_the_source() -> None:
    """Never a zero: it has no steps, no sample, and another hash than any reading."""
    [intended] = r.decide_intend(Report(), WISH, 100)
    report = apply(MACHINE, Report(), intended)
    with pytest.raises(r.ReportSourceUnread) as unread:
        r.decide_materialize(report, "local", READINGS[2], 399)
    assert unread.value.details["readiness_gap"]["code"] == "provider_unreachable"
    assert unread.value.details["patient_until"] == 400
    [source] = r.decide_materialize(report, "local", READINGS[2], 400)
    assert isinstance(source, r.ReportSourceMaterialized)
    assert (source.steps, source.gap) == ([], "provider_unreachable")
    [at_once] = r.decide_materialize(report, "local", READINGS[3], 100)
    assert isinstance(at_once, r.ReportSourceMaterialized)
    assert at_once.gap == "period_not_kept"


class Reporting(RuleBasedStateMachine):
    """Wishes, reads and reports in any order and at any time, each repeated at will."""

    def __init__(self) -> None:
        super().__init__()
        self.state = Report()
        self.events: list[Any] = []
        self.now = 100
        self.sources: set[str] = set()

    def carry_out(self, decide: Any) -> list[Any]:
        before = self.state
        try:
            events = decide(self.state)
        except Rejection:
            assert self.state is before
            return []
        for event in events:
            self.state = apply(MACHINE, self.state, event)
        self.events += events
        assert decide(self.state) == [], "the same again records nothing"
        return list(events)

    @rule(seconds=st.integers(1, 200))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(revision=st.integers(1, 3))
    def want(self, revision: int) -> None:
        wish = msgspec.structs.replace(WISH, state_revision=revision, patient_until=self.now + 300)
        self.carry_out(lambda state: r.decide_intend(state, wish, self.now))

    @rule(reading=st.sampled_from(READINGS))
    def read(self, reading: Any) -> None:
        if self.state.plan is None:
            return  # Nothing is read that nobody wanted.
        self.carry_out(lambda state: r.decide_materialize(state, "local", reading, self.now))

    @rule(honest=st.booleans(), bare=st.booleans())
    def record(self, honest: bool, bare: bool) -> None:
        source = self.state.source
        rows = [] if source is None else [msgspec.to_builtins(row) for row in rows_of(source.steps)]
        seen = {**msgspec.to_builtins(PLAN), "source_hash": "0" * 64, "rows": rows}
        if source is not None and honest:
            seen["source_hash"] = source.source_hash
        findings = [gap()] if bare or not rows else [metric(seen, 2)]
        document = msgspec.convert(report_on(seen, *findings), FunnelReviewOutput)
        recorded = self.carry_out(lambda state: r.decide_record(state, document, "runner_1", self.now))
        if recorded:
            assert honest
            assert source is not None

    @invariant()
    def one_of_each_and_the_first_stands(self) -> None:
        topics = [event.TOPIC for event in self.events]
        assert topics == [event.TOPIC for event in EVENTS][: len(topics)]
        if self.state.source is not None:
            self.sources.add(self.state.source.source_hash)
        assert len(self.sources) <= 1

    def teardown(self) -> None:
        stored = [msgspec.json.decode(msgspec.json.encode(event), type=type(event)) for event in self.events]
        assert replay(MACHINE, stored) == self.state


TestReporting = Reporting.TestCase
TestReporting.settings = settings(max_examples=60, stateful_step_count=20)
