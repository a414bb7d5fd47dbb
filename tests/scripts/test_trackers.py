"""What trackers are compared by: envelopes as SDKs send them, and a count of what is visible that is whole."""

from __future__ import annotations

import json
from itertools import islice
from statistics import mean

import pytest

from scripts.bench import trackers
from scripts.load import worlds
from service.ingest.foreign.sentry_event import event_id_of
from tests.support.sentry import parse
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

AT = "2026-11-22T12:00:00+00:00"
DSN = "http://key@127.0.0.1:1/7"


def test_envelopes_are_of_the_size_that_is_said_and_no_two_are_the_same() -> None:
    laid_out = trackers.texts(AT)
    assert 14_500 < mean(map(len, laid_out)) < 15_500
    clients = [trackers.sending(DSN, laid_out, turn, number) for turn in range(2) for number in range(2)]
    sent = [body for client in clients for _, _, _, body in islice(client, 3 * trackers.ISSUES)]
    ids = set()
    for body in sent:
        header, [item] = parse(body)
        event = json.loads(item.payload)
        assert event.keys() == trackers.event(0, AT).keys()
        assert header.event_id == event_id_of(event["event_id"]) is not None
        ids.add(header.event_id)
    assert len(ids) == len(sent)


@pytest.fixture
def service(server: ServerHandle) -> worlds.Service:
    """The test server, as the bench sees a service."""
    assert server.database_url is not None
    running = worlds.Service(server.port, server.database_url, server.internal_token, server.test_token)
    running.sign_in()
    return running


def test_everything_that_the_service_accepts_is_visible(service: worlds.Service) -> None:
    """At once, in as many cases as there are kinds of error; and the counts of a second turn are its own."""
    tracker = trackers.of_service(service)
    answered = 0
    for number in range(2):
        turn = trackers.take_turn(tracker, number, 0.5)
        assert set(turn.statuses) == {200}
        answered += turn.statuses[200]
        assert tracker.visible() == answered
        assert turn.accepted >= turn.visible > 0
    assert tracker.kinds() == trackers.ISSUES


def test_a_tracker_that_loses_what_it_accepted_is_found(service: worlds.Service) -> None:
    losing = trackers.of_service(service)
    losing = losing._replace(name="loses one", visible=lambda real=losing.visible: max(0, real() - 1))
    with pytest.raises(SystemExit, match="loses one accepted"):
        trackers.take_turn(losing, 0, 0.1, patience=0.5)
