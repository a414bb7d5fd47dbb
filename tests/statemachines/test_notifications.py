"""A destination of notifications: every edge in time, every non-edge, replay and repetition."""

from __future__ import annotations

from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines import notifications
from statemachines.kernel.machine import PreconditionFailed
from statemachines.notifications import DestinationAdded, MemberRule, QuietHours, Status
from tests.statemachines.tables import History, check_released, check_table

S = Status
BOTH = (S.ACTIVE, S.STOPPED)
NIGHT = QuietHours("22:00", "07:00", "Europe/Berlin")
ADDED = DestinationAdded("slack", "https://hooks.slack.com", "usr_1", 1_800_000_000)
EXAMPLES = [
    ADDED,
    notifications.RuleSet("usr_1", ["case.created"], NIGHT, ["case.created", "run.ended"], 1_800_000_001),
    notifications.RuleRemoved("usr_1", ["run.ended"], 1_800_000_002),
    notifications.DestinationStopped("gone", 1_800_000_003),
    notifications.DestinationReopened(1_800_000_004),
    notifications.DestinationDeleted(1_800_000_005),
]
MEMBERS = st.sampled_from(["usr_1", "usr_2", "usr_3"])
OCCASIONS = st.sampled_from([("case.created",), ("run.ended", "case.created"), ("alert.triggered",)])
ETAGS = st.sampled_from([None, "same", "other"])


def test_a_destination_moves_along_the_edges_only():
    added, ruled, removed, stopped, reopened, deleted = (event.TOPIC for event in EXAMPLES)
    check_table(
        notifications.MACHINE,
        [
            (added, S.ABSENT, S.ACTIVE),
            *((topic, source, source) for topic in (ruled, removed) for source in BOTH),
            *((stopped, source, S.STOPPED) for source in BOTH),
            (reopened, S.STOPPED, S.ACTIVE),
            *((deleted, source, S.DELETED) for source in BOTH),
        ],
        {event.TOPIC: event for event in EXAMPLES},
    )


def test_released_events_keep_their_shape():
    check_released(notifications.MACHINE, EXAMPLES)


def test_only_its_member_has_a_rule_for_mail():
    history = History(notifications.MACHINE)
    mail = DestinationAdded("mail", "mailto:", "usr_1", 1_800_000_000, "usr_2")
    history.carry_out(lambda state: notifications.decide_add(state, mail, standing=0))

    def decide(member, state):
        wish = MemberRule(("case.created",), None, 1_800_000_001)
        return notifications.decide_rule(state, member, wish, since=0, standing=0, etag="same", if_match=None)

    history.refuses(partial(decide, "usr_1"), notifications.NotYourMail)
    assert len(history.carry_out(partial(decide, "usr_2"))) == 1


class DestinationMachine(RuleBasedStateMachine):
    """A destination against a plain model."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(notifications.MACHINE)
        self.status, self.rules = S.ABSENT, {}

    @property
    def stands(self) -> bool:
        return self.status in BOTH

    def refuses(self, decide, if_match) -> bool:
        """Whether such a change is refused, and checked to be."""
        if not self.stands:
            self.history.refuses(decide, notifications.DestinationNotFound)
        elif if_match == "other":
            self.history.refuses(decide, PreconditionFailed)
        return not self.stands or if_match == "other"

    @rule(standing=st.sampled_from([0, 19, 20, 21]))
    def add(self, standing):
        def decide(state):
            return notifications.decide_add(state, ADDED, standing=standing)

        if self.status is S.ABSENT and standing >= notifications.DESTINATIONS_LIMIT:
            self.history.refuses(decide, notifications.TooManyDestinations)
            return
        events = self.history.carry_out(decide)
        assert len(events) == (self.status is S.ABSENT)
        if events:
            self.status = S.ACTIVE

    @rule(
        member=MEMBERS,
        events=OCCASIONS,
        quiet=st.sampled_from([None, NIGHT]),
        standing=st.sampled_from([0, 99, 100]),
        since=st.sampled_from([900, 1_001]),
        if_match=ETAGS,
    )
    def set_rule(self, member, events, quiet, standing, since, if_match):
        wish, before = MemberRule(events, quiet, since), self.rules.get(member)
        anew = before is None or before.set_at < since

        def decide(state):
            return notifications.decide_rule(
                state, member, wish, since=since, standing=standing, etag="same", if_match=if_match
            )

        if self.refuses(decide, if_match):
            return
        if anew and standing >= notifications.RULES_LIMIT:
            self.history.refuses(decide, notifications.TooManyNotificationRules)
            return
        done = self.history.carry_out(decide)
        assert len(done) == (anew or (before.events, before.quiet_hours) != (events, quiet))
        if done:
            self.rules[member] = wish
        for event in done:
            assert event.told == sorted({name for rule in self.rules.values() for name in rule.events})

    @rule(member=MEMBERS, if_match=ETAGS)
    def remove_rule(self, member, if_match):
        def decide(state):
            return notifications.decide_remove_rule(state, member, 1_000, etag="same", if_match=if_match)

        if self.refuses(decide, if_match):
            return
        if member not in self.rules:
            self.history.refuses(decide, notifications.RuleNotFound)
            return
        self.history.carry_out(lambda state: decide(state) if member in state.rules else [])
        del self.rules[member]

    @rule(reason=st.sampled_from(["gone", "failing"]))
    def fail(self, reason):
        events = self.history.carry_out(lambda state: notifications.decide_stop(state, reason, 1_000))
        assert len(events) == (self.status is S.ACTIVE)
        if events:
            self.status = S.STOPPED

    @rule(delivered=st.booleans())
    def test(self, delivered):
        def decide(state):
            return notifications.decide_tested(state, 1_000, delivered=delivered)

        if not self.stands:
            self.history.refuses(decide, notifications.DestinationNotFound)
            return
        lifted = delivered and self.status is S.STOPPED
        assert len(self.history.carry_out(decide)) == lifted
        if lifted:
            self.status = S.ACTIVE

    @rule(if_match=ETAGS)
    def delete(self, if_match):
        def decide(state):
            return notifications.decide_delete(state, 1_000, etag="same", if_match=if_match)

        if self.refuses(decide, if_match):
            return
        self.history.carry_out(lambda state: decide(state) if state.stands else [])
        self.status = S.DELETED

    @invariant()
    def folds(self):
        self.history.check()
        assert self.history.state.status is self.status
        assert dict(self.history.state.rules) == self.rules


TestDestination = DestinationMachine.TestCase
