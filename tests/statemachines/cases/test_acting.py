"""Merge, split and the other deeds of members: as histories over many cases, and what is refused (G-145)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.cases import case
from statemachines.cases.case import Case, CaseConflict, CaseNotActionable, Merge, Status
from statemachines.kernel.machine import Moved, apply
from tests.statemachines.tables import History

NAMES = "abcdef"


def opened(name: str) -> Case:
    return case.evolve(Case(), case.CaseOpened(name, 1, 5))


def merged(cases: dict[str, Case], case_id: str, into: str) -> dict[str, Case]:
    """The cases after a merge."""
    done = dict(cases)
    for name, events in case.merge_cases(Merge(case_id, into), cases, 9).items():
        for event in events:
            done[name] = case.evolve(done[name], event)
    return done


def test_a_merge_that_did_not_see_all_members_looks_again():
    cases = merged({name: opened(name) for name in "abc"}, "a", "b")
    with pytest.raises(Moved):
        case.merge_cases(Merge("b", "c"), {name: cases[name] for name in "bc"}, 9)


def test_a_case_takes_in_so_many_and_no_more():
    members = tuple(f"m{number}" for number in range(case.MAX_MEMBERS))
    full = Case(Status.OPEN, 1, "b", 1, members=members)
    with pytest.raises(CaseConflict, match="its limit of merged cases"):
        case.merge_cases(Merge("a", "b"), {"a": opened("a"), "b": full}, 9)


@pytest.mark.parametrize("overflow", ["a", "b"])
def test_what_was_too_new_is_neither_merged_nor_merged_into(overflow: str):
    cases = {name: opened(name) for name in "ab"}
    cases[overflow] = case.evolve(Case(), case.CaseOverflowOpened(case.overflow_fingerprint(3600), 3600, 5))
    with pytest.raises(CaseNotActionable):
        case.merge_cases(Merge("a", "b"), cases, 9)
    ignored = case.evolve(cases[overflow], case.CaseIgnoredByMember(9))
    with pytest.raises(CaseNotActionable):
        case.merge_cases(Merge("a", "b"), {**cases, overflow: ignored}, 9)


def test_what_was_too_new_is_ignored_and_reopened_and_no_more():
    """It comes back as what it was, which wakes no automation (G-136, G-205)."""
    overflow = case.evolve(Case(), case.CaseOverflowOpened(case.overflow_fingerprint(3600), 3600, 5))
    [ignore] = case.decide_ignore_by_member(overflow, 9)
    ignored = case.evolve(overflow, ignore)
    [reopen] = case.decide_reopen(ignored, 10)
    assert reopen == case.CaseOverflowReopened(10)
    assert case.evolve(ignored, reopen) == Case(case.Status.OVERFLOW, 3, overflow.fingerprint)
    assert case.decide_reopen(overflow, 9) == case.decide_ignore_by_member(ignored, 9) == []
    for state, left in ((overflow, ignore), (ignored, reopen)):
        for decide in (case.decide_resolve_by_member, lambda state, now: case.decide_assign(state, "usr_1", now)):
            with pytest.raises(CaseNotActionable) as refused:
                decide(state, 9)
            assert refused.value.details["allowed_next"] == [left.TOPIC]


def test_a_revision_that_is_not_the_present_one_is_refused():
    case.require_revision(opened("a"), 1)
    for stale in (0, 2):
        with pytest.raises(CaseConflict) as refused:
            case.require_revision(opened("a"), stale)
        assert refused.value.details == {"case_revision": 1}


class Merges(RuleBasedStateMachine):
    """Six cases against a plain map of where the errors of each go."""

    def __init__(self) -> None:
        super().__init__()
        self.histories = {name: History(case.MACHINE) for name in NAMES}
        self.route: dict[str, str] = {}
        for name, history in self.histories.items():
            history.carry_out(lambda state, name=name: case.decide_error(state, name, 1, None, 5))

    def record(self, events) -> None:
        for name, recorded in events.items():
            history = self.histories[name]
            for event in recorded:
                history.state = apply(case.MACHINE, history.state, event)
                history.events.append(event)

    @property
    def states(self) -> dict[str, Case]:
        return {name: history.state for name, history in self.histories.items()}

    @rule(one=st.sampled_from(NAMES), into=st.sampled_from(NAMES), now=st.integers(1))
    def merge(self, one, into, now):
        wish = Merge(one, into)
        if self.route.get(one) == into:
            assert case.merge_cases(wish, self.states, now) == {}
        elif one == into or one in self.route or into in self.route:
            with pytest.raises((CaseConflict, CaseNotActionable)):
                case.merge_cases(wish, self.states, now)
        else:
            self.record(case.merge_cases(wish, self.states, now))
            for name, target in self.route.items():
                if target == one:
                    self.route[name] = into
            self.route[one] = into
            assert case.merge_cases(wish, self.states, now) == {}

    @rule(one=st.sampled_from(NAMES), member=st.sampled_from(NAMES), now=st.integers(1))
    def split(self, one, member, now):
        states = self.states
        if self.route.get(member) != one:
            with pytest.raises((CaseConflict, CaseNotActionable)):
                case.split_off(one, member, states[one], states[member], now)
        else:
            self.record(case.split_off(one, member, states[one], states[member], now))
            del self.route[member]
            assert self.states[member].status is Status.OPEN

    @rule(one=st.sampled_from(NAMES), now=st.integers(1))
    def resolve(self, one, now):
        if one not in self.route:
            self.histories[one].carry_out(lambda state: case.decide_resolve_by_member(state, now))

    @rule(one=st.sampled_from(NAMES), now=st.integers(1))
    def error(self, one, now):
        """What comes for a case moves the one that it leads to, and only that."""
        target = self.route.get(one, one)
        self.histories[target].carry_out(lambda state: case.decide_error(state, target, 1, None, now))
        assert self.states[target].status is Status.OPEN

    @invariant()
    def leads_one_step(self):
        for name, state in self.states.items():
            assert state.merged_into == self.route.get(name)
            assert (state.status is Status.MERGED) is (name in self.route)
            assert set(state.members) == {member for member, target in self.route.items() if target == name}
            assert len(set(state.members)) == len(state.members)
            self.histories[name].check()


TestMerges = Merges.TestCase
