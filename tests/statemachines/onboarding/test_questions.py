"""Questions of a signal map: the standing of each, and the gaps behind it (G-061, G-062, G-157)."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.onboarding.plan import Milestone, Plan
from statemachines.onboarding.proof import (
    FUNNEL_STEPS,
    NO_QUESTIONS,
    GapCode,
    QuestionStatus,
    SeenRows,
    SeenSignals,
    assess_questions,
    funnel_steps,
)
from tests.support.plans import make_plan

FAILURE = SeenRows(1, 10)
SIGNUP, PAID = ("signup", ("plan",)), ("paid", ("plan", "amount"))
READY, BLOCKED, PENDING = QuestionStatus.READY, QuestionStatus.BLOCKED, QuestionStatus.PENDING


def plan_of(*milestones: tuple[str, tuple[str, ...]]) -> Plan:
    made = tuple(Milestone(event, "meaning", "browser_provider", names, ()) for event, names in milestones)
    return msgspec.structs.replace(make_plan(), milestones=made)


def seen(failure: SeenRows | None = FAILURE, **events: tuple[str, ...]) -> SeenSignals:
    return SeenSignals({name: SeenRows(1, 10, frozenset(keys)) for name, keys in events.items()}, failure)


@pytest.mark.parametrize(
    ("signals", "gaps", "standings"),
    [
        (seen(None), 3, [PENDING, PENDING, PENDING]),
        (seen(signup=("plan",)), 1, [PENDING, READY, PENDING]),
        (seen(signup=()), 2, [BLOCKED, BLOCKED, PENDING]),
        (seen(signup=("plan",), paid=("plan",)), 1, [BLOCKED, READY, BLOCKED]),
        (seen(signup=("plan",), paid=("plan", "amount", "more")), 0, [READY, READY, READY]),
        (seen(None, signup=("plan",), paid=("plan", "amount")), 1, [READY, READY, READY]),
        (None, 0, [READY, READY, READY]),
    ],
)
def test_questions_without_their_data_are_counted(signals, gaps, standings):
    """A missing error is a gap, and holds up no question; a verified source has none."""
    questions = assess_questions(plan_of(SIGNUP, PAID), signals)
    assert [question.status for question in questions.asked] == standings
    assert [question.id for question in questions.asked] == ["funnel", "milestone-1", "milestone-2"]
    assert len(questions.gaps) == gaps
    assert (questions.blocked, questions.pending) == (standings.count(BLOCKED), standings.count(PENDING))
    assert questions.ready == (set(standings) == {READY})


def test_without_a_map_there_is_no_question():
    assert (NO_QUESTIONS.asked, NO_QUESTIONS.gaps, NO_QUESTIONS.ready) == ((), (), False)


def test_a_funnel_has_two_to_twenty_different_events():
    assert [q.id for q in assess_questions(plan_of(SIGNUP), seen()).asked] == ["milestone-1"]
    assert [q.id for q in assess_questions(plan_of(SIGNUP, SIGNUP), seen()).asked] == ["milestone-1", "milestone-2"]
    many = plan_of(*((f"step-{n}", ()) for n in (*range(25), 0)))
    funnel = assess_questions(many, seen()).asked[0]
    assert funnel_steps(many) == [f"step-{n}" for n in range(FUNNEL_STEPS)]
    assert len(funnel.milestones) == FUNNEL_STEPS + 1, "the last is one of the first twenty events again"
    assert len(funnel.blockers) == FUNNEL_STEPS, "a gap is named once"


NAMES = st.sampled_from(["a", "b", "c"])
PLANS = st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=3).map(tuple)), min_size=1, max_size=5)
SEEN = st.builds(
    SeenSignals,
    st.dictionaries(NAMES, st.frozensets(NAMES).map(lambda keys: SeenRows(1, 10, keys))),
    st.sampled_from([None, FAILURE]),
)


@given(PLANS, SEEN)
def test_the_standing_of_a_question_follows_from_its_gaps(milestones, signals):
    """By hand: what each milestone lacks, and the funnel what any of them lacks."""
    questions = assess_questions(plan_of(*milestones), signals)
    lacks = []
    for event, names in milestones:
        rows = signals.events.get(event)
        lacks.append("event" if rows is None else len(set(names) - rows.properties))
    standing = [PENDING if lack == "event" else BLOCKED if lack else READY for lack in lacks]
    asked = {question.id: question.status for question in questions.asked}
    assert [asked[f"milestone-{n}"] for n in range(1, len(milestones) + 1)] == standing
    if len({event for event, _ in milestones}) > 1:
        assert asked["funnel"] is (BLOCKED if BLOCKED in standing else PENDING if PENDING in standing else READY)
    else:
        assert "funnel" not in asked
    codes = Counter(gap.code for gap in questions.gaps)
    assert codes[GapCode.EVENT] == lacks.count("event")
    assert codes[GapCode.PROPERTY] == sum(lack for lack in lacks if lack != "event")
    assert codes[GapCode.ERROR] == (signals.failure is None)
