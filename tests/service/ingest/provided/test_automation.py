"""Automation of cases that a connected provider feeds, while its exceptions are read and when they are not (G-182)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from service.process.assembly import make_services
from service.settings import load_settings
from tests.support.automation_world import closed
from tests.support.connecting import grant
from tests.support.loop.contracts import contract_of
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.provider import FakeProvider
from tests.support.provider.exceptions import exception
from tests.support.server import ServerHandle

GAP = "provider_exceptions_stale"
CHECK = "provider_exceptions_current"


class Fed:
    """A scene whose project is connected, with an enabled contract, and looks at its exceptions."""

    def __init__(self, at: HttpScene, provider: FakeProvider) -> None:
        self.at = at
        self.provider = provider

    def connect(self) -> None:
        """Connect the project."""
        at = self.at
        self.provider.human = "granted"
        started = at.must(at.call("POST", "/v1/auth/provider", {"project_id": at.world.project_id}, who="owner"), 200)
        grant(started)
        poll = {"connection_id": started["connection_id"]}
        assert at.must(at.call("POST", "/v1/auth/provider/poll", poll, who="owner"))["status"] == "connected"

    def look(self) -> int:
        """Look at the exceptions once. Returns how many were counted."""
        with ThreadPoolExecutor(1) as aside:
            return aside.submit(lambda: asyncio.run(self._look())).result()

    async def _look(self) -> int:
        services = make_services(load_settings({**self.at.server.env}))
        await services.store.start()
        try:
            return await services.exceptions.look(self.at.world.project_id)
        finally:
            await services.store.stop()
            services.exceptions.close()

    def captured(self, times: int = 2, **changes: Any) -> None:
        """Capture exceptions at the provider, and count them."""
        for _ in range(times):
            self.provider.capture("$exception", self.provider.now - 2, **exception(**changes))
        assert self.look() == times
        cases = self.at.must(self.at.call("GET", f"{self.at.project}/cases", who="owner"))["cases"]
        self.at.case_id = cases[0]["case_id"]

    def deployed(self) -> None:
        """A case of the provider, its repair deployed, and enough traffic at the provider from then on."""
        at = self.at
        self.captured()
        at.issue()
        at.must(at.claim(), 201)
        at.must(at.start(), 201)
        grant_id = at.must(at.authorize(), 201)["grant_id"]
        at.must(at.consume(grant_id), 200)
        at.must(at.prove(), 201)
        assert at.deploy() == at.run_id
        since = at.run()["deploy"]["recorded_at"]
        for _ in range(3):
            self.provider.capture("checkout_completed", since + 1, environment="production")

    def wait(self, seconds: int) -> None:
        """Let time pass here and at the provider."""
        self.at.wait(seconds)
        self.provider.clock_off += seconds

    def gaps(self) -> list[str]:
        """Codes of the gaps of its contract."""
        at = self.at
        answer = at.must(at.world.call("POST", f"{at.world.contract}/validate", contract_of(at.mode)))
        return [gap["code"] for gap in answer["readiness"]["gaps"]]


@pytest.fixture
def fed(server: ServerHandle, provider: FakeProvider) -> Iterator[Fed]:
    with open_scene(server) as at:
        at.prepare()
        made = Fed(at, provider)
        made.connect()
        yield made


def test_a_stale_cursor_offers_no_case_of_the_provider(fed: Fed) -> None:
    """The one of our own records is offered. The other is, once the exceptions were read again."""
    at = fed.at
    fed.captured()
    of_provider = at.case_id
    at.error(2)
    at.wait(660)
    body = at.issue()
    assert [one["case"]["case_id"] for one in body["trigger_receipts"]] == [at.case_id]
    listed = at.must(at.call("GET", f"{at.project}/automation-decisions?case_id={of_provider}", who="owner"))
    [decision] = listed["decisions"]
    assert decision["code"] == "materiality_not_met"
    assert [one["check"] for one in decision["checks"] if not one["passed"]] == [CHECK]
    assert decision["inputs"]["provider_read_to"] <= decision["decided_at"] - 600
    fed.provider.clock_off += 660  # the clocks agree again
    assert fed.look() == 0
    assert of_provider in [one["case"]["case_id"] for one in at.issue()["trigger_receipts"]]


def test_a_cursor_that_became_stale_ends_the_receipt_at_the_claim(fed: Fed) -> None:
    at = fed.at
    fed.captured()
    assert len(at.issue()["trigger_receipts"]) == 1
    at.wait(660)
    error = closed(at.claim(), 409, "materiality_not_met")
    assert [one["check"] for one in error["details"]["checks"] if not one["passed"]] == [CHECK]


def test_a_stale_cursor_is_a_readiness_gap(fed: Fed) -> None:
    """And so is a connection whose rights are gone: nothing is read through it."""
    at = fed.at
    assert fed.look() == 0
    assert fed.gaps() == []
    fed.provider.looks_fail = True
    fed.provider.fail["/api/"] = 403
    at.wait(660)
    assert fed.look() == 0
    assert fed.gaps() == [GAP]
    at.save()
    etag = at.must(at.world.call("GET", at.world.contract))["etag"]
    refused = at.world.call("POST", f"{at.world.contract}/enable", etag=etag, key="stale-1")
    assert [one["code"] for one in closed(refused, 409, "readiness_incomplete")["details"]["gaps"]] == [GAP]
    health = at.must(at.call("GET", f"{at.project}/health", who="owner"))
    assert health["provider_exceptions"]["stale"] is True
    del fed.provider.fail["/api/"]
    fed.provider.clock_off += 660
    fed.connect()
    fed.look()
    assert fed.gaps() == []
    assert at.world.call("POST", f"{at.world.contract}/enable", etag=etag, key="stale-2").status_code == 200


def test_no_error_source_stands_until_an_error_came_by_either_way(fed: Fed) -> None:
    """In health, next steps and control. It is no gap of the contract."""
    at = fed.at
    paths = [f"{at.project}/{name}" for name in ("health", "next-steps", "automation-control")]

    def told() -> list[bool]:
        return [at.must(at.call("GET", path, who="owner"))["no_error_source"] for path in paths]

    assert told() == [True] * 3
    assert fed.gaps() == []
    fed.captured()
    assert told() == [False] * 3


def unread(at: HttpScene) -> dict[str, Any]:
    """The answer of a verification that waits for the exceptions of the provider."""
    answer = at.verify()
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    assert (told["verification"]["outcome"], told["reason"]) == ("pending", "provider_exceptions_unread")
    return told


def test_a_recurrence_of_the_last_minute_is_not_missed(fed: Fed) -> None:
    """The window is over and there is traffic. The exceptions were not read as far, so nothing is concluded."""
    at = fed.at
    fed.deployed()
    fed.wait(125)
    fed.provider.capture("$exception", fed.provider.now - 10, **exception(release="1.0.1"))
    unread(at)
    assert at.run()["status"] == "verifying"
    assert fed.look() == 1
    shown = at.must(at.verify(), 200)["verification"]
    assert (shown["outcome"], shown["sample"]["recurrence_count"]) == ("recurred", 1)


def test_a_verification_passes_once_the_exceptions_of_its_window_were_read(fed: Fed) -> None:
    """Arrivals that the provider shows two minutes late are among them."""
    at = fed.at
    fed.deployed()
    fed.wait(125)
    assert fed.look() == 0
    unread(at)
    fed.wait(125)
    assert unread(at)["verification"]["sample"]["observed_to"] < at.run()["deploy"]["recorded_at"] + 120
    assert fed.look() == 0
    done = at.must(at.verify(), 200)
    assert "reason" not in done
    assert (done["verification"]["outcome"], done["verification"]["sample"]["count"]) == ("no_recurrence", 3)


def test_a_verification_without_the_exceptions_ends_after_its_deadline(fed: Fed) -> None:
    at = fed.at
    fed.deployed()
    fed.wait(1000)
    unread(at)
    fed.wait(600)
    assert at.must(at.verify(), 200)["verification"]["outcome"] == "insufficient_traffic"


def test_an_error_by_dsn_recurs_at_once(fed: Fed) -> None:
    """Whatever was read at the provider."""
    at = fed.at
    fed.deployed()
    frames = [{"file": "pay.py", "function": "pay", "in_app": True, "filename": "app/pay.py"}]
    told = {"exception": {"type": "KeyError", "value": "missing", "frames": frames}}
    case_id = at.case_id
    at.wait(2)
    at.error(message="missing", environment="production", extra=told)
    assert at.case_id == case_id
    at.wait(5)
    assert at.must(at.verify(), 200)["verification"]["outcome"] == "recurred"
