"""People: every edge, every non-edge, replay, and repetition (R-AUTH, G-021)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statemachines.accounts import person
from statemachines.accounts.person import AccountDeletionInProgress, Identity
from tests.statemachines.tables import History, check_released, check_table

S = person.Status


def test_a_person_moves_along_the_edges_only():
    check_table(
        person.MACHINE,
        [
            (person.PersonRegistered.TOPIC, S.ABSENT, S.ACTIVE),
            (person.PersonRegistered.TOPIC, S.DELETED, S.ACTIVE),
            (person.PersonProfileChanged.TOPIC, S.ACTIVE, S.ACTIVE),
            (person.PersonFenced.TOPIC, S.ACTIVE, S.FENCED),
            (person.PersonDeleted.TOPIC, S.FENCED, S.DELETED),
            (person.PersonDeleted.TOPIC, S.ABSENT, S.DELETED),
        ],
        {
            person.PersonRegistered.TOPIC: person.PersonRegistered("email", "a@b.c", True, "A", False, 5),
            person.PersonProfileChanged.TOPIC: person.PersonProfileChanged("a@b.d", False, None),
            person.PersonFenced.TOPIC: person.PersonFenced(6),
            person.PersonDeleted.TOPIC: person.PersonDeleted(7),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        person.MACHINE,
        [
            person.PersonRegistered("email", "ann@example.com", True, "Ann", False, 1_800_000_000),
            person.PersonProfileChanged("ann@example.org", False, None),
            person.PersonFenced(1_800_000_001),
            person.PersonDeleted(1_800_000_002),
        ],
    )


@pytest.mark.parametrize(
    ("identity", "synthetic"),
    [
        (person.synthetic_identity("run-1"), True),
        (Identity("email", "test+x@service.invalid", "else@where.example"), True),
        (Identity("github", "test+x@service.invalid", "test+x@service.invalid"), False),
        (Identity("email", "test+x@service.invalid.example", "a@b.c"), False),
        (Identity("email", "a@service.invalid", "a@service.invalid"), False),
    ],
)
def test_synthetic_is_a_property_of_the_identity(identity: Identity, synthetic: bool):
    assert identity.synthetic is synthetic


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_a_user_id_tells_provider_and_subject_apart(one: str, other: str, third: str, fourth: str):
    """Equal exactly for equal pairs, whatever their mail addresses are."""
    left, right = Identity(one, other, "a@b.c"), Identity(third, fourth, "d@e.f")
    same = (one, other) == (third, fourth)
    # Body members hold no NUL (the body gate refuses it), which is what separates the parts of a derived id.
    if "\0" not in one + other + third + fourth:
        assert (person.person_id("salt", left) == person.person_id("salt", right)) is same
    assert person.person_id("salt", left) != person.person_id("other", left)


class PersonMachine(RuleBasedStateMachine):
    """A person against a plain model: (known, profile, fenced)."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(person.MACHINE)
        self.profile: tuple[str, bool, str | None] | None = None
        self.fenced = False

    @rule(
        email=st.sampled_from(["a@b.c", "d@e.f"]),
        verified=st.booleans(),
        name=st.sampled_from([None, "A"]),
        now=st.integers(1),
    )
    def register(self, email, verified, name, now):
        identity = Identity("email", "subject", email, verified, name)
        if self.fenced:
            self.history.refuses(lambda state: person.decide_register(state, identity, now), AccountDeletionInProgress)
            return
        events = self.history.carry_out(lambda state: person.decide_register(state, identity, now))
        wish = (email, verified, name)
        if self.profile is None:
            assert events == [person.PersonRegistered("email", email, verified, name, False, now)]
        elif self.profile == wish:
            assert events == []
        else:
            assert events == [person.PersonProfileChanged(email, verified, name)]
        self.profile = wish

    @precondition(lambda self: self.profile is not None)
    @rule(now=st.integers(1))
    def fence(self, now):
        events = self.history.carry_out(lambda state: person.decide_fence(state, now))
        assert events == ([] if self.fenced else [person.PersonFenced(now)])
        self.fenced = True

    @precondition(lambda self: self.fenced)
    @rule(now=st.integers(1))
    def delete(self, now):
        assert self.history.carry_out(lambda state: person.decide_delete(state, now))
        self.profile, self.fenced = None, False

    @invariant()
    def folds(self):
        self.history.check()
        status = self.history.state.status
        assert (status is S.FENCED) == self.fenced
        assert (status in {S.ACTIVE, S.FENCED}) == (self.profile is not None)


TestPerson = PersonMachine.TestCase
