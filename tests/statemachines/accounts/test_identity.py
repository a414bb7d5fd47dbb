"""Identities at an issuer: each edge, and one person at a time."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.accounts import identity
from statemachines.accounts.identity import IdentityBound, OtherPerson, Status, Vouched
from statemachines.accounts.person import person_id
from statemachines.kernel.machine import Moved
from tests.statemachines.tables import History, check_released, check_table

NOW = 1_800_000_000
ISSUER = "https://id.example"
PEOPLE = ["usr_1", "usr_2", "usr_3"]


def test_an_identity_moves_along_the_edges_only():
    bound = IdentityBound.TOPIC
    check_table(
        identity.MACHINE,
        [(bound, Status.ABSENT, Status.BOUND), (bound, Status.BOUND, Status.BOUND)],
        {bound: IdentityBound("usr_1", ISSUER, 5)},
    )


def test_released_events_keep_their_shape():
    check_released(identity.MACHINE, [IdentityBound("user_id_1", "issuer_1", NOW)])


def test_an_id_follows_from_issuer_and_subject_alone():
    one = Vouched(ISSUER, "a", "a@example.com", "Ann")
    assert identity.identity_id("salt", one) == identity.identity_id("salt", Vouched(ISSUER, "a"))
    others = [Vouched(ISSUER, "b"), Vouched(f"{ISSUER}/", "a"), Vouched("https:", "//id.example a")]
    ids = {identity.identity_id("salt", other) for other in (one, *others)} | {identity.identity_id("pepper", one)}
    assert len(ids) == 5


def test_an_unproven_address_is_not_taken_over():
    told = Vouched(ISSUER, "a", None, "Ann").identity("salt")
    proven = Vouched(ISSUER, "a", "a@example.com").identity("salt")
    assert (proven.email, proven.email_verified) == ("a@example.com", True)
    own = person_id("salt", proven)
    assert (told.email, told.email_verified, told.synthetic) == (f"{own}@oidc.invalid", False, False)


class IdentityMachine(RuleBasedStateMachine):
    """An identity against a plain model: bound once, and anew when the person before is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(identity.MACHINE)
        self.bound = ""
        self.gone: set[str] = set()

    @rule(user_id=st.sampled_from(PEOPLE))
    def bind(self, user_id):
        gone = self.bound if self.bound in self.gone else ""

        def decide(state):
            return identity.decide_bind(state, user_id, ISSUER, NOW, gone=gone)

        if self.bound not in {"", user_id} and not gone:
            self.history.refuses(decide, Moved)
            return
        first = self.bound != user_id
        assert self.history.carry_out(decide) == ([IdentityBound(user_id, ISSUER, NOW)] if first else [])
        self.bound = user_id
        self.gone.discard(user_id)

    @rule(user_id=st.sampled_from(PEOPLE))
    def delete(self, user_id):
        self.gone.add(user_id)

    @rule(user_id=st.sampled_from(PEOPLE))
    def check(self, user_id):
        if user_id == self.bound:
            identity.check_person(self.history.state, user_id)
        else:
            self.history.refuses(lambda state: identity.check_person(state, user_id) or [], OtherPerson)

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.user_id == self.bound
        assert self.history.state.status is (Status.BOUND if self.bound else Status.ABSENT)


TestIdentity = IdentityMachine.TestCase
