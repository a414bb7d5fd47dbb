"""Rules: patterns, which rule counts, every edge and repetition (R-CASE-12, G-053)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.cases import suppression as suppressions
from statemachines.cases.suppression import Action, HintMissing, Rule, Status, TooManyRules, settling_rule
from statemachines.kernel.shapes import matches
from tests.statemachines.tables import History, check_released, check_table

CREATED = suppressions.SuppressionCreated("sup_1", "*", "auto_ignore", None, None, 5)
REMOVED = suppressions.SuppressionRemoved("sup_1", 6)


def test_the_rules_of_a_project_move_along_the_edges_only():
    check_table(
        suppressions.MACHINE,
        [
            (CREATED.TOPIC, Status.NONE, Status.SOME),
            (CREATED.TOPIC, Status.SOME, Status.SOME),
            (REMOVED.TOPIC, Status.SOME, Status.SOME),
        ],
        {CREATED.TOPIC: CREATED, REMOVED.TOPIC: REMOVED},
    )


@given(st.text("ab*.", max_size=8), st.text("ab.*", max_size=12))
def test_a_star_is_any_run_of_characters_and_all_else_is_literal(pattern, text):
    oracle = ".*".join(map(re.escape, pattern.split("*")))
    assert matches(pattern, text) is (re.fullmatch(oracle, text, re.DOTALL) is not None)


def test_a_pattern_made_to_be_slow_is_not():
    """A backtracking matcher would take longer than the age of the universe."""
    assert not matches("*a" * 99 + "b", "a" * 4000)


def test_the_newest_settling_rule_counts_and_hints_never_do():
    old, new = Rule("sup_1", "ab*", Action.AUTO_IGNORE), Rule("sup_2", "*cd", Action.AUTO_RESOLVE)
    hint, other = Rule("sup_3", "*", Action.PROMPT_HINT), Rule("sup_4", "xy", Action.AUTO_IGNORE)
    assert settling_rule([old, new, hint, other], "abcd") is new
    assert settling_rule([new, old, hint, other], "abcd") is old
    assert settling_rule([hint, other], "abcd") is None


def create(state, rule_id, *, action=Action.AUTO_IGNORE, hint=None, now=5):
    return suppressions.decide_create(
        state, id=rule_id, fingerprint_pattern="*", action=action, reason=None, hint_text=hint, now=now
    )


@pytest.mark.parametrize("hint", [None, ""])
def test_a_hint_that_says_nothing_is_refused(hint):
    with pytest.raises(HintMissing):
        create(suppressions.Suppressions(), "sup_1", action=Action.PROMPT_HINT, hint=hint)


def test_rules_are_bounded():
    rules = tuple(Rule(f"sup_{n}", "*", Action.AUTO_IGNORE) for n in range(suppressions.MAX_RULES))
    full = suppressions.Suppressions(Status.SOME, rules)
    with pytest.raises(TooManyRules):
        create(full, "sup_new")
    assert create(full, "sup_1") == []


def test_stored_events_stay_readable():
    check_released(suppressions.MACHINE, [CREATED, REMOVED])


class SuppressionsMachine(RuleBasedStateMachine):
    """The rules of a project against a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(suppressions.MACHINE)
        self.model: dict[str, Action] = {}
        self.ever = False

    @rule(rule_id=st.sampled_from("abcd"), action=st.sampled_from(Action), now=st.integers(1))
    def create(self, rule_id, action, now):
        self.history.carry_out(lambda state: create(state, rule_id, action=action, hint="look", now=now))
        self.model.setdefault(rule_id, action)
        self.ever = True

    @rule(rule_id=st.sampled_from("abcd"), now=st.integers(1))
    def remove(self, rule_id, now):
        self.history.carry_out(lambda state: suppressions.decide_remove(state, rule_id, now))
        self.model.pop(rule_id, None)

    @invariant()
    def folds(self):
        self.history.check()
        assert [(r.id, r.action) for r in self.history.state.rules] == list(self.model.items())
        assert self.history.state.status is (Status.SOME if self.ever else Status.NONE)


TestSuppressions = SuppressionsMachine.TestCase
