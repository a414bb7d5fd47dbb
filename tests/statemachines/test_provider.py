"""A team: every edge and non-edge, one attempt at a time, doubt after a lost creation (R-PRV-01, R-PRV-02, G-165)."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines import provider
from statemachines.kernel.machine import Event
from statemachines.provider import (
    ATTEMPT_SECONDS,
    DOUBT_SECONDS,
    AttemptLost,
    FoundTeam,
    ProvisioningBlocked,
    ProvisioningStarted,
    ReplayConfigured,
    ReplayFailed,
    ReplaySettings,
    ReplayStarted,
    TeamNotProvisioned,
    TeamProvisioned,
    decide_blocked,
    decide_configured,
    decide_provision,
    decide_provisioned,
    decide_replay,
    decide_replay_failed,
)
from tests.statemachines.tables import History, check_released, check_table

S = provider.Status
FOUND = FoundTeam(7, "phc_public", "https://p.example")
SETTINGS = ReplaySettings(True, "0.50", True)
EVENTS: dict[str, Event] = {
    event.TOPIC: event
    for event in (
        ProvisioningStarted("att_1", 5),
        ProvisioningBlocked("timeout", False, 6),
        TeamProvisioned(7, "phc_public", "https://p.example", 6),
        ReplayStarted("att_2", 7),
        ReplayConfigured(True, "0.50", True, 8),
        ReplayFailed(8),
    )
}


def test_a_team_moves_along_the_edges_only() -> None:
    waiting, there = (S.ABSENT, S.PROVISIONING, S.BLOCKED), (S.PROVISIONED, S.CONFIGURED)
    check_table(
        provider.MACHINE,
        [
            *((ProvisioningStarted.TOPIC, source, S.PROVISIONING) for source in waiting),
            *((ProvisioningBlocked.TOPIC, source, S.BLOCKED) for source in waiting),
            (TeamProvisioned.TOPIC, S.PROVISIONING, S.PROVISIONED),
            *((ReplayStarted.TOPIC, source, source) for source in there),
            *((ReplayConfigured.TOPIC, source, S.CONFIGURED) for source in there),
            *((ReplayFailed.TOPIC, source, source) for source in there),
        ],
        EVENTS,
    )


def test_released_events_keep_their_shape() -> None:
    moment = 1_800_000_000
    check_released(
        provider.MACHINE,
        [
            ProvisioningStarted("attempt_1", moment),
            ProvisioningBlocked("unconfigured", True, moment),
            TeamProvisioned(1, "token_1", "host_1", moment),
            ReplayStarted("attempt_1", moment),
            ReplayConfigured(True, "sample_rate_1", True, moment),
            ReplayFailed(moment),
        ],
    )


def test_a_team_has_one_name_and_one_stream() -> None:
    assert provider.external_name("proj_1") == "service-proj_1"
    assert provider.stream("proj_1").id == provider.stream("proj_1").id != provider.stream("proj_2").id


class TeamMachine(RuleBasedStateMachine):
    """A team against a plain model of who holds the provider, over a clock that only moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(provider.MACHINE)
        self.now = 1_000
        self.holder: str | None = None
        self.until = 0
        self.there = self.configured = self.blocked = False
        self.names = 0

    @property
    def taken(self) -> bool:
        return self.holder is not None and self.now < self.until

    def _name(self) -> str:
        self.names += 1
        return f"att_{self.names}"

    @rule(seconds=st.integers(1, ATTEMPT_SECONDS + DOUBT_SECONDS))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def provision(self) -> None:
        name, free = self._name(), not self.there and not self.taken
        events = self.history.carry_out(lambda state: decide_provision(state, name, self.now))
        assert bool(events) == free
        if events:
            self.holder, self.until, self.blocked = name, self.now + ATTEMPT_SECONDS, False

    @rule(stranger=st.booleans())
    def find(self, stranger: bool) -> None:
        name = "att_stranger" if stranger or self.holder is None else self.holder

        def decide(state: provider.Team) -> list[Event]:
            return decide_provisioned(state, name, FOUND, self.now)

        if not self.there and name != self.holder:
            self.history.refuses(decide, AttemptLost)
            return
        events = self.history.carry_out(decide)
        assert bool(events) != self.there
        if events:
            self.there, self.holder = True, None

    @rule(doubtful=st.booleans(), stranger=st.booleans())
    def block(self, doubtful: bool, stranger: bool) -> None:
        name = "att_stranger" if stranger else self.holder
        mine = not self.there and not stranger and (name is not None or not self.blocked)
        events = self.history.carry_out(
            lambda state: decide_blocked(state, name, "timeout", self.now, doubtful=doubtful)
        )
        assert bool(events) == mine
        if events:
            self.holder, self.blocked = None, True
            assert not doubtful or self.history.state.doubt_until == self.now + DOUBT_SECONDS

    @rule()
    def replay(self) -> None:
        name, free = self._name(), not self.taken

        def decide(state: provider.Team) -> list[Event]:
            return decide_replay(state, name, self.now)

        if not self.there:
            self.history.refuses(decide, TeamNotProvisioned)
            return
        events = self.history.carry_out(decide)
        assert bool(events) == free
        if events:
            self.holder, self.until = name, self.now + ATTEMPT_SECONDS

    @rule(taken=st.booleans())
    def settle(self, taken: bool) -> None:
        """The holder's outcome counts; one that lost its place to another has none."""
        if not self.there:
            return
        self.history.refuses(lambda state: decide_configured(state, "att_stranger", SETTINGS, self.now), AttemptLost)
        assert decide_replay_failed(self.history.state, "att_stranger", self.now) == []
        if (name := self.holder) is None:
            return
        if taken:
            self.history.carry_out(lambda state: decide_configured(state, name, SETTINGS, self.now))
        else:
            self.history.carry_out(lambda state: decide_replay_failed(state, name, self.now))
        self.holder, self.configured = None, self.configured or taken

    @invariant()
    def it_stands_where_the_model_does(self) -> None:
        state = self.history.state
        assert state.is_there == self.there
        assert (state.status is S.CONFIGURED) == self.configured
        assert state.is_taken(self.now) == self.taken
        self.history.check()


TestTeam = TeamMachine.TestCase


def test_nobody_is_told_twice_that_the_operator_has_no_account() -> None:
    state = provider.Team()
    [event] = decide_blocked(state, None, "unconfigured", 5)
    state = provider.evolve(state, event)
    assert decide_blocked(state, None, "unconfigured", 6) == []
    assert decide_blocked(state, None, "refused", 6) != []
