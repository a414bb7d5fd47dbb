"""Saved views: every edge, their fence, their bound and repetition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.cases import view as views
from statemachines.cases.view import CaseViewNotFound, KeptView, Status, TooManyViews, ViewFilter, ViewWish
from statemachines.kernel.machine import IfMatchRequired, PreconditionFailed
from tests.statemachines.tables import History, check_released, check_table

FILTER = ViewFilter(text="card", tag="team=shop", seen_within=3600)
SAVED = views.CaseViewSaved("view_1", "Checkout", FILTER, "usr_1", 5)
CHANGED = views.CaseViewChanged("view_1", "Checkout", ViewFilter(status="all"), "usr_2", 6)
REMOVED = views.CaseViewRemoved("view_1", 7)
WISH = ViewWish("Checkout", FILTER)
ONE = views.CaseViews(Status.SOME, (KeptView("view_1", 1, "Checkout", FILTER),))
TAG = '"view_1:1"'


def change(state: views.CaseViews, wish: ViewWish, tag: str | None = TAG, view_id: str = "view_1") -> Any:
    return views.decide_change(state, view_id, wish, if_match=tag, by="usr_2", now=6)


def test_the_views_of_a_project_move_along_the_edges_only():
    check_table(
        views.MACHINE,
        [
            (SAVED.TOPIC, Status.NONE, Status.SOME),
            (SAVED.TOPIC, Status.SOME, Status.SOME),
            (CHANGED.TOPIC, Status.SOME, Status.SOME),
            (REMOVED.TOPIC, Status.SOME, Status.SOME),
        ],
        {SAVED.TOPIC: SAVED, CHANGED.TOPIC: CHANGED, REMOVED.TOPIC: REMOVED},
    )


def test_a_change_needs_the_tag_of_its_view():
    other = ViewWish("Payments", FILTER)
    [changed] = change(ONE, other)
    assert (changed.name, changed.filter, changed.changed_by) == ("Payments", FILTER, "usr_2")
    assert change(ONE, WISH) == []  # it is so already
    with pytest.raises(IfMatchRequired):
        change(ONE, other, None)
    with pytest.raises(PreconditionFailed):
        change(views.evolve(ONE, changed), other)
    with pytest.raises(CaseViewNotFound):
        change(ONE, other, view_id="view_2")


def test_a_view_is_removed_once():
    assert views.decide_remove(ONE, "view_1", if_match=None, now=7) == [REMOVED]
    assert views.decide_remove(ONE, "view_1", if_match=TAG, now=7) == [REMOVED]
    with pytest.raises(PreconditionFailed):
        views.decide_remove(ONE, "view_1", if_match='"view_1:2"', now=7)
    with pytest.raises(CaseViewNotFound):
        views.decide_remove(views.evolve(ONE, REMOVED), "view_1", if_match=None, now=8)


def test_views_are_bounded():
    kept = tuple(KeptView(f"view_{n}", 1, "n", FILTER) for n in range(views.VIEWS_LIMIT))
    full = views.CaseViews(Status.SOME, kept)
    with pytest.raises(TooManyViews):
        views.decide_save(full, "view_new", WISH, by="usr_1", now=5)
    assert views.decide_save(full, "view_1", WISH, by="usr_1", now=5) == []


def test_stored_events_stay_readable():
    check_released(views.MACHINE, [SAVED, CHANGED, REMOVED])


class ViewsMachine(RuleBasedStateMachine):
    """The views of a project against a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(views.MACHINE)
        self.model: dict[str, tuple[str, int]] = {}

    @rule(view_id=st.sampled_from("abc"), name=st.sampled_from(["x", "y"]))
    def save(self, view_id, name):
        wish = ViewWish(name, FILTER)
        self.history.carry_out(lambda state: views.decide_save(state, view_id, wish, by="usr_1", now=1))
        self.model.setdefault(view_id, (name, 1))

    @rule(view_id=st.sampled_from("abc"), name=st.sampled_from(["x", "y"]))
    def change(self, view_id, name):
        if view_id not in self.model:
            return
        before, revision = self.model[view_id]
        tag = views.make_etag(view_id, revision)
        [*events] = change(self.history.state, ViewWish(name, FILTER), tag, view_id)
        once = iter([events, []])
        self.history.carry_out(lambda _: next(once))
        self.model[view_id] = (name, revision + (name != before))

    @rule(view_id=st.sampled_from("abc"))
    def remove(self, view_id):
        if self.model.pop(view_id, None) is not None:
            events = views.decide_remove(self.history.state, view_id, if_match=None, now=1)
            once = iter([events, []])
            self.history.carry_out(lambda _: next(once))

    @invariant()
    def folds(self):
        self.history.check()
        kept = {view.id: (view.name, view.revision) for view in self.history.state.views}
        assert kept == self.model


TestViews = ViewsMachine.TestCase
