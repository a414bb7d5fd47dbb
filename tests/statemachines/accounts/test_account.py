"""People, keys and memberships: every edge, every non-edge, replay, and repetition (R-AUTH, G-021, G-025)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statemachines.accounts import account
from statemachines.accounts.account import (
    AccountDeletionInProgress,
    Identity,
    KeyStatus,
    LastOwner,
    MemberNotFound,
    MembershipStatus,
    PersonStatus,
    Role,
)
from tests.statemachines.tables import History, check_table

PERSON_EXAMPLES = {
    account.PersonRegistered.TOPIC: account.PersonRegistered("email", "a@b.c", True, "A", False, 5),
    account.PersonProfileChanged.TOPIC: account.PersonProfileChanged("a@b.d", False, None),
    account.PersonFenced.TOPIC: account.PersonFenced(6),
    account.PersonDeleted.TOPIC: account.PersonDeleted(7),
}
P, K, M = PersonStatus, KeyStatus, MembershipStatus


def test_a_person_moves_along_the_edges_only():
    check_table(
        account.PERSON,
        [
            (account.PersonRegistered.TOPIC, P.ABSENT, P.ACTIVE),
            (account.PersonRegistered.TOPIC, P.DELETED, P.ACTIVE),
            (account.PersonProfileChanged.TOPIC, P.ACTIVE, P.ACTIVE),
            (account.PersonFenced.TOPIC, P.ACTIVE, P.FENCED),
            (account.PersonDeleted.TOPIC, P.FENCED, P.DELETED),
        ],
        PERSON_EXAMPLES,
    )


def test_a_key_moves_along_the_edges_only():
    check_table(
        account.KEY,
        [(account.KeyMinted.TOPIC, K.ABSENT, K.LIVE), (account.KeyRevoked.TOPIC, K.LIVE, K.REVOKED)],
        {
            account.KeyMinted.TOPIC: account.KeyMinted("usr_1", "0" * 64, "service_sk_abcde", None, 5),
            account.KeyRevoked.TOPIC: account.KeyRevoked(6),
        },
    )


def test_a_membership_moves_along_the_edges_only():
    owner, member, removed = (
        account.OwnerAdded.TOPIC,
        account.MemberAdded.TOPIC,
        account.MembershipRemoved.TOPIC,
    )
    check_table(
        account.MEMBERSHIP,
        [
            (owner, M.ABSENT, M.OWNER),
            (owner, M.MEMBER, M.OWNER),
            (owner, M.REMOVED, M.OWNER),
            (member, M.ABSENT, M.MEMBER),
            (member, M.OWNER, M.MEMBER),
            (member, M.REMOVED, M.MEMBER),
            (removed, M.OWNER, M.REMOVED),
            (removed, M.MEMBER, M.REMOVED),
        ],
        {
            owner: account.OwnerAdded("usr_1", 5),
            member: account.MemberAdded("usr_1", 5),
            removed: account.MembershipRemoved(6),
        },
    )


@pytest.mark.parametrize(
    ("identity", "synthetic"),
    [
        (account.synthetic_identity("run-1"), True),
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
        assert (account.person_id("salt", left) == account.person_id("salt", right)) is same
    assert account.person_id("salt", left) != account.person_id("other", left)


def test_who_may_join():
    person = account.Person(P.ACTIVE)
    account.check_may_join(person, synthetic_project=False)
    account.check_may_join(person, synthetic_project=True)
    robot = account.Person(P.ACTIVE, synthetic=True)
    account.check_may_join(robot, synthetic_project=True)
    with pytest.raises(account.SyntheticMember):
        account.check_may_join(robot, synthetic_project=False)
    for status in (P.ABSENT, P.DELETED):
        with pytest.raises(account.PersonNotFound):
            account.check_may_join(account.Person(status), synthetic_project=True)
    with pytest.raises(AccountDeletionInProgress):
        account.check_may_join(account.Person(P.FENCED), synthetic_project=True)


class PersonMachine(RuleBasedStateMachine):
    """A person against a plain model: (known, profile, fenced)."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(account.PERSON)
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
            self.history.refuses(lambda state: account.decide_register(state, identity, now), AccountDeletionInProgress)
            return
        events = self.history.carry_out(lambda state: account.decide_register(state, identity, now))
        wish = (email, verified, name)
        if self.profile is None:
            assert events == [account.PersonRegistered("email", email, verified, name, False, now)]
        elif self.profile == wish:
            assert events == []
        else:
            assert events == [account.PersonProfileChanged(email, verified, name)]
        self.profile = wish

    @precondition(lambda self: self.profile is not None)
    @rule(now=st.integers(1))
    def fence(self, now):
        events = self.history.carry_out(lambda state: account.decide_fence_person(state, now))
        assert events == ([] if self.fenced else [account.PersonFenced(now)])
        self.fenced = True

    @precondition(lambda self: self.fenced)
    @rule(now=st.integers(1))
    def delete(self, now):
        assert self.history.carry_out(lambda state: account.decide_delete_person(state, now))
        self.profile, self.fenced = None, False

    @invariant()
    def folds(self):
        self.history.check()
        status = self.history.state.status
        assert (status is P.FENCED) == self.fenced
        assert (status in {P.ACTIVE, P.FENCED}) == (self.profile is not None)


class KeyMachine(RuleBasedStateMachine):
    """A key against a plain model: absent, live, revoked."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(account.KEY)
        self.model = K.ABSENT

    @precondition(lambda self: self.model is K.ABSENT)
    @rule(now=st.integers(1))
    def mint(self, now):
        event = account.KeyMinted("usr_1", "0" * 64, "service_sk_abcde", None, now)
        self.history.carry_out(lambda state: [event] if state.status is K.ABSENT else [])
        self.model = K.LIVE

    @rule(now=st.integers(1))
    def revoke(self, now):
        if self.model is K.ABSENT:
            self.history.refuses(lambda state: account.decide_revoke_key(state, now), account.KeyNotFound)
            return
        events = self.history.carry_out(lambda state: account.decide_revoke_key(state, now))
        assert events == ([account.KeyRevoked(now)] if self.model is K.LIVE else [])
        self.model = K.REVOKED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.model


class MembershipMachine(RuleBasedStateMachine):
    """A membership against a plain model: the role, or none."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(account.MEMBERSHIP)
        self.role: Role | None = None
        self.joined = False

    @rule(role=st.sampled_from(Role), others=st.sampled_from([(), ("usr_2",)]), now=st.integers(1))
    def set_role(self, role, others, now):
        def decide(state):
            return account.decide_set_role(state, "usr_1", role, now, other_owners=others)

        if self.role is Role.OWNER and role is Role.MEMBER and not others:
            self.history.refuses(decide, LastOwner)
            return
        events = self.history.carry_out(decide)
        kind = account.OwnerAdded if role is Role.OWNER else account.MemberAdded
        assert events == ([] if self.role is role else [kind("usr_1", now)])
        self.role, self.joined = role, True

    @rule(others=st.sampled_from([(), ("usr_2",)]), now=st.integers(1))
    def remove(self, others, now):
        def decide(state):
            return account.decide_remove(state, now, other_owners=others)

        if not self.joined:
            self.history.refuses(decide, MemberNotFound)
        elif self.role is Role.OWNER and not others:
            self.history.refuses(decide, LastOwner)
        else:
            events = self.history.carry_out(decide)
            assert events == ([account.MembershipRemoved(now)] if self.role else [])
            self.role = None

    @invariant()
    def folds(self):
        self.history.check()
        expected = self.role.value if self.role else ("removed" if self.joined else "absent")
        assert self.history.state.status.value == expected


TestPerson = PersonMachine.TestCase
TestKey = KeyMachine.TestCase
TestMembership = MembershipMachine.TestCase
