"""Project credentials: every edge in time, every non-edge, replay and repetition (R-CRED, G-041)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.credentials import credential
from statemachines.credentials.credential import CredentialWish, Minted, Status
from tests.statemachines.tables import History, check_released, check_table

HASH = "0123456789abcdef" * 4
S = Status
WISH = CredentialWish(credential.RUNNER, "nightly", "error-to-draft-pr", 600)
MINTED = Minted("0" * 64, "service_runner_a", "runner_1")


def test_a_credential_moves_along_the_edges_only():
    [created] = credential.decide_create(credential.Credential(), WISH, MINTED, 5, created_by="usr_1", request="r")
    check_table(
        credential.MACHINE,
        [
            (credential.CredentialCreated.TOPIC, S.ABSENT, S.ACTIVE),
            (credential.CredentialRevoked.TOPIC, S.ACTIVE, S.REVOKED),
        ],
        {
            credential.CredentialCreated.TOPIC: created,
            credential.CredentialRevoked.TOPIC: credential.CredentialRevoked("leaked", 6),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        credential.MACHINE,
        [
            credential.CredentialCreated(
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
            credential.CredentialRevoked("leaked", 1_800_000_001),
        ],
    )


def test_scopes_are_fixed_by_kind_and_disjoint():
    assert set(credential.SCOPES[credential.CI]).isdisjoint(credential.SCOPES[credential.RUNNER])
    assert sum(map(len, credential.SCOPES.values())) == 9


class CredentialMachine(RuleBasedStateMachine):
    """A credential against a plain model over a clock that only moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(credential.MACHINE)
        self.now = 1_000
        self.status = S.ABSENT
        self.ends = 0

    @rule(seconds=st.sampled_from([0, 1, 599, 600]))
    def wait(self, seconds):
        self.now += seconds

    @rule(request=st.sampled_from(["same", "other"]))
    def create(self, request):
        def decide(state):
            return credential.decide_create(state, WISH, MINTED, self.now, created_by="usr_1", request=request)

        if self.status is not S.ABSENT:
            refusal = credential.CredentialAlreadyCreated if request == self.request else credential.CredentialKeyReused
            self.history.refuses(decide, refusal)
            return
        [created] = decide(self.history.state)
        assert isinstance(created, credential.CredentialCreated)
        assert (created.created_at, created.expires_at) == (self.now, self.now + 600)
        assert created.scopes == list(credential.SCOPES[credential.RUNNER])
        self.history.carry_out(lambda state: [created] if state.status is S.ABSENT else [])
        self.status, self.ends, self.request = S.ACTIVE, self.now + 600, request

    @rule(reason=st.sampled_from([None, "leaked"]))
    def revoke(self, reason):
        def decide(state):
            return credential.decide_revoke(state, reason, self.now)

        if self.status is S.ABSENT:
            self.history.refuses(decide, credential.CredentialNotFound)
            return
        events = self.history.carry_out(decide)
        assert events == ([credential.CredentialRevoked(reason, self.now)] if self.status is S.ACTIVE else [])
        self.status = S.REVOKED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.status
        assert self.history.state.usable(self.now) is (self.status is S.ACTIVE and self.now < self.ends)


TestCredential = CredentialMachine.TestCase
