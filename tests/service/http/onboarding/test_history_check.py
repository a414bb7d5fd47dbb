"""The history of a plan is compared with the connection, beside the closed shapes (G-183)."""

from __future__ import annotations

from typing import Any

import pytest

from service.analytics.queries import KEPT_SECONDS
from tests.service.http.analytics.test_connected_blueprint import COUNT, ask
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.support.api import World, ok
from tests.support.connecting import connect
from tests.support.console import browser_of
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import history_body, plan_body
from tests.support.provider import FakeProvider

READS = ("setup", "automation-control")


async def check_of(onb: Onboarding, reads: tuple[str, ...] = READS) -> Any:
    """The result of the comparison, the same in all reads."""
    found = [ok(await onb.owner.get(f"/v1/projects/{onb.project_id}/{tail}")) for tail in reads]
    [one] = {read["historical_evidence_check"] for read in found}
    return one


async def audited(world: World, provider: FakeProvider) -> tuple[Onboarding, dict[str, Any]]:
    """A connected project, and the history that one of its answers shows."""
    onb = await onboard(world)
    await connect(onb, provider, provider_project_id=42)
    provider.tables[COUNT] = [[7, 3]]
    answer = ok(await ask(onb, "event-count", {"params": {"event": "order_paid", "days": 2}}))
    evidence = answer["evidence"]
    window = {"from": evidence["from"], "to": evidence["to"]}
    history = history_body() | {"observed_at": evidence["to"], "window": window}
    return onb, history | {"query_receipt_sha256": evidence["query_receipt_sha256"]}


async def planned(onb: Onboarding, history: dict[str, Any] | None) -> dict[str, Any]:
    """Propose a plan with a history."""
    return ok(await onb.start(plan_body(historical_evidence=history)), 201)


async def test_an_answer_of_the_connected_provider_is_confirmed(world: World, provider: FakeProvider) -> None:
    """Before the review and after it. The statuses of evidence keep their meaning."""
    onb, history = await audited(world, provider)
    assert await check_of(onb) is None, "there is no plan"
    state = await planned(onb, history)
    assert await check_of(onb) == "confirmed"
    assert state["evidence_status"] == {"historical": "historically_observed", "source": "pending"}
    assert "historical_evidence_check" not in state
    page = await (await browser_of(onb.owner)).open(f"projects/{onb.project_id}/onboarding")
    assert "History at the provider Confirmed" in page.text
    ok(await onb.approve(state))
    assert await check_of(onb, (*READS, "verify-report")) == "confirmed"


@pytest.mark.parametrize(
    "change",
    [{"provider_project_id": 43}, {"window": {"from": 1, "to": 2}}, {"window": {"from": 0, "to": 1_600_000_000}}],
)
async def test_another_project_or_window_is_contradicted(
    world: World, provider: FakeProvider, change: dict[str, Any]
) -> None:
    onb, history = await audited(world, provider)
    state = await planned(onb, history | change)
    assert await check_of(onb) == "contradicted"
    assert state["evidence_status"]["historical"] == "historically_observed", "it never changes the status"
    page = await (await browser_of(onb.owner)).open(f"projects/{onb.project_id}/onboarding")
    assert "History at the provider Contradicted" in page.text


async def test_a_receipt_of_others_is_unconfirmed(world: World, provider: FakeProvider) -> None:
    """Also one that the service gave to another project."""
    onb, history = await audited(world, provider)
    await planned(onb, history | {"query_receipt_sha256": "c" * 64})
    assert await check_of(onb) == "unconfirmed"
    other = await onboard(world)
    await connect(other, provider, provider_project_id=42)
    await planned(other, history)
    assert await check_of(other) == "unconfirmed"


async def test_without_a_connection_nothing_is_confirmed(world: World) -> None:
    onb = await onboard(world)
    await planned(onb, history_body())
    assert await check_of(onb) == "unconfirmed"
    page = await (await browser_of(onb.owner)).open(f"projects/{onb.project_id}/onboarding")
    assert "History at the provider Not confirmed" in page.text


async def test_a_connection_to_another_project_contradicts(world: World, provider: FakeProvider) -> None:
    onb, history = await audited(world, provider)
    await planned(onb, history)
    await world.wait(1)
    provider.teams = [43]
    await connect(onb, provider, provider_project_id=43)
    assert await check_of(onb) == "contradicted"


async def test_old_receipts_go_but_for_the_one_of_the_plan(world: World, provider: FakeProvider) -> None:
    onb, history = await audited(world, provider)
    await planned(onb, history)
    ok(await ask(onb, "event-count", {"params": {"event": "order_created", "days": 2}}))
    await world.sql(
        "update provider_receipts set answered_at = answered_at - %s where project_id = %s",
        KEPT_SECONDS + 1,
        onb.project_id,
    )
    ok(await ask(onb, "event-count", {"params": {"event": "order_created", "days": 3}}))
    rows = await world.sql("select sha256 from provider_receipts where project_id = %s", onb.project_id)
    assert len(rows) == 2
    assert (history["query_receipt_sha256"],) in rows
    assert await check_of(onb) == "confirmed"
