"""The connection machine: asked, back from the provider, exchanged; granted, denied or expired once (G-022, G-164)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from projections.analytics import ConnectionRow, fold_connection
from schemas.analytics import READ_SCOPES, REQUIRED_SCOPES
from statemachines.analytics import (
    EXCHANGE_SECONDS,
    MACHINE,
    PENDING,
    Brought,
    Connection,
    ConnectionConflict,
    ConnectionDenied,
    ConnectionEnded,
    ConnectionExchangeStarted,
    ConnectionExpired,
    ConnectionGranted,
    ConnectionReturned,
    ConnectionStarted,
    ConnectWish,
    Granted,
    NoOutcome,
    Reason,
    Reply,
    Status,
    decide_connect,
    decide_denial,
    decide_exchange,
    decide_overdue,
    decide_reply,
    decide_return,
    missing_scopes,
    scope_fault,
)
from statemachines.kernel.machine import Event, Recorded, apply, permits, replay
from tests.statemachines.tables import check_released
from tests.support import few_or_many

NOW = 1_700_000_000
HOST, ELSEWHERE = "https://provider.example", "https://eu.provider.example"
EVENTS: list[Event] = [
    ConnectionStarted(HOST, None, READ_SCOPES, NOW, NOW + 900),
    ConnectionReturned(NOW),
    ConnectionExchangeStarted(NOW),
    ConnectionGranted(7, READ_SCOPES, NOW),
    ConnectionDenied(Reason.HUMAN, NOW),
    ConnectionExpired(NOW),
    ConnectionEnded(NOW),
]
EDGES = {
    (Status.ABSENT, ConnectionStarted): Status.PENDING,
    (Status.PENDING, ConnectionReturned): Status.RETURNED,
    (Status.RETURNED, ConnectionExchangeStarted): Status.EXCHANGING,
    (Status.EXCHANGING, ConnectionGranted): Status.CONNECTED,
    **{(status, ConnectionDenied): Status.DENIED for status in PENDING},
    **{(status, ConnectionExpired): Status.EXPIRED for status in PENDING},
    (Status.CONNECTED, ConnectionEnded): Status.DISCONNECTED,
}


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.TOPIC)
def test_every_event_in_every_status(status: Status, event: Event) -> None:
    """Each edge of the table is taken, everything else refused."""
    state = Connection(status, NOW + 900)
    leads_to = EDGES.get((status, type(event)))
    assert permits(MACHINE, state, event) == (leads_to is not None)
    if leads_to is None:
        with pytest.raises(ConnectionConflict):
            apply(MACHINE, state, event)
    else:
        assert apply(MACHINE, state, event).status is leads_to


def test_released_events_keep_their_shape() -> None:
    """What was once written decodes to the same event, and is written the same way today."""
    check_released(
        MACHINE,
        [
            ConnectionStarted(HOST, None, REQUIRED_SCOPES, NOW, NOW + 900),
            ConnectionReturned(1_800_000_000),
            ConnectionExchangeStarted(1_800_000_000),
            ConnectionGranted(42, REQUIRED_SCOPES, NOW + 5),
            ConnectionDenied(Reason.WRITE_SCOPE, NOW + 5),
            ConnectionExpired(NOW + 900),
            ConnectionEnded(1_800_000_000),
        ],
    )


def test_a_history_of_the_former_flow_still_folds() -> None:
    """There a grant came without the steps between."""
    history = [
        ConnectionStarted(HOST, None, REQUIRED_SCOPES, NOW, NOW + 900),
        ConnectionGranted(42, REQUIRED_SCOPES, NOW + 5),
    ]
    assert replay(MACHINE, history).status is Status.CONNECTED
    row: ConnectionRow | None = None
    for revision, event in enumerate(history, 1):
        row = fold_connection(row, Recorded("conn_1", revision, event, "proj_1", NOW, "key:key_1"))
    assert row is not None
    assert (row.status, row.host, row.provider_project_id) == ("connected", HOST, 42)


@pytest.mark.parametrize(
    ("scopes", "fault"),
    [
        (READ_SCOPES, None),
        (REQUIRED_SCOPES, None),
        ((*READ_SCOPES, "person:read"), None),
        ((*READ_SCOPES, "query:write"), Reason.WRITE_SCOPE),
        ((*READ_SCOPES, "*"), Reason.WRITE_SCOPE),
        ((*READ_SCOPES, "offline_access"), Reason.WRITE_SCOPE),
        ((*READ_SCOPES, "query:READ"), Reason.WRITE_SCOPE),
        (("query:read",), Reason.MISSING_SCOPE),
        ((), Reason.MISSING_SCOPE),
    ],
)
def test_only_reading_is_accepted(scopes: tuple[str, ...], fault: Reason | None) -> None:
    """Whatever is not a read scope refuses the whole grant, and so does too little (R-AUTH-21)."""
    assert scope_fault(scopes) is fault


def test_missing_scopes_are_named_in_order() -> None:
    """Of those that were asked for, whatever else was granted."""
    assert missing_scopes(READ_SCOPES) == ()
    assert missing_scopes(("person:read", "survey:read", *REQUIRED_SCOPES)) == (
        "session_recording:read",
        "feature_flag:read",
        "experiment:read",
    )


EXCHANGING = Connection(Status.EXCHANGING, NOW + EXCHANGE_SECONDS)


def test_replies_become_events() -> None:
    """Each outcome of the exchange is recorded as what it means, also when its time has passed meanwhile."""
    assert decide_reply(EXCHANGING, Granted(READ_SCOPES, 7), NOW) == [ConnectionGranted(7, READ_SCOPES, NOW)]
    moved = Granted(READ_SCOPES, 7, host=ELSEWHERE)
    assert decide_reply(EXCHANGING, moved, NOW) == [ConnectionGranted(7, READ_SCOPES, NOW, ELSEWHERE)]
    assert decide_reply(EXCHANGING, Granted(("*",), 7), NOW) == [ConnectionDenied(Reason.WRITE_SCOPE, NOW)]
    not_covered = Granted(READ_SCOPES, 7, covers_project=False)
    assert decide_reply(EXCHANGING, not_covered, NOW) == [ConnectionDenied(Reason.MISSING_SCOPE, NOW)]
    assert decide_reply(EXCHANGING, NoOutcome(), NOW) == [ConnectionExpired(NOW)]
    late = NOW + EXCHANGE_SECONDS
    assert decide_reply(EXCHANGING, Granted(READ_SCOPES, 7), late) == [ConnectionGranted(7, READ_SCOPES, late)]


def test_a_human_has_fifteen_minutes() -> None:
    """From the start to their answer on our page."""
    [event] = decide_connect(MACHINE.initial, ConnectWish(HOST, None), NOW)
    assert isinstance(event, ConnectionStarted)
    assert (event.expires_at - event.started_at, event.scopes) == (900, READ_SCOPES)


SECONDS = st.one_of(st.integers(0, 70), st.sampled_from([EXCHANGE_SECONDS, 899, 900]))
REPLIES: st.SearchStrategy[Reply] = st.sampled_from(
    [
        Granted(READ_SCOPES, None),
        Granted(REQUIRED_SCOPES, 7, host=ELSEWHERE),
        Granted(("query:write",), None),
        Granted(READ_SCOPES, 7, covers_project=False),
        NoOutcome(),
    ]
)


class SignIns(RuleBasedStateMachine):
    """One connection under any order of visits, answers, outcomes and polls, by any clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.state = MACHINE.initial
        self.history: list[Event] = []
        self.row: ConnectionRow | None = None

    def take(self, events: list[Event]) -> None:
        """Append what was decided, as the unit of work does."""
        for event in events:
            self.state = apply(MACHINE, self.state, event)
            self.history.append(event)
            recorded = Recorded("conn_1", len(self.history), event, "proj_1", self.now, "key:key_1")
            self.row = fold_connection(self.row, recorded)

    @rule(seconds=SECONDS)
    def wait(self, seconds: int) -> None:
        """Time passes."""
        self.now += seconds

    @rule()
    def start(self) -> None:
        """Asking twice is asking once."""
        self.take(decide_connect(self.state, ConnectWish(HOST, None), self.now))
        assert self.state.status is not Status.ABSENT

    @rule(brought=st.sampled_from(Brought))
    def come_back(self, brought: Brought) -> None:
        """Only the first visit counts. In time it leads to the page, or is the denial of the provider."""
        before = self.state
        self.take(decide_return(before, brought, self.now))
        if before.status is not Status.PENDING:
            assert self.state is before
        elif self.now >= before.expires_at:
            assert self.state.status is Status.EXPIRED
        else:
            leads = {Brought.CODE: Status.RETURNED, Brought.DENIAL: Status.DENIED, Brought.ERROR: Status.EXPIRED}
            assert self.state.status is leads[brought]

    @rule()
    def agree(self) -> None:
        """Only whoever is back can begin the exchange, once, and in time."""
        before = self.state
        self.take(events := decide_exchange(before, self.now))
        began = any(isinstance(event, ConnectionExchangeStarted) for event in events)
        assert began == (before.status is Status.RETURNED and self.now < before.expires_at)

    @rule()
    def refuse(self) -> None:
        """A denial counts on our page, until the exchange begins."""
        before = self.state
        self.take(decide_denial(before, self.now))
        if before.status is Status.RETURNED:
            assert self.state.status is (Status.DENIED if self.now < before.expires_at else Status.EXPIRED)
        else:
            assert self.state is before

    @rule(reply=REPLIES)
    def reply(self, reply: Reply) -> None:
        """An outcome counts while the exchange runs, and never otherwise."""
        before = self.state
        self.take(decide_reply(before, reply, self.now))
        assert (self.state is before) == (before.status is not Status.EXCHANGING)

    @rule()
    def poll(self) -> None:
        """A poll changes nothing before the time is over."""
        before = self.state
        self.take(decide_overdue(before, self.now))
        over = before.status in PENDING and self.now >= before.expires_at
        assert self.state.status is (Status.EXPIRED if over else before.status)

    @precondition(lambda self: self.state.status is Status.PENDING)
    @rule()
    def poll_of_the_former_flow(self) -> None:
        """Such a sign-in cannot be finished, and ends at once."""
        self.take(decide_overdue(self.state, self.now, ended=True))
        assert self.state.status is Status.EXPIRED

    @invariant()
    def one_answer(self) -> None:
        """A connection has one answer, after its steps in their order, and history gives state and row."""
        order = [type(event) for event in self.history]
        assert len(set(order)) == len(order)
        assert sum(kind in {ConnectionGranted, ConnectionDenied, ConnectionExpired} for kind in order) <= 1
        if ConnectionGranted in order:
            assert order[:3] == [ConnectionStarted, ConnectionReturned, ConnectionExchangeStarted]
        stored = [msgspec.json.decode(msgspec.json.encode(event), type=type(event)) for event in self.history]
        assert replay(MACHINE, stored) == self.state
        if self.row is not None:
            assert self.row.status == self.state.status.value
            assert (self.row.reason is not None) == (self.state.status is Status.DENIED)


TestSignIns = few_or_many(60, 300, stateful_step_count=12, deadline=None)(SignIns)
