"""What a report is held to: its source, its sample, its values; each refusal names the field and both values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from schemas.contracts.playbook import FunnelReviewOutput
from statemachines import reports as r
from statemachines.kernel.canonical import canonical_sha256
from statemachines.kernel.machine import Rejection, apply, replay
from statemachines.reports import (
    COLUMNS,
    GAPS,
    MACHINE,
    FunnelGap,
    FunnelReading,
    FunnelSource,
    FunnelStep,
    InsufficientSample,
    Report,
    ReportValuesDiffer,
    SourceHashMismatch,
    SourceWish,
    Status,
    hash_of,
    plan_of,
    require_held,
    rows_of,
    sample_met,
)
from tests.statemachines.tables import check_released, check_table
from tests.support import few_or_many
from tests.support.examples import example
from tests.support.weekly import gap, hypothesis, metric, report_on

WEEK = 7 * 86400
NAMES = ("opened", "added", "paid")
FINDINGS_PLAN = plan_of(NAMES, 3, 10 * WEEK, 11 * WEEK)
STEPS = [FunnelStep("opened", 10, 20), FunnelStep("added", 6, 9), FunnelStep("paid", 3, 0)]


def source_of(reading: FunnelReading, plan: Any = FINDINGS_PLAN) -> FunnelSource:
    is_gap = isinstance(reading, FunnelGap)
    steps, code = ([], reading.code) if is_gap else (reading, None)
    return FunnelSource("local", hash_of(plan, reading), steps, code, 5)


def shown(source: FunnelSource, plan: Any = FINDINGS_PLAN) -> dict[str, Any]:
    """What a runner sees of a source."""
    rows = [msgspec.to_builtins(row) for row in rows_of(source.steps)]
    return {**msgspec.to_builtins(plan), "source_hash": source.source_hash, "rows": rows}


SOURCE = source_of(STEPS)
SEEN = shown(SOURCE)


def refusal(report: dict[str, Any], source: FunnelSource = SOURCE, plan: Any = FINDINGS_PLAN) -> Rejection | None:
    try:
        require_held(plan, source, msgspec.convert(report, FunnelReviewOutput))
    except Rejection as refused:
        return refused
    return None


def test_a_source_is_named_by_what_is_in_it() -> None:
    """Whoever has the rows can name it: the periods are half-open, of one length, one after the other."""
    periods = {
        "period_start": 10 * WEEK,
        "period_end": 11 * WEEK,
        "prior_period_start": 9 * WEEK,
        "prior_period_end": 10 * WEEK,
    }
    whole = {"blueprint_id": "ordered-funnel-period-compare", "events": list(NAMES), "periods": periods}
    assert hash_of(FINDINGS_PLAN, STEPS) == canonical_sha256(whole | {"rows": SEEN["rows"]})
    assert hash_of(FINDINGS_PLAN, FunnelGap("provider_timeout")) == canonical_sha256(whole | {"rows": None})
    assert list(SEEN["rows"][0]) == [column.name for column in COLUMNS]


def test_a_conversion_is_a_share_of_the_first_step_and_none_of_nobody() -> None:
    assert [(row.prior_conversion, row.current_conversion) for row in rows_of(STEPS)] == [
        (1.0, 1.0),
        (0.6, 0.45),
        (0.3, 0.0),
    ]
    [row] = rows_of([FunnelStep("opened", 0, 3)])
    assert (row.prior_users, row.prior_conversion, row.current_conversion) == (0, None, 1.0)
    assert rows_of([]) == []


def test_what_the_source_says_is_taken() -> None:
    relative = metric(SEEN, 2, change=9 / 6)
    share = metric(SEEN, 2, "conversion", change=0.45 - 0.6 + 5e-7)
    half = metric(SEEN, 1, prior_value=None, change=None)
    bare = metric(SEEN, 1, prior_value=None, change=None, source_columns=[])
    unsaid = metric(SEEN, 3, change=None)
    assert refusal(report_on(SEEN)) is None
    assert refusal(report_on(SEEN, relative, share, half, bare, unsaid, hypothesis(evidence_columns=[]))) is None
    assert refusal(report_on(SEEN, findings=[], limitations=[])) is None


@pytest.mark.parametrize(
    ("name", "other"), [("source_hash", "0" * 64), ("period_start", 10 * WEEK - 1), ("period_end", 11 * WEEK + 1)]
)
def test_another_source_or_period_is_refused_with_both(name: str, other: Any) -> None:
    refused = refusal(report_on(SEEN, **{name: other}))
    assert isinstance(refused, SourceHashMismatch)
    assert refused.details == {"field": f"report.{name}", "expected": SEEN[name], "actual": other}


USERS, SHARES = [3, 6, 10], [0.3, 0.6, 1.0]
ALL = sorted({*USERS, *SHARES, 1.0})
CURRENT = [0, 0.45, 1.0, 9, 20]


@pytest.mark.parametrize(
    ("changes", "field", "expected", "actual"),
    [
        ({"prior_value": 7}, "prior_value", ALL, 7),
        ({"prior_value": 6.00001}, "prior_value", ALL, 6.00001),
        ({"prior_value": 20, "current_value": 10}, "prior_value", ALL, 20),
        ({"current_value": 20}, "current_value", [9], 20),
        ({"current_value": 0.45}, "current_value", [9], 0.45),
        ({"current_value": -9}, "current_value", [9], -9),
        ({"prior_value": None, "change": None, "current_value": 8}, "current_value", CURRENT, 8),
        ({"change": 4}, "change", [1.5, 3], 4),
        ({"change": -3}, "change", [1.5, 3], -3),
        ({"prior_value": None, "change": 3}, "change", [], 3),
        ({"current_value": None, "change": None}, "current_value", [9], None),
        ({"prior_value": None, "current_value": None, "change": None}, "current_value", CURRENT, None),
    ],
)
def test_a_metric_that_says_something_else_is_refused_with_both(
    changes: dict[str, Any], field: str, expected: list[float], actual: float | None
) -> None:
    """G-146: a prior value, the current one of the same row and measure, their difference or ratio."""
    refused = refusal(report_on(SEEN, hypothesis(), metric(SEEN, 2, **changes)))
    assert isinstance(refused, ReportValuesDiffer)
    assert refused.details == {"field": f"report.findings[1].{field}", "expected": expected, "actual": actual}


def test_one_of_a_million_people_is_another_number() -> None:
    """The tolerance is for shares that were rounded; a count is itself, however great it is."""
    source = source_of([FunnelStep("opened", 5_000_000, 6_000_000), FunnelStep("paid", 2_000_000, 3_000_000)])
    seen = shown(source)
    assert refusal(report_on(seen, metric(seen, 2)), source) is None
    for changes in (
        {"prior_value": 2_000_001},
        {"current_value": 2_999_999},
        {"change": 1_000_001},
        {"change": 1.500002},
    ):
        assert isinstance(refusal(report_on(seen, metric(seen, 2, **changes)), source), ReportValuesDiffer), changes


def test_no_share_stands_where_nobody_began() -> None:
    """Null is the value of a current column that has none, and of no other."""
    plan = plan_of(NAMES, 0, 10 * WEEK, 11 * WEEK)
    source = source_of([FunnelStep("opened", 4, 0), FunnelStep("added", 2, 0), FunnelStep("paid", 1, 0)], plan)
    seen = shown(source, plan)
    share = metric({"rows": seen["rows"]}, 2, current_value=None, change=None)
    assert refusal(report_on(seen, share | {"prior_value": 0.5}), source, plan) is None
    assert isinstance(refusal(report_on(seen, share), source, plan), ReportValuesDiffer)


def test_nothing_is_divided_by_nobody() -> None:
    """From nobody to some there is a difference and no ratio; no share of nobody is zero."""
    source = source_of([FunnelStep("opened", 4, 4), FunnelStep("added", 0, 2), FunnelStep("paid", 0, 0)])
    seen = shown(source)
    assert refusal(report_on(seen, metric(seen, 2, change=2)), source) is None
    assert isinstance(refusal(report_on(seen, metric(seen, 2, change=0)), source), ReportValuesDiffer)


@pytest.mark.parametrize(
    "finding", [metric(SEEN, source_columns=["step", "revenue"]), hypothesis(evidence_columns=["step", "x"])]
)
def test_a_column_that_the_source_has_not_is_refused_without_its_text(finding: dict[str, Any]) -> None:
    """The name is the runner's text: it is pointed at, and not repeated."""
    refused = refusal(report_on(SEEN, finding))
    assert isinstance(refused, ReportValuesDiffer)
    columns = "source_columns" if finding["kind"] == "metric" else "evidence_columns"
    known = [column.name for column in COLUMNS]
    assert refused.details == {"field": f"report.findings[0].{columns}[1]", "expected": known}


@pytest.mark.parametrize("reading", [[FunnelStep(event, 2, 50) for event in NAMES], FunnelGap("provider_timeout")])
@pytest.mark.parametrize("finding", [metric(SEEN), hypothesis()])
def test_below_the_sample_gaps_alone_are_taken(reading: Any, finding: dict[str, Any]) -> None:
    """The smaller period counts; a source that could not be read has no sample at all, not one of zero."""
    source = source_of(reading)
    seen = shown(source)
    assert not sample_met(FINDINGS_PLAN, source)
    assert refusal(report_on(seen, gap(), gap()), source) is None
    refused = refusal(report_on(seen, gap(), finding), source)
    assert isinstance(refused, InsufficientSample)
    sample = 2 if source.steps else None
    assert refused.details == {
        "field": "report.findings[1].kind",
        "expected": "readiness_gap",
        "actual": finding["kind"],
        "sample_size": sample,
        "minimum_sample_size": 3,
    }


def test_the_minimum_itself_is_enough() -> None:
    assert sample_met(FINDINGS_PLAN, source_of([FunnelStep("opened", 3, 3)]))


def test_every_gap_has_words() -> None:
    assert all(FunnelGap(code).message for code in GAPS)


@given(
    steps=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=2, max_size=20),
    step=st.integers(0, 19),
    measure=st.sampled_from(["users", "conversion"]),
)
def test_every_row_of_every_source_can_be_reported(steps: list[tuple[int, int]], step: int, measure: str) -> None:
    """As it is shown, through JSON: rounding never stands in the way of an honest report."""
    plan = plan_of([f"e{n}" for n in range(len(steps))], 1, 10 * WEEK, 11 * WEEK)
    first = (max(1, *(p for p, _ in steps)), max(1, *(c for _, c in steps)))
    source = source_of([FunnelStep(f"e{n}", *counts) for n, counts in enumerate([first, *steps[1:]])], plan)
    seen = msgspec.json.decode(msgspec.json.encode(shown(source, plan)))
    assert refusal(report_on(seen, metric(seen, 1 + step % len(steps), measure)), source, plan) is None


# The machine of a report: every edge and non-edge of G-112, one source and one record for ever.

REPORT_EVENTS = (r.ReportSourceIntended, r.ReportSourceMaterialized, r.ReportRecorded)
EDGES = [
    (r.ReportSourceIntended.TOPIC, Status.ABSENT, Status.INTENDED),
    (r.ReportSourceMaterialized.TOPIC, Status.INTENDED, Status.MATERIALIZED),
    (r.ReportRecorded.TOPIC, Status.MATERIALIZED, Status.RECORDED),
]
REPORT_PLAN = plan_of(["opened", "paid"], 1, 2_000_000, 3_000_000)
WISH = SourceWish(run_id="run_1", automation_id="review", plan=REPORT_PLAN, state_revision=1, patient_until=400)
READINGS: list[Any] = [
    [FunnelStep("opened", 4, 5), FunnelStep("paid", 1, 3)],
    [FunnelStep("opened", 9, 9), FunnelStep("paid", 2, 2)],
    FunnelGap("provider_unreachable"),
    FunnelGap("period_not_kept"),
]


def test_a_report_moves_along_the_edges_only() -> None:
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in REPORT_EVENTS})


def test_what_was_released_is_read_and_written_to_the_byte() -> None:
    check_released(MACHINE, [example(event) for event in REPORT_EVENTS])


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
        seen = {**msgspec.to_builtins(REPORT_PLAN), "source_hash": "0" * 64, "rows": rows}
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
        assert topics == [event.TOPIC for event in REPORT_EVENTS][: len(topics)]
        if self.state.source is not None:
            self.sources.add(self.state.source.source_hash)
        assert len(self.sources) <= 1

    def teardown(self) -> None:
        stored = [msgspec.json.decode(msgspec.json.encode(event), type=type(event)) for event in self.events]
        assert replay(MACHINE, stored) == self.state


TestReporting = few_or_many(15, 60, stateful_step_count=20)(Reporting)
