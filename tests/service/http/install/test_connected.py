"""Installs of connected projects: the provider's events count, and its failed reads record nothing (G-032, G-157)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.service.http.analytics.test_connected_blueprint import QUERY, nonsense
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.service.http.install.scene import GATES, Installed, codes, report_body
from tests.support.api import World, ok
from tests.support.connecting import NO_READ, RESTING, connect, rested
from tests.support.onboarding import onboard
from tests.support.provider import FakeProvider

READS = (
    ("POST", "install/verify"),
    ("GET", "verify-report"),
    ("GET", "answer-contracts"),
    ("GET", "next-steps"),
)


async def connected(world: World, provider: FakeProvider) -> Installed:
    """A connected project with a map and a report."""
    onb = await onboard(world)
    await connect(onb, provider)
    installed = Installed(world, onb.owner, {"id": onb.project_id, "dsn": onb.dsn})
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.report(report_body(sha)), 201)
    return installed


async def send(installed: Installed, method: str, tail: str, **headers: str) -> httpx2.Response:
    """Ask, whatever comes of it."""
    headers["authorization"] = f"Bearer {installed.owner.secret}"
    return await installed.owner.client.request(method, f"{installed.path}/{tail}", headers=headers)


async def test_a_connected_project_is_verified_by_its_provider(world: World, provider: FakeProvider) -> None:
    """Our own analytics rows are another answer to the question; errors and deploys are ours, exceptions theirs."""
    installed = await connected(world, provider)
    await installed.send_event("order_created", order_kind="book")
    await installed.send_deploy()
    assert codes((await installed.verify())["gate_failures"]) == [GATES[2], GATES[4]]
    [[now]] = await world.sql("select service_seconds()")
    provider.capture("order_created", now - 20, order_kind="book")
    provider.capture("order_paid", now - 10, amount=1)
    provider.capture("order_paid", now - 5, currency="eur")
    assert codes((await installed.verify())["gate_failures"]) == [GATES[4]]
    provider.capture("$exception", now - 4, failure_marker="payment_declined")
    found = await installed.verify()
    assert (found["ok"], found["readiness_gaps"], found["answer_ready"]) == (True, [], True)
    report = ok(await send(installed, "GET", "verify-report"))
    assert [(s["kind"], s["row_count"], s["observed"]) for s in report["signals"]] == [
        ("analytics", 1, True),
        ("analytics", 2, True),
        ("error", 1, True),
        ("deploy", 1, True),
    ]
    assert [s["last_seen_at"] for s in report["signals"]][:3] == [now - 20, now - 5, now - 4]


async def test_an_error_of_ours_counts_beside_the_providers(world: World, provider: FakeProvider) -> None:
    installed = await connected(world, provider)
    await installed.send_error("payment_declined")
    found = await installed.verify()
    assert codes(found["gate_failures"]) == [GATES[2], GATES[3]]
    assert "safe_error_missing" not in codes(found["readiness_gaps"])


@pytest.mark.parametrize("misbehave", [500, 429, nonsense])
async def test_a_failed_read_records_nothing(world: World, provider: FakeProvider, misbehave: Any) -> None:
    """Never an event that was not received; and the key is free for the next attempt."""
    installed = await connected(world, provider)
    before = await installed.topics()
    provider.fail[QUERY] = misbehave
    for method, tail in READS:
        answer = await send(installed, method, tail, **({"idempotency-key": "k"} if method == "POST" else {}))
        assert (answer.status_code, answer.json()["error"]["code"]) == RESTING.get(misbehave, NO_READ)
    assert await installed.topics() == before
    assert await installed.state() == "implemented"
    del provider.fail[QUERY]
    again = await rested(lambda: send(installed, "POST", "install/verify", **{"idempotency-key": "k"}))
    assert codes(ok(again)["gate_failures"])
    for method, tail in READS:
        ok(await send(installed, method, tail))


async def test_a_verified_source_needs_no_provider_for_its_questions(world: World, provider: FakeProvider) -> None:
    """Its receipt settles them; verification asks all the same."""
    onb = await onboard(world)
    installed = Installed(world, onb.owner, {"id": onb.project_id, "dsn": onb.dsn})
    begun = await onb.to_proving()
    await onb.exercise(begun)
    ok(await onb.verify(begun["state"]))
    await connect(onb, provider)
    provider.fail[QUERY] = 500
    assert ok(await send(installed, "GET", "answer-contracts"))["answer_ready"]
    assert ok(await send(installed, "GET", "next-steps"))["project_state"]["answer_ready"]
    assert (await send(installed, "POST", "install/verify")).status_code == 503
