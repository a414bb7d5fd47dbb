"""The read behind a report, from a connected provider: a failure is a gap and is read again, never a zero (G-112)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.automation_world import EVENTS, closed
from tests.support.cluster import TestCluster
from tests.support.connecting import grant
from tests.support.loop.http_scene import open_scene
from tests.support.provider import FakeProvider, running_provider
from tests.support.server import ServerHandle, running_server
from tests.support.weekly import Weekly, gap, metric, report_on


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def connected(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, provider: FakeProvider
) -> Iterator[ServerHandle]:
    with running_server(tmp_path_factory.mktemp("connected"), cluster, provider.env) as handle:
        yield handle


@pytest.fixture
def weekly(connected: ServerHandle, provider: FakeProvider) -> Iterator[Weekly]:
    """A run of a project whose provider is connected, with people there and others here."""
    with open_scene(connected) as at:
        made = Weekly(at)
        asked = at.must(at.call("POST", "/v1/auth/provider", {"project_id": at.world.project_id}, who="owner"), 200)
        grant(asked)
        poll = {"connection_id": asked["connection_id"]}
        assert at.must(at.call("POST", "/v1/auth/provider/poll", poll, who="owner"), 200)["status"] == "connected"
        provider.fail.clear()
        provider.events.clear()
        yield made.begin([50, 50, 50], [50, 50, 50])


def people(provider: FakeProvider, weekly: Weekly) -> None:
    """Four and five people, of whom some go on, one goes backwards, one is too early and one too late."""
    start, middle, end = weekly.period_start - 7 * 86400, weekly.period_start, weekly.period_end
    for since, until, count in ((start, middle, 4), (middle, end, 5)):
        for person in range(count):
            for step in range(1 + person % 3):
                provider.capture(EVENTS[step], since + step, distinct_id=f"{since}-{person}")
        for step in range(3):
            provider.capture(EVENTS[step], until - 1 - step, distinct_id=f"{since}-backwards")
    for at in (start - 1, end):
        provider.capture(EVENTS[0], at, distinct_id=f"{at}")


def test_the_provider_counts_and_a_failed_read_is_read_again(weekly: Weekly, provider: FakeProvider) -> None:
    """The intent stays and its numbers are not invented; the same request with the same key goes on from there."""
    token = weekly.token()
    for status, code in ((400, "refused"), (200, "malformed"), (500, "unreachable")):
        provider.fail["/api/projects/"] = status
        answer = weekly.source(token, key="source")
        refused = closed(answer, 503, "service_unavailable")["details"]
        assert refused["readiness_gap"]["code"] == f"provider_{code}"
        assert answer.headers["retry-after"]
        run = weekly.run()
        assert (run["phase"], run["state_revision"]) == ("running", 2)
        assert "Read the report source" in run["next_action"]
        assert "read_report_source" in weekly.left()
        assert "record_report" not in weekly.left()
    closed(weekly.record(report_on(FAKE), weekly.token()), 409, "report_source_required")
    provider.fail.clear()
    people(provider, weekly)
    while (answer := weekly.source(token, key="source")).status_code == 503:
        time.sleep(0.2)
    source = weekly.at.must(answer, 200)
    counted = [(row["prior_users"], row["current_users"]) for row in source["rows"]]
    assert (source["provider"], counted) == ("provider_cloud", [(5, 6), (2, 3), (1, 1)])
    asked = len(provider.requests)
    assert weekly.at.must(weekly.source(token, key="source"), 200) == source
    assert len(provider.requests) == asked, "a repeat reads nothing"
    weekly.at.must(weekly.record(report_on(source, metric(source, 2))), 201)


FAKE = {
    "period_start": 1,
    "period_end": 2,
    "source_hash": "0" * 64,
    "rows": [{"prior_users": 1, "current_users": 1}] * 3,
}


def test_what_stays_unread_is_the_gap_of_a_report(weekly: Weekly, provider: FakeProvider) -> None:
    """After some minutes the source says that nobody knows: no rows, no sample, and a report of gaps alone."""
    provider.fail["/api/projects/"] = 500
    until = closed(weekly.source(), 503, "service_unavailable")["details"]["patient_until"]
    weekly.clock.move_to(until)
    source = weekly.at.must(weekly.source(), 200)
    assert (source["rows"], source["sample_size"], source["minimum_sample_met"]) == ([], None, False)
    told = source["readiness_gap"]
    assert (told["kind"], told["code"]) == ("readiness_gap", "provider_unreachable")
    provider.fail.clear()
    people(provider, weekly)
    assert weekly.at.must(weekly.source(), 200)["source_hash"] == source["source_hash"], "it never changes"
    invented = {**gap(), "kind": "metric", "metric": "m", "unit": "u", "prior_value": 0, "current_value": 0}
    invented |= {"change": 0, "source_columns": []}
    del invented["code"], invented["message"]
    refused = closed(weekly.record(report_on(source, invented)), 409, "insufficient_sample")["details"]
    assert refused["sample_size"] is None
    weekly.at.must(weekly.record(report_on(source, told)), 201)
    assert weekly.run()["output"]["findings"] == [told]
