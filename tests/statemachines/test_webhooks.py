"""A webhook: every edge in time, every non-edge, replay and repetition (R-WEB-04, G-090, G-159)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines import webhooks
from statemachines.webhooks import Status, WebhookChange, WebhookWish
from tests.statemachines.tables import History, check_released, check_table

S = Status
ORIGIN, OTHER = "https://example.com", "https://example.org:8443"
WISH = WebhookWish(ORIGIN, ("*",), "whsec_abcdef")
BOTH = (S.ACTIVE, S.STOPPED)

EXAMPLES = [
    webhooks.WebhookRegistered(ORIGIN, ["case.created", "deploy.recorded"], "whsec_abcdef", 1_800_000_000),
    webhooks.WebhookChanged(OTHER, ["*"], 1_800_000_001),
    webhooks.WebhookSecretRotated("whsec_uvwxyz", 1_800_086_402, 1_800_000_002),
    webhooks.WebhookStopped("gone", 1_800_000_003),
    webhooks.WebhookReopened(1_800_000_004),
    webhooks.WebhookDeleted(1_800_000_005),
]


def test_a_webhook_moves_along_the_edges_only():
    registered, changed, rotated, stopped, reopened, deleted = (event.TOPIC for event in EXAMPLES)
    check_table(
        webhooks.MACHINE,
        [
            (registered, S.ABSENT, S.ACTIVE),
            *((topic, source, source) for topic in (changed, rotated) for source in BOTH),
            *((stopped, source, S.STOPPED) for source in BOTH),
            (reopened, S.STOPPED, S.ACTIVE),
            *((deleted, source, S.DELETED) for source in BOTH),
        ],
        {event.TOPIC: event for event in EXAMPLES},
    )


def test_released_events_keep_their_shape():
    check_released(webhooks.MACHINE, EXAMPLES)


class WebhookMachine(RuleBasedStateMachine):
    """A webhook against a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(webhooks.MACHINE)
        self.status, self.reason, self.names, self.origin = S.ABSENT, None, (), ""
        self.now = 1_000

    @property
    def stands(self) -> bool:
        return self.status in BOTH

    @rule(standing=st.sampled_from([0, 19, 20, 21]))
    def register(self, standing):
        def decide(state):
            return webhooks.decide_register(state, WISH, self.now, standing=standing)

        if self.status is S.ABSENT and standing >= webhooks.WEBHOOKS_LIMIT:
            self.history.refuses(decide, webhooks.TooManyWebhooks)
            return
        events = self.history.carry_out(decide)
        assert len(events) == (self.status is S.ABSENT)
        if events:
            self.status, self.names, self.origin = S.ACTIVE, WISH.events, ORIGIN

    @rule(origin=st.sampled_from([None, ORIGIN, OTHER]), names=st.sampled_from([None, ("*",), ("case.created",)]))
    def change(self, origin, names):
        def decide(state):
            return webhooks.decide_change(state, WebhookChange(origin, names), self.now)

        if not self.stands:
            self.history.refuses(decide, webhooks.WebhookNotFound)
            return
        wanted = (origin or self.origin, names or self.names)
        events = self.history.carry_out(decide)
        assert len(events) == (wanted != (self.origin, self.names))
        self.origin, self.names = wanted

    @rule(enabled=st.booleans())
    def switch(self, enabled):
        def decide(state):
            return webhooks.decide_change(state, WebhookChange(enabled=enabled), self.now)

        if not self.stands:
            self.history.refuses(decide, webhooks.WebhookNotFound)
        elif enabled and self.reason in {"gone", "failing"}:
            self.history.refuses(decide, webhooks.WebhookFailing)
        else:
            self.history.carry_out(decide)
            self.status, self.reason = (S.ACTIVE, None) if enabled else (S.STOPPED, "member")

    @rule(reason=st.sampled_from(["gone", "failing"]))
    def fail(self, reason):
        events = self.history.carry_out(lambda state: webhooks.decide_stop(state, reason, self.now))
        assert len(events) == (self.status is S.ACTIVE)
        if events:
            self.status, self.reason = S.STOPPED, reason

    @rule(delivered=st.booleans())
    def test(self, delivered):
        def decide(state):
            return webhooks.decide_tested(state, self.now, delivered=delivered)

        if not self.stands:
            self.history.refuses(decide, webhooks.WebhookNotFound)
            return
        lifted = delivered and self.reason in {"gone", "failing"}
        assert len(self.history.carry_out(decide)) == lifted
        if lifted:
            self.status, self.reason = S.ACTIVE, None

    @rule()
    def rotate(self):
        def decide(state):
            return webhooks.decide_rotate(state, "whsec_other1", self.now)

        if not self.stands:
            self.history.refuses(decide, webhooks.WebhookNotFound)
            return
        [rotated] = decide(self.history.state)
        assert isinstance(rotated, webhooks.WebhookSecretRotated)
        assert rotated.former_until == self.now + 86_400
        done = []
        self.history.carry_out(lambda _: [] if done else done.append(1) or [rotated])

    @rule()
    def delete(self):
        if not self.stands:
            self.history.refuses(lambda state: webhooks.decide_delete(state, self.now), webhooks.WebhookNotFound)
            return
        self.history.carry_out(lambda state: webhooks.decide_delete(state, self.now) if state.stands else [])
        self.status = S.DELETED

    @invariant()
    def folds(self):
        self.history.check()
        state = self.history.state
        assert (state.status, state.origin, state.events) == (self.status, self.origin, self.names)
        if self.stands:
            assert state.reason == self.reason


TestWebhook = WebhookMachine.TestCase
