"""Sessions: every edge in time, every non-edge, one use of a link, and one end."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.accounts import session
from statemachines.accounts.session import LIFETIME, LINK_LIFETIME, Status
from tests.statemachines.tables import History, check_released, check_table

HASH = "0123456789abcdef" * 4
NOW = 1_800_000_000
S = Status


def test_a_session_moves_along_the_edges_only():
    offered, opened, authenticated, ended = (
        session.SessionOffered.TOPIC,
        session.SessionOpened.TOPIC,
        session.SessionAuthenticated.TOPIC,
        session.SessionEnded.TOPIC,
    )
    check_table(
        session.MACHINE,
        [
            (offered, S.ABSENT, S.OFFERED),
            (opened, S.ABSENT, S.OPEN),
            (opened, S.OFFERED, S.OPEN),
            (authenticated, S.OPEN, S.OPEN),
            (ended, S.OFFERED, S.ENDED),
            (ended, S.OPEN, S.ENDED),
        ],
        {
            offered: session.SessionOffered("usr_1", "0" * 64, 5, 125),
            opened: session.SessionOpened("usr_1", "1" * 64, "link", 6, 6 + LIFETIME),
            authenticated: session.SessionAuthenticated("2" * 64, "oidc", 7),
            ended: session.SessionEnded("revoked", 8),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        session.MACHINE,
        [
            session.SessionOffered("user_id_1", HASH, NOW, NOW),
            session.SessionOpened("user_id_1", HASH, "by_1", NOW, NOW),
            session.SessionAuthenticated(HASH, "by_1", NOW),
            session.SessionEnded("reason_1", NOW),
        ],
    )


class SessionMachine(RuleBasedStateMachine):
    """A session against a plain model over a clock that only moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(session.MACHINE)
        self.now = 1_000
        self.status = S.ABSENT
        self.ends = 0
        self.secrets = 0

    @rule(seconds=st.sampled_from([0, 1, LINK_LIFETIME - 1, LINK_LIFETIME, LIFETIME - 1, LIFETIME]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def offer(self):
        if self.status is S.ABSENT:
            events = self.history.carry_out(lambda state: session.decide_offer(state, "usr_1", "link", self.now))
            assert events == [session.SessionOffered("usr_1", "link", self.now, self.now + LINK_LIFETIME)]
            self.status, self.ends = S.OFFERED, self.now + LINK_LIFETIME

    @rule(link=st.sampled_from(["link", "", "other"]), spend=st.booleans())
    def use(self, link, spend):
        secret = f"secret-{self.secrets + 1}"

        def decide(state):
            if spend:
                return session.decide_spend(state, link, self.now)
            return session.decide_enter(state, link, secret, self.now)

        if self.status is not S.OFFERED or link != "link" or self.now >= self.ends:
            self.history.refuses(decide, session.LinkOver)
            return
        events = decide(self.history.state)
        # A link is used once: the same wish is refused then.
        self.history.carry_out(lambda state: events if state.status is S.OFFERED else [])
        self.history.refuses(decide, session.LinkOver)
        if spend:
            assert events == [session.SessionEnded("used", self.now)]
            self.status = S.ENDED
        else:
            assert events == [session.SessionOpened("usr_1", secret, "link", self.now, self.now + LIFETIME)]
            self.status, self.ends = S.OPEN, self.now + LIFETIME
            self.secrets += 1

    @rule()
    def open(self):
        if self.status is S.ABSENT:
            self.secrets += 1
            secret = f"secret-{self.secrets}"
            events = self.history.carry_out(lambda state: session.decide_open(state, "usr_1", secret, self.now))
            assert events == [session.SessionOpened("usr_1", secret, "oidc", self.now, self.now + LIFETIME)]
            self.status, self.ends = S.OPEN, self.now + LIFETIME

    @rule(by=st.sampled_from(["link", "oidc"]))
    def authenticate(self, by):
        secret = f"secret-{self.secrets + 1}"

        def decide(state):
            return session.decide_authenticate(state, secret, by, self.now)

        if self.status is not S.OPEN or self.now >= self.ends:
            self.history.refuses(decide, session.SessionNotFound)
            return
        assert self.history.carry_out(decide) == [session.SessionAuthenticated(secret, by, self.now)]
        self.secrets += 1

    @rule(reason=st.sampled_from(["revoked", "signed_out"]))
    def end(self, reason):
        def decide(state):
            return session.decide_end(state, reason, self.now)

        if self.status is S.ABSENT:
            self.history.refuses(decide, session.SessionNotFound)
            return
        first = self.status is not S.ENDED
        assert self.history.carry_out(decide) == ([session.SessionEnded(reason, self.now)] if first else [])
        self.status = S.ENDED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.status
        if self.status is not S.ABSENT:
            assert self.history.state.live(self.now) is (self.now < self.ends)


TestSession = SessionMachine.TestCase
