"""Bindings of CI: every edge, the limit, the fence, what a binding is for, and repetition (G-171)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.credentials import binding as bindings
from statemachines.credentials.binding import (
    MOST_BINDINGS,
    Binding,
    Bindings,
    CiBindingAdded,
    CiBindingNotFound,
    CiBindingRemoved,
    Presented,
    Status,
    TooManyBindings,
    Workflow,
)
from statemachines.kernel.machine import Event, IfMatchRequired, PreconditionFailed
from tests.statemachines.tables import History, check_released, check_table

MAIN = Workflow("https://ci.example", "740001", "65001", "refs/heads/main", ".github/workflows/deploy.yml", None)
ADDED = CiBindingAdded("cib_1", "shop", MAIN, "usr_1", 5)
REMOVED = CiBindingRemoved("cib_1", "usr_1", 6)
MINE = "proj_1"


def add(state: Bindings, bound: Workflow = MAIN, *, if_match: str | None = None) -> list[Event]:
    return bindings.decide_add(state, "shop", bound, project_id=MINE, if_match=if_match, by="usr_1", now=5)


def remove(state: Bindings, binding_id: str, *, if_match: str | None) -> list[Event]:
    return bindings.decide_remove(state, binding_id, project_id=MINE, if_match=if_match, by="usr_1", now=6)


def of(number: int) -> Workflow:
    return msgspec.structs.replace(MAIN, repository_id=str(number))


def test_bindings_move_along_the_edges_only() -> None:
    check_table(
        bindings.MACHINE,
        [
            (ADDED.TOPIC, Status.NONE, Status.SOME),
            (ADDED.TOPIC, Status.SOME, Status.SOME),
            (REMOVED.TOPIC, Status.SOME, Status.SOME),
        ],
        {ADDED.TOPIC: ADDED, REMOVED.TOPIC: REMOVED},
    )


def test_stored_events_stay_readable() -> None:
    bound = Workflow("issuer_1", "repository_id_1", "owner_id_1", "ref_1", "workflow_1", "environment_1")
    check_released(
        bindings.MACHINE,
        [
            CiBindingAdded("binding_id_1", "name_1", bound, "added_by_1", 1_800_000_000),
            CiBindingRemoved("binding_id_1", "removed_by_1", 1_800_000_000),
        ],
    )


def test_a_project_has_so_many_bindings_and_no_more() -> None:
    history = History(bindings.MACHINE)
    for number in range(1, MOST_BINDINGS + 1):
        assert len(history.carry_out(lambda state, n=number: add(state, of(n)))) == 1
    history.refuses(lambda state: add(state, of(99)), TooManyBindings)
    assert history.carry_out(lambda state: add(state, of(7))) == []
    gone = history.state.bindings[6]
    tag = bindings.make_etag(MINE, history.state.revision)
    [removed] = remove(history.state, gone.id, if_match=tag)
    history.state = bindings.evolve(history.state, removed)
    [again] = add(history.state, of(7))
    assert isinstance(again, CiBindingAdded)
    assert again.binding_id not in {binding.id for binding in history.state.bindings} | {gone.id}


def test_a_removal_needs_the_present_tag_and_a_stale_one_adds_nothing() -> None:
    state = bindings.evolve(Bindings(), ADDED)
    with pytest.raises(CiBindingNotFound):
        remove(state, "cib_2", if_match=None)
    with pytest.raises(IfMatchRequired):
        remove(state, "cib_1", if_match=None)
    for stale in ('"cib:proj_1:2"', '"cib:proj_2:1"', '""'):
        for wish in (lambda tag: remove(state, "cib_1", if_match=tag), lambda tag: add(state, of(2), if_match=tag)):
            with pytest.raises(PreconditionFailed) as refused:
                wish(stale)
            assert refused.value.details == {"current_etag": '"cib:proj_1:1"'}
    assert len(add(Bindings(), if_match='"cib:proj_1:0"')) == 1
    assert len(remove(state, "cib_1", if_match='"cib:proj_1:1"')) == 1


@pytest.mark.parametrize(
    ("bound", "ran", "good"),
    [
        ({}, {}, True),
        ({}, {"repository_id": "740002"}, False),
        ({}, {"owner_id": "65002"}, False),
        ({}, {"issuer": "https://other.example"}, False),
        ({}, {"workflow": ".github/workflows/other.yml"}, False),
        ({}, {"ref": "refs/heads/main2"}, False),
        ({}, {"ref": "refs/tags/main"}, False),
        ({}, {"environment": "production"}, True),
        ({"environment": "production"}, {"environment": "production"}, True),
        ({"environment": "production"}, {"environment": "Production"}, False),
        ({"environment": "production"}, {}, False),
        ({"ref": "refs/heads/release/*"}, {"ref": "refs/heads/release/1.2"}, True),
        ({"ref": "refs/heads/release/*"}, {"ref": "refs/heads/releases/1.2"}, False),
        ({"ref": "refs/heads/*"}, {"ref": "refs/tags/v1"}, False),
        ({"ref": "refs/heads/*"}, {"ref": "refs/pull/7/merge"}, False),
        ({"ref": "refs/tags/v*"}, {"ref": "refs/tags/v1.0"}, True),
        ({"workflow": "*"}, {}, False),
    ],
)
def test_a_binding_is_for_the_runs_that_it_names(bound: dict[str, str], ran: dict[str, str], good: bool) -> None:
    binding = Binding("cib_1", "shop", msgspec.structs.replace(MAIN, **bound), "usr_1", 5)
    run = Presented("jti", "acme/shop", "9001", msgspec.structs.replace(MAIN, **ran))
    assert bindings.permits(binding, run) is good


class BindingsMachine(RuleBasedStateMachine):
    """The bindings of a project against a plain dict of what is bound by id."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(bindings.MACHINE)
        self.model: dict[str, Workflow] = {}
        self.ever: set[str] = set()

    @rule(number=st.integers(1, 60))
    def add(self, number: int) -> None:
        bound = of(number)
        if bound not in self.model.values() and len(self.model) == MOST_BINDINGS:
            self.history.refuses(lambda state: add(state, bound), TooManyBindings)
            return
        for event in self.history.carry_out(lambda state: add(state, bound)):
            assert isinstance(event, CiBindingAdded)
            assert event.binding_id not in self.ever
            self.ever.add(event.binding_id)
            self.model[event.binding_id] = bound

    @rule(place=st.integers(0, 100))
    def remove(self, place: int) -> None:
        if not self.model:
            return
        chosen = sorted(self.model)[place % len(self.model)]
        tag = bindings.make_etag(MINE, self.history.state.revision)
        [event] = remove(self.history.state, chosen, if_match=tag)
        self.history.state = bindings.evolve(self.history.state, event)
        self.history.events.append(event)
        del self.model[chosen]
        self.history.refuses(lambda state: remove(state, chosen, if_match=tag), CiBindingNotFound)

    @rule(place=st.integers(0, 100), back=st.integers(1, 5))
    def remove_by_a_stale_tag(self, place: int, back: int) -> None:
        if self.model:
            chosen = sorted(self.model)[place % len(self.model)]
            tag = bindings.make_etag(MINE, self.history.state.revision - back)
            self.history.refuses(lambda state: remove(state, chosen, if_match=tag), PreconditionFailed)

    @invariant()
    def the_bindings_are_those_of_the_model(self) -> None:
        assert {one.id: one.bound for one in self.history.state.bindings} == self.model
        assert len(self.model) <= MOST_BINDINGS
        assert self.history.state.revision == len(self.history.events)
        self.history.check()


TestBindingsMachine = BindingsMachine.TestCase
