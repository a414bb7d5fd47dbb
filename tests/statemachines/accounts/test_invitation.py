"""Invitations: every edge, every non-edge, replay, repetition, time, and who may accept (G-177)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.accounts import invitation, person
from statemachines.accounts.invitation import LIFETIME, OPEN_LIMIT, InvitationNotFound, Offer, TooManyInvitations
from statemachines.accounts.membership import Role
from statemachines.accounts.person import Person
from tests.statemachines.tables import History, check_released, check_table

S = invitation.Status
EMAIL = "guest@example.com"
MADE = invitation.InvitationMade(EMAIL, "member", "usr_owner", 1, 5, 5 + LIFETIME)
GUEST = Person(person.Status.ACTIVE, EMAIL, email_verified=True)


def test_an_invitation_moves_along_the_edges_only():
    made, accepted, revoked = (
        invitation.InvitationMade.TOPIC,
        invitation.InvitationAccepted.TOPIC,
        invitation.InvitationRevoked.TOPIC,
    )
    check_table(
        invitation.MACHINE,
        [*((made, status, S.OPEN) for status in S), (accepted, S.OPEN, S.ACCEPTED), (revoked, S.OPEN, S.REVOKED)],
        {
            made: MADE,
            accepted: invitation.InvitationAccepted("usr_1", 6),
            revoked: invitation.InvitationRevoked(6),
        },
    )


def test_released_events_keep_their_shape():
    moment = 1_800_000_000
    check_released(
        invitation.MACHINE,
        [
            invitation.InvitationMade("email_1", "role_1", "invited_by_1", 1, moment, moment),
            invitation.InvitationAccepted("user_id_1", moment),
            invitation.InvitationRevoked(moment),
        ],
    )


@pytest.mark.parametrize(
    ("email", "verified", "synthetic", "proven"),
    [
        (EMAIL, True, False, True),
        ("Guest@EXAMPLE.com ", True, False, True),
        (EMAIL, False, False, False),
        ("other@example.com", True, False, False),
        ("guest@example.com.evil", True, False, False),
        ("\u212aest@example.com", True, False, False),
        (EMAIL, False, True, False),
    ],
)
def test_who_is_behind_an_address(email, verified, synthetic, proven):
    """Case and space do not matter; a letter that only looks alike, or folds to another one, does."""
    somebody = Person(person.Status.ACTIVE, email, verified, None, synthetic)
    assert invitation.proves(somebody, EMAIL) is proven


def test_the_reserved_domain_needs_no_mail():
    robot = person.synthetic_identity("run-1").email
    assert invitation.proves(Person(person.Status.ACTIVE, robot, synthetic=True), robot)
    assert not invitation.proves(Person(person.Status.ACTIVE, robot), robot)


def test_ids_follow_project_address_and_installation():
    ids = [
        invitation.invitation_id(salt, project, email)
        for salt in ("a", "b")
        for project in ("p", "q")
        for email in ("x@y.z", "z@y.z")
    ]
    assert len(set(ids)) == len(ids)
    assert invitation.invitation_id("a", "p", " X@Y.z") == ids[0]


class InvitationMachine(RuleBasedStateMachine):
    """An invitation against a plain model over a clock that only moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(invitation.MACHINE)
        self.now = 1_000
        self.status = S.ABSENT
        self.role: Role | None = None
        self.ends = 0
        self.by = ""

    @property
    def open(self) -> bool:
        return self.status is S.OPEN and self.now < self.ends

    @rule(seconds=st.sampled_from([0, 1, LIFETIME - 1, LIFETIME]))
    def wait(self, seconds):
        self.now += seconds

    @rule(role=st.sampled_from(Role), stands=st.booleans(), others=st.sampled_from([0, OPEN_LIMIT - 1, OPEN_LIMIT]))
    def make(self, role, stands, others):
        offer = Offer(" GUEST@example.com", role, "usr_owner", 3)

        def decide(state):
            return invitation.decide_make(state, offer, self.now, stands=stands, others_open=others)

        if self.open and stands and self.role is role:
            assert self.history.carry_out(decide) == []
        elif others >= OPEN_LIMIT:
            self.history.refuses(decide, TooManyInvitations)
        else:
            [made] = decide(self.history.state)
            assert isinstance(made, invitation.InvitationMade)
            assert (made.email, made.expires_at) == (EMAIL, self.now + LIFETIME)
            # The next look finds that it rests on an owner: only then is a repeat one.
            before = self.history.state
            self.history.carry_out(lambda state: [made] if state is before else [])
            self.status, self.role, self.ends, self.by = S.OPEN, role, made.expires_at, ""

    @rule(user_id=st.sampled_from(["usr_1", "usr_2"]), verified=st.booleans(), stands=st.booleans())
    def accept(self, user_id, verified, stands):
        who = Person(person.Status.ACTIVE, EMAIL, verified)

        def decide(state):
            return invitation.decide_accept(state, user_id, who, self.now, stands=stands)

        if verified and self.status is S.ACCEPTED and self.by == user_id:
            assert self.history.carry_out(decide) == []
        elif verified and self.open and stands:
            assert self.history.carry_out(decide) == [invitation.InvitationAccepted(user_id, self.now)]
            self.status, self.by = S.ACCEPTED, user_id
        else:
            self.history.refuses(decide, InvitationNotFound)

    @rule()
    def revoke(self):
        def decide(state):
            return invitation.decide_revoke(state, self.now)

        if self.status in {S.ABSENT, S.ACCEPTED}:
            self.history.refuses(decide, InvitationNotFound)
            return
        events = self.history.carry_out(decide)
        assert events == ([invitation.InvitationRevoked(self.now)] if self.status is S.OPEN else [])
        self.status = S.REVOKED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.status
        assert self.history.state.open_at(self.now) is self.open


TestInvitation = InvitationMachine.TestCase
