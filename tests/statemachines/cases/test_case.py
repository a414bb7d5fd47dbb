"""A case: every edge, every non-edge, replay and repetition (G-050, G-118, G-121)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.cases import case
from statemachines.cases.case import Case, Status
from statemachines.cases.suppression import Action, Rule
from statemachines.kernel.canonical import canonical
from statemachines.kernel.machine import replay
from tests.statemachines.tables import History, check_table

FINGERPRINT = "ab" * 16
RULES = {action: Rule(f"sup_{action.value}", "*", action) for action in Action}
IGNORE, RESOLVE = RULES[Action.AUTO_IGNORE], RULES[Action.AUTO_RESOLVE]
EXAMPLES = {
    case.CaseOpened.TOPIC: case.CaseOpened(FINGERPRINT, 1, 5),
    case.CaseOpenedIgnored.TOPIC: case.CaseOpenedIgnored(FINGERPRINT, 1, IGNORE.id, 5),
    case.CaseOpenedResolved.TOPIC: case.CaseOpenedResolved(FINGERPRINT, 1, RESOLVE.id, 5),
    case.CaseImported.TOPIC: case.CaseImported(FINGERPRINT, 1, 5),
    case.CaseImportedResolved.TOPIC: case.CaseImportedResolved(FINGERPRINT, 1, None, 5),
    case.CaseImportedIgnored.TOPIC: case.CaseImportedIgnored(FINGERPRINT, 1, IGNORE.id, 5),
    case.CaseOverflowOpened.TOPIC: case.CaseOverflowOpened("overflow-3600", 3600, 5),
    case.CaseRegressed.TOPIC: case.CaseRegressed(6),
    case.CaseIgnored.TOPIC: case.CaseIgnored(None, "arun_1", 7),
    case.CaseResolved.TOPIC: case.CaseResolved(None, "run_1", 8),
    case.CaseResolvedByMember.TOPIC: case.CaseResolvedByMember(9),
    case.CaseIgnoredByMember.TOPIC: case.CaseIgnoredByMember(9),
    case.CaseReopened.TOPIC: case.CaseReopened(9),
    case.CaseOverflowReopened.TOPIC: case.CaseOverflowReopened(9),
    case.CaseAssigned.TOPIC: case.CaseAssigned("usr_1", 9),
    case.CaseMerged.TOPIC: case.CaseMerged("case_2", 9),
    case.CaseSplitOff.TOPIC: case.CaseSplitOff("case_2", 9),
    case.CaseAbsorbed.TOPIC: case.CaseAbsorbed("case_3", 9),
    case.CaseReleased.TOPIC: case.CaseReleased("case_3", 9),
}
OPEN, RESOLVED, IGNORED = Status.OPEN, Status.RESOLVED, Status.IGNORED


def test_a_case_moves_along_the_edges_only():
    check_table(
        case.MACHINE,
        [
            (case.CaseOpened.TOPIC, Status.ABSENT, Status.OPEN),
            (case.CaseOpenedIgnored.TOPIC, Status.ABSENT, Status.IGNORED),
            (case.CaseOpenedResolved.TOPIC, Status.ABSENT, Status.RESOLVED),
            (case.CaseImported.TOPIC, Status.ABSENT, Status.OPEN),
            (case.CaseImportedResolved.TOPIC, Status.ABSENT, Status.RESOLVED),
            (case.CaseImportedIgnored.TOPIC, Status.ABSENT, Status.IGNORED),
            (case.CaseRegressed.TOPIC, Status.RESOLVED, Status.OPEN),
            (case.CaseIgnored.TOPIC, Status.OPEN, Status.IGNORED),
            (case.CaseResolved.TOPIC, Status.OPEN, Status.RESOLVED),
            (case.CaseOverflowOpened.TOPIC, Status.ABSENT, Status.OVERFLOW),
            (case.CaseIgnored.TOPIC, Status.OVERFLOW, Status.IGNORED),
            *((case.CaseResolvedByMember.TOPIC, source, RESOLVED) for source in (OPEN, IGNORED)),
            *((case.CaseIgnoredByMember.TOPIC, source, IGNORED) for source in (OPEN, RESOLVED, Status.OVERFLOW)),
            *((case.CaseReopened.TOPIC, source, OPEN) for source in (RESOLVED, IGNORED)),
            (case.CaseOverflowReopened.TOPIC, IGNORED, Status.OVERFLOW),
            *((case.CaseAssigned.TOPIC, source, source) for source in (OPEN, RESOLVED, IGNORED)),
            *((case.CaseMerged.TOPIC, source, Status.MERGED) for source in (OPEN, RESOLVED, IGNORED, Status.MERGED)),
            (case.CaseSplitOff.TOPIC, Status.MERGED, OPEN),
            *((case.CaseAbsorbed.TOPIC, source, source) for source in (OPEN, RESOLVED, IGNORED)),
            *((case.CaseReleased.TOPIC, source, source) for source in (OPEN, RESOLVED, IGNORED)),
        ],
        EXAMPLES,
    )


def test_an_overflow_case_is_opened_once_and_can_only_be_ignored():
    """No run closes it, and no error moves it: nothing makes an open case of it (G-136)."""
    [opened] = case.decide_overflow(Case(), 3600, 9)
    assert opened == case.CaseOverflowOpened("overflow-3600", 3600, 9)
    state = case.evolve(Case(), opened)
    assert state == Case(Status.OVERFLOW, 1, "overflow-3600")
    assert case.is_overflow(state.fingerprint)
    assert not case.is_overflow(FINGERPRINT)
    assert not case.moves_on_error(state)
    assert case.decide_overflow(state, 3600, 9) == []
    assert case.decide_error(state, FINGERPRINT, 1, None, 9) == []
    assert case.decide_resolve(state, "run_1", 9) == []
    assert case.decide_suppress(state, RESOLVE, 9) == []
    assert case.decide_suppress(state, IGNORE, 9) == [case.CaseIgnored(IGNORE.id, None, 9)]
    assert case.decide_mark_spurious(state, "arun_1", 9) == [case.CaseIgnored(None, "arun_1", 9)]


def in_status(status: Status, revision: int = 3) -> Case:
    return Case(status, revision, FINGERPRINT, 1)


@pytest.mark.parametrize(
    ("status", "rule", "expected"),
    [
        (Status.ABSENT, None, case.CaseOpened(FINGERPRINT, 1, 9)),
        (Status.ABSENT, IGNORE, case.CaseOpenedIgnored(FINGERPRINT, 1, IGNORE.id, 9)),
        (Status.ABSENT, RESOLVE, case.CaseOpenedResolved(FINGERPRINT, 1, RESOLVE.id, 9)),
        (Status.OPEN, None, None),
        (Status.OPEN, IGNORE, None),
        (Status.OPEN, RESOLVE, None),
        (Status.RESOLVED, None, case.CaseRegressed(9)),
        (Status.RESOLVED, IGNORE, case.CaseRegressed(9)),
        (Status.RESOLVED, RESOLVE, None),
        (Status.MERGED, None, None),
        (Status.IGNORED, None, None),
        (Status.IGNORED, IGNORE, None),
        (Status.IGNORED, RESOLVE, None),
    ],
)
def test_an_error_opens_counts_or_reopens(status, rule, expected):
    """Every row of the ingest part of G-050."""
    events = case.decide_error(in_status(status), FINGERPRINT, 1, rule, 9)
    assert events == ([] if expected is None else [expected])


@pytest.mark.parametrize("rule", [None, IGNORE, RESOLVE])
@pytest.mark.parametrize("wished", [OPEN, RESOLVED, IGNORED])
def test_an_error_of_an_export_opens_and_moves_nothing(wished, rule):
    """The state of its issue is that of the new case. A rule decides where the issue was open."""
    settled = rule is not None and wished is OPEN
    rule_id = rule.id if settled else None
    status = {IGNORE: IGNORED, RESOLVE: RESOLVED}[rule] if settled else wished
    expected = {
        OPEN: case.CaseImported(FINGERPRINT, 1, 9),
        RESOLVED: case.CaseImportedResolved(FINGERPRINT, 1, rule_id, 9),
        IGNORED: case.CaseImportedIgnored(FINGERPRINT, 1, rule_id, 9),
    }[status]
    events = case.decide_import(Case(), FINGERPRINT, 1, wished, rule, 9)
    assert events == [expected]
    state = case.evolve(Case(), events[0])
    resolved_at = 9 if status is RESOLVED else None
    assert state == Case(status, 1, FINGERPRINT, 1, rule_id, resolved_at, imported=True)
    for other in (OPEN, RESOLVED, IGNORED, Status.MERGED, Status.OVERFLOW):
        assert case.decide_import(in_status(other), FINGERPRINT, 1, wished, rule, 9) == []
    assert case.decide_error(state, FINGERPRINT, 1, None, 10) == (
        [case.CaseRegressed(10)] if status is RESOLVED else []
    )


def test_an_error_of_a_release_that_was_replaced_before_only_counts():
    """It opens what is new all the same, and says nothing about what is open (G-144)."""
    for status, expected in ((Status.RESOLVED, []), (Status.ABSENT, [case.CaseOpened(FINGERPRINT, 1, 9)])):
        assert case.decide_error(in_status(status), FINGERPRINT, 1, None, 9, outdated=True) == expected


@pytest.mark.parametrize("status", [Status.ABSENT, Status.RESOLVED, Status.IGNORED, Status.MERGED])
def test_only_an_open_case_can_be_closed(status):
    state = in_status(status)
    assert [case.decide_suppress(state, rule, 9) for rule in RULES.values()] == [[], [], []]
    assert case.decide_mark_spurious(state, "arun_1", 9) == []
    assert case.decide_resolve(state, "run_1", 9) == []


def test_an_open_case_is_closed_by_rules_people_and_runs():
    state = in_status(Status.OPEN)
    assert case.decide_suppress(state, IGNORE, 9) == [case.CaseIgnored(IGNORE.id, None, 9)]
    assert case.decide_suppress(state, RESOLVE, 9) == [case.CaseResolved(RESOLVE.id, None, 9)]
    assert case.decide_suppress(state, RULES[Action.PROMPT_HINT], 9) == []
    assert case.decide_mark_spurious(state, "arun_1", 9) == [case.CaseIgnored(None, "arun_1", 9)]
    assert case.decide_resolve(state, "run_1", 9, 5) == [case.CaseResolved(None, "run_1", 9, 5)]


def test_an_error_from_before_the_repair_is_late_for_a_day():
    """Before the deploy of a run, else before the case was resolved. Nothing is late for an open case (G-193)."""
    resolved = in_status(Status.OPEN)
    for event, repaired_at in (
        (case.CaseResolvedByMember(900), 900),
        (case.CaseResolved(None, "run_1", 900, 500), 500),
    ):
        state = case.evolve(resolved, event)
        assert case.arrived_late(state, repaired_at - 1, repaired_at)
        assert case.arrived_late(state, 0, repaired_at + case.LATE)
        assert not case.arrived_late(state, 0, repaired_at + case.LATE + 1)
        assert not case.arrived_late(state, repaired_at, repaired_at + 1)
        again = case.evolve(state, case.CaseRegressed(1000))
        assert not case.arrived_late(again, 0, 1001)
        assert again.deployed_at is None
    assert not case.arrived_late(resolved, 0, 1)


@pytest.mark.parametrize("event", EXAMPLES.values(), ids=EXAMPLES)
def test_stored_events_stay_readable(event):
    golden = (Path(__file__).parents[2] / "golden" / "events" / f"{event.TOPIC}.json").read_bytes()
    assert msgspec.json.decode(golden, type=type(event)) == event
    assert canonical(msgspec.to_builtins(event)) == golden


def test_a_case_has_one_id_per_project_and_fingerprint():
    ids = {case.case_id(p, f) for p in ("proj_1", "proj_2") for f in (FINGERPRINT, "cd" * 16)}
    assert len(ids) == 4
    assert all(found.startswith("case_") and len(found) == 31 for found in ids)
    assert case.case_id("proj_1", FINGERPRINT) in ids


class CaseMachine(RuleBasedStateMachine):
    """A case against a plain model: status, client revision, the rule behind the status."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(case.MACHINE)
        self.model: tuple[Status, int, str | None] = (Status.ABSENT, 0, None)

    def moved(self, status: Status, rule_id: str | None = None) -> None:
        self.model = (status, self.model[1] + 1, rule_id)

    @rule(settling=st.sampled_from([None, IGNORE, RESOLVE]), now=st.integers(1))
    def receive_an_error(self, settling, now):
        self.history.carry_out(lambda state: case.decide_error(state, FINGERPRINT, 1, settling, now))
        if self.model[0] is Status.ABSENT:
            opened = {None: Status.OPEN, IGNORE: Status.IGNORED, RESOLVE: Status.RESOLVED}
            self.moved(opened[settling], settling.id if settling else None)
        elif self.model[0] is Status.RESOLVED and settling is not RESOLVE:
            self.moved(Status.OPEN)

    @rule(new=st.sampled_from(list(RULES.values())), now=st.integers(1))
    def suppress(self, new, now):
        self.history.carry_out(lambda state: case.decide_suppress(state, new, now))
        closed = {IGNORE: Status.IGNORED, RESOLVE: Status.RESOLVED}
        if self.model[0] is Status.OPEN and new in closed:
            self.moved(closed[new], new.id)

    @rule(now=st.integers(1))
    def mark_spurious(self, now):
        self.history.carry_out(lambda state: case.decide_mark_spurious(state, "arun_1", now))
        if self.model[0] is Status.OPEN:
            self.moved(Status.IGNORED)

    @rule(now=st.integers(1))
    def resolve(self, now):
        self.history.carry_out(lambda state: case.decide_resolve(state, "run_1", now))
        if self.model[0] is Status.OPEN:
            self.moved(Status.RESOLVED)

    @rule(now=st.integers(1))
    def resolve_by_member(self, now):
        if self.model[0] in {OPEN, RESOLVED, IGNORED}:
            self.history.carry_out(lambda state: case.decide_resolve_by_member(state, now))
            if self.model[0] is not RESOLVED:
                self.moved(RESOLVED)

    @rule(now=st.integers(1))
    def ignore_by_member(self, now):
        if self.model[0] in {OPEN, RESOLVED, IGNORED}:
            self.history.carry_out(lambda state: case.decide_ignore_by_member(state, now))
            if self.model[0] is not IGNORED:
                self.moved(IGNORED)

    @rule(now=st.integers(1))
    def reopen(self, now):
        if self.model[0] in {OPEN, RESOLVED, IGNORED}:
            self.history.carry_out(lambda state: case.decide_reopen(state, now))
            if self.model[0] is not OPEN:
                self.moved(OPEN)

    @rule(user=st.sampled_from(["usr_1", "usr_2", None]), now=st.integers(1))
    def assign(self, user, now):
        if self.model[0] in {OPEN, RESOLVED, IGNORED}:
            self.history.carry_out(lambda state: case.decide_assign(state, user, now))
            assert self.history.state.assignee == user

    @invariant()
    def folds(self):
        self.history.check()
        state = self.history.state
        assert (state.status, state.revision, state.suppression_id) == self.model
        assert state.fingerprint == (FINGERPRINT if self.model[1] else "")
        assert case.moves_on_error(state) is (self.model[0] in {Status.ABSENT, Status.RESOLVED})
        assert replay(case.MACHINE, self.history.events) == state


TestCase = CaseMachine.TestCase
