"""Memberships: every edge, every non-edge, replay, repetition, and who may join (R-AUTH, G-025)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.accounts import membership, person
from statemachines.accounts.membership import LastOwner, MemberNotFound, Role, SyntheticMember, check_may_join
from statemachines.accounts.person import AccountDeletionInProgress, Person, PersonNotFound
from tests.statemachines.tables import History, check_released, check_table

P, S = person.Status, membership.Status


def test_a_membership_moves_along_the_edges_only():
    owner, member, auditor, removed = (
        membership.OwnerAdded.TOPIC,
        membership.MemberAdded.TOPIC,
        membership.AuditorAdded.TOPIC,
        membership.MembershipRemoved.TOPIC,
    )
    check_table(
        membership.MACHINE,
        [
            (owner, S.ABSENT, S.OWNER),
            (owner, S.MEMBER, S.OWNER),
            (owner, S.AUDITOR, S.OWNER),
            (owner, S.REMOVED, S.OWNER),
            (member, S.ABSENT, S.MEMBER),
            (member, S.OWNER, S.MEMBER),
            (member, S.AUDITOR, S.MEMBER),
            (member, S.REMOVED, S.MEMBER),
            (auditor, S.ABSENT, S.AUDITOR),
            (auditor, S.OWNER, S.AUDITOR),
            (auditor, S.MEMBER, S.AUDITOR),
            (auditor, S.REMOVED, S.AUDITOR),
            (removed, S.OWNER, S.REMOVED),
            (removed, S.MEMBER, S.REMOVED),
            (removed, S.AUDITOR, S.REMOVED),
        ],
        {
            owner: membership.OwnerAdded("usr_1", 5),
            member: membership.MemberAdded("usr_1", 5),
            auditor: membership.AuditorAdded("usr_1", 5),
            removed: membership.MembershipRemoved(6),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        membership.MACHINE,
        [
            membership.OwnerAdded("usr_1", 1_800_000_000),
            membership.MemberAdded("usr_1", 1_800_000_000),
            membership.AuditorAdded("user_id_1", 1_800_000_000),
            membership.MembershipRemoved(1_800_000_001),
        ],
    )


def test_who_may_join():
    somebody = Person(P.ACTIVE)
    check_may_join(somebody, synthetic_project=False)
    check_may_join(somebody, synthetic_project=True)
    robot = Person(P.ACTIVE, synthetic=True)
    check_may_join(robot, synthetic_project=True)
    with pytest.raises(SyntheticMember):
        check_may_join(robot, synthetic_project=False)
    for status in (P.ABSENT, P.DELETED):
        with pytest.raises(PersonNotFound):
            check_may_join(Person(status), synthetic_project=True)
    with pytest.raises(AccountDeletionInProgress):
        check_may_join(Person(P.FENCED), synthetic_project=True)


def test_a_membership_gives_a_role_while_it_stands():
    roles = {S.OWNER: Role.OWNER, S.MEMBER: Role.MEMBER, S.AUDITOR: Role.AUDITOR}
    assert {status: membership.role_of(status) for status in S} == {S.ABSENT: None, S.REMOVED: None, **roles}


def test_a_role_permits_less_than_those_above_it():
    less = {(role, status) for role in Role for status in S if membership.is_less(role, status)}
    assert less == {(Role.AUDITOR, S.MEMBER), (Role.AUDITOR, S.OWNER), (Role.MEMBER, S.OWNER)}


def test_a_role_that_nobody_knows_here_is_none():
    assert [membership.role_named(role.value) for role in Role] == list(Role)
    assert membership.role_named("reviewer") is None


class MembershipMachine(RuleBasedStateMachine):
    """A membership against a plain model: the role, or none."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(membership.MACHINE)
        self.role: Role | None = None
        self.joined = False

    @rule(role=st.sampled_from(Role), others=st.sampled_from([(), ("usr_2",)]), now=st.integers(1))
    def set_role(self, role, others, now):
        def decide(state):
            return membership.decide_set_role(state, "usr_1", role, now, other_owners=others)

        if self.role is Role.OWNER and role is not Role.OWNER and not others:
            self.history.refuses(decide, LastOwner)
            return
        events = self.history.carry_out(decide)
        kind = {
            Role.OWNER: membership.OwnerAdded,
            Role.MEMBER: membership.MemberAdded,
            Role.AUDITOR: membership.AuditorAdded,
        }[role]
        assert events == ([] if self.role is role else [kind("usr_1", now)])
        self.role, self.joined = role, True

    @rule(others=st.sampled_from([(), ("usr_2",)]), now=st.integers(1))
    def remove(self, others, now):
        def decide(state):
            return membership.decide_remove(state, now, other_owners=others)

        if not self.joined:
            self.history.refuses(decide, MemberNotFound)
        elif self.role is Role.OWNER and not others:
            self.history.refuses(decide, LastOwner)
        else:
            events = self.history.carry_out(decide)
            assert events == ([membership.MembershipRemoved(now)] if self.role else [])
            self.role = None

    @invariant()
    def folds(self):
        self.history.check()
        expected = self.role.value if self.role else ("removed" if self.joined else "absent")
        assert self.history.state.status.value == expected


TestMembership = MembershipMachine.TestCase
