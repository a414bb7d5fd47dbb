"""Project credentials: every edge in time, every non-edge, replay and repetition (R-CRED, G-041)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.credentials import credential as credentials
from statemachines.credentials.credential import CredentialWish, Minted, Status
from tests.statemachines.tables import History, check_released, check_table

HASH = "0123456789abcdef" * 4
S = Status
WISH = CredentialWish(credentials.RUNNER, "nightly", "error-to-draft-pr", 600)
MINTED = Minted("0" * 64, "service_runner_a", "runner_1")


def test_a_credential_moves_along_the_edges_only():
    [created] = credentials.decide_create(credentials.Credential(), WISH, MINTED, 5, created_by="usr_1", request="r")
    check_table(
        credentials.MACHINE,
        [
            (credentials.CredentialCreated.TOPIC, S.ABSENT, S.ACTIVE),
            (credentials.CredentialRevoked.TOPIC, S.ACTIVE, S.REVOKED),
        ],
        {
            credentials.CredentialCreated.TOPIC: created,
            credentials.CredentialRevoked.TOPIC: credentials.CredentialRevoked("leaked", 6),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        credentials.MACHINE,
        [
            credentials.CredentialCreated(
                kind="automation_runner",
                name="nightly",
                scopes=["runs:read", "runs:write"],
                automation_id="error-to-draft-pr",
                runner_id="runner_1",
                secret_hash=HASH,
                prefix="service_runner_a",
                created_by="usr_1",
                request=HASH,
                created_at=1_800_000_000,
                expires_at=1_807_776_000,
            ),
            credentials.CredentialRevoked("leaked", 1_800_000_001),
        ],
    )


def test_scopes_are_fixed_by_kind_and_disjoint():
    assert set(credentials.SCOPES[credentials.CI]).isdisjoint(credentials.SCOPES[credentials.RUNNER])
    assert sum(map(len, credentials.SCOPES.values())) == 9


class CredentialMachine(RuleBasedStateMachine):
    """A credential against a plain model over a clock that only moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(credentials.MACHINE)
        self.now = 1_000
        self.status = S.ABSENT
        self.ends = 0

    @rule(seconds=st.sampled_from([0, 1, 599, 600]))
    def wait(self, seconds):
        self.now += seconds

    @rule(request=st.sampled_from(["same", "other"]))
    def create(self, request):
        def decide(state):
            return credentials.decide_create(state, WISH, MINTED, self.now, created_by="usr_1", request=request)

        if self.status is not S.ABSENT:
            refusal = (
                credentials.CredentialAlreadyCreated if request == self.request else credentials.CredentialKeyReused
            )
            self.history.refuses(decide, refusal)
            return
        [created] = decide(self.history.state)
        assert isinstance(created, credentials.CredentialCreated)
        assert (created.created_at, created.expires_at) == (self.now, self.now + 600)
        assert created.scopes == list(credentials.SCOPES[credentials.RUNNER])
        self.history.carry_out(lambda state: [created] if state.status is S.ABSENT else [])
        self.status, self.ends, self.request = S.ACTIVE, self.now + 600, request

    @rule(reason=st.sampled_from([None, "leaked"]))
    def revoke(self, reason):
        def decide(state):
            return credentials.decide_revoke(state, reason, self.now)

        if self.status is S.ABSENT:
            self.history.refuses(decide, credentials.CredentialNotFound)
            return
        events = self.history.carry_out(decide)
        assert events == ([credentials.CredentialRevoked(reason, self.now)] if self.status is S.ACTIVE else [])
        self.status = S.REVOKED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.status
        assert self.history.state.usable(self.now) is (self.status is S.ACTIVE and self.now < self.ends)


TestCredential = CredentialMachine.TestCase
