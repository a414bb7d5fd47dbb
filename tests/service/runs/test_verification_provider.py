"""Verification through a connected provider: its count decides, and when it cannot be read nothing is decided."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.automation_world import closed
from tests.support.cluster import TestCluster
from tests.support.connecting import grant
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.provider import FakeProvider, running_provider
from tests.support.server import running_server


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def at(tmp_path: Path, cluster: TestCluster, provider: FakeProvider) -> Iterator[HttpScene]:
    with running_server(tmp_path, cluster, provider.env) as server, open_scene(server) as scene:
        yield scene


def test_the_provider_counts_and_a_failed_read_is_not_silence(at: HttpScene, provider: FakeProvider) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    assert at.deploy() == at.run_id
    deployed = at.run()["deploy"]["recorded_at"]
    started = at.must(at.call("POST", "/v1/auth/provider", {"project_id": at.world.project_id}, who="owner"), 200)
    grant(started)
    poll = {"connection_id": started["connection_id"]}
    assert at.must(at.call("POST", "/v1/auth/provider/poll", poll, who="owner"), 200)["status"] == "connected"
    at.traffic(5)
    at.wait(121)
    pending = at.verify()
    assert (pending.status_code, pending.json()["verification"]["sample"]["count"]) == (202, 0)
    provider.fail["/api/projects/"] = 500
    for _ in range(2):
        answer = at.verify()
        closed(answer, 503, "service_unavailable")
        assert answer.headers["retry-after"]
        assert at.run()["status"] == "verifying"
    at.wait(900)
    assert at.run()["status"] == "verifying", "a provider that cannot be read fails nothing either"
    provider.fail.clear()
    for seconds in (-3, -2, -1):
        provider.capture("checkout_completed", deployed + seconds, environment="production")
    for seconds in (1, 2, 2000):
        provider.capture("checkout_completed", deployed + seconds, **{"$environment": "production"})
    provider.capture("checkout_completed", deployed + 3, environment="staging")
    provider.capture("checkout_completed", deployed + 3)
    provider.capture("something_else", deployed + 3)
    at.wait(61)  # the worker looks at the exceptions
    until = time.monotonic() + 60
    while (done := at.verify()).status_code != 200:
        assert done.status_code in {202, 503}
        assert time.monotonic() < until
        time.sleep(0.2)
    shown = done.json()["verification"]
    assert (shown["outcome"], shown["sample"]["count"]) == ("no_recurrence", 2)
    place = {"environment": "production", "unnamed": False, "looked_at": 3, "named": 3}
    assert at.run()["counted_in"] == place, "what is usual is what the provider has"
    assert at.run()["evidence_source"] == "provider_cloud"
    rows = "select payload #>> '{verdict,evidence_source}' from events where project_id = %s and topic = %s"
    found = at.world.run(lambda store: store.fetch(rows, at.world.project_id, "run.verified.v1"))
    assert found == [("provider_cloud",)]
