"""The connection machine: asked, then granted, denied or expired, each once (G-022)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.analytics.connection import ConnectionRow, fold
from schemas.analytics.connection import READ_SCOPES
from statemachines.analytics.connection import (
    MACHINE,
    Connection,
    ConnectionConflict,
    ConnectionDenied,
    ConnectionExpired,
    ConnectionGranted,
    ConnectionStarted,
    ConnectWish,
    Granted,
    Reason,
    Refused,
    Reply,
    Status,
    Waiting,
    decide_connect,
    decide_reply,
    scope_fault,
)
from statemachines.kernel.machine import Event, Recorded, apply, permits, replay
from tests.statemachines.tables import check_released

NOW = 1_700_000_000
HOST = "https://provider.example"
EVENTS: list[Event] = [
    ConnectionStarted(HOST, None, READ_SCOPES, NOW, NOW + 900),
    ConnectionGranted(7, READ_SCOPES, NOW),
    ConnectionDenied(Reason.HUMAN, NOW),
    ConnectionExpired(NOW),
]
EDGES = {
    (Status.ABSENT, ConnectionStarted): Status.PENDING,
    (Status.PENDING, ConnectionGranted): Status.CONNECTED,
    (Status.PENDING, ConnectionDenied): Status.DENIED,
    (Status.PENDING, ConnectionExpired): Status.EXPIRED,
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
            ConnectionStarted(HOST, None, READ_SCOPES, NOW, NOW + 900),
            ConnectionGranted(42, READ_SCOPES, NOW + 5),
            ConnectionDenied(Reason.WRITE_SCOPE, NOW + 5),
            ConnectionExpired(NOW + 900),
        ],
    )


@pytest.mark.parametrize(
    ("scopes", "fault"),
    [
        (READ_SCOPES, None),
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


PENDING = Connection(Status.PENDING, NOW + 900)


def test_replies_become_events() -> None:
    """Each reply of the provider is recorded as what it means; none yet is nothing until the time is over."""
    assert decide_reply(PENDING, Granted(READ_SCOPES, 7), NOW) == [ConnectionGranted(7, READ_SCOPES, NOW)]
    assert decide_reply(PENDING, Granted(("*",), 7), NOW) == [ConnectionDenied(Reason.WRITE_SCOPE, NOW)]
    not_covered = Granted(READ_SCOPES, 7, covers_project=False)
    assert decide_reply(PENDING, not_covered, NOW) == [ConnectionDenied(Reason.MISSING_SCOPE, NOW)]
    assert decide_reply(PENDING, Refused(), NOW) == [ConnectionDenied(Reason.HUMAN, NOW)]
    assert decide_reply(PENDING, Waiting(), NOW + 899) == []
    assert decide_reply(PENDING, Waiting(), NOW + 900) == [ConnectionExpired(NOW + 900)]
    assert decide_reply(PENDING, Granted(READ_SCOPES, 7), NOW + 901) == [ConnectionGranted(7, READ_SCOPES, NOW + 901)]


REPLIES: st.SearchStrategy[Reply] = st.sampled_from(
    [Granted(READ_SCOPES, None), Granted(("query:write",), None), Refused(), Waiting()]
)


@given(st.lists(st.tuples(REPLIES, st.integers(0, 500)), max_size=8))
def test_a_connection_has_one_answer(replies: list[tuple[Reply, int]]) -> None:
    """The first answer stands, whatever else arrives; history gives state and row."""
    state, now = MACHINE.initial, NOW
    history: list[Event] = []
    wish = ConnectWish(HOST, None)
    for event in (*decide_connect(state, wish, now), *decide_connect(PENDING, wish, now)):
        state = apply(MACHINE, state, event)
        history.append(event)
    for reply, seconds in replies:
        now += seconds
        events = decide_reply(state, reply, now)
        if state.status is not Status.PENDING:
            assert events == []
        for event in events:
            state = apply(MACHINE, state, event)
            history.append(event)
    assert len(history) <= 2
    assert replay(MACHINE, history) == state
    row: ConnectionRow | None = None
    for revision, event in enumerate(history, 1):
        row = fold(row, Recorded("conn_1", revision, event, "proj_1", NOW, "key:key_1"))
    assert row is not None
    assert (row.status, row.expires_at) == (state.status.value, state.expires_at)
    assert (row.reason is not None) == (state.status is Status.DENIED)


def test_a_human_has_at_most_fifteen_minutes() -> None:
    """A provider may give less time than that, not more."""
    for lifetime, given_time in ((900, 900), (1800, 900), (60, 60)):
        [event] = decide_connect(MACHINE.initial, ConnectWish(HOST, None, lifetime), NOW)
        assert isinstance(event, ConnectionStarted)
        assert event.expires_at - event.started_at == given_time
