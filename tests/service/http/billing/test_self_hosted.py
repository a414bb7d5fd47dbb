"""An installation that sells nothing and sets no plans has no cap, no lock and no red quota (G-203)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.service.http.billing.test_payment import CHECKOUT, PORTAL, STATUS, post_for_503
from tests.service.http.billing.test_usage import CAP, have_used, today
from tests.support import seen
from tests.support.api import Person, World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.cluster import TestCluster
from tests.support.console import browser_of
from tests.support.mcp import Agent
from tests.support.payments import KEY
from tests.support.server import ServerHandle, running_server

NOTHING_IS_SOLD = {"SERVICE_PLANS": ""}
OF_A_CAP = {"price_cents", "monthly_event_cap", "pct_of_plan", "cap", "remaining", "pct"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A self-hosted installation, as it is without any setting of plans and payment."""
    with running_server(tmp_path_factory.mktemp("self-hosted"), cluster, NOTHING_IS_SOLD) as handle:
        yield handle


@pytest_asyncio.fixture
async def sold(server: ServerHandle, tmp_path: Path) -> AsyncIterator[World]:
    """The same installation, once a payment provider is configured."""
    env = {"SERVICE_PLANS": "", "SERVICE_PAYMENT_API_KEY": KEY, "SERVICE_PAYMENT_API_BASE": "http://127.0.0.1:9"}
    handle = ServerHandle(tmp_path, database_url=server.database_url, env=env)
    try:
        handle.start()
        async with seen.async_client(handle.base_url, timeout=30) as client:
            yield World(client, handle)
    finally:
        handle.stop()


async def heavy(world: World) -> Person:
    """A person who has sent more than the free plan holds."""
    person = await world.sign_in()
    await have_used(world, person, await today(world), CAP * 3)
    return person


def names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(names_in(inner) for inner in value.values()))
    return set().union(*(names_in(inner) for inner in value)) if isinstance(value, list) else set()


async def test_no_account_has_a_cap_a_price_or_a_lock(world: World):
    """Members of a cap are absent, and nothing is said of a quota beside any answer."""
    person = await heavy(world)
    usage, status = ok(await person.get("/v1/usage")), ok(await person.get(STATUS))
    for shown in (usage, status):
        assert (shown["plan"], shown["plan_name"], shown["retention_days"]) == ("self_hosted", "Self-hosted", 90)
        assert (shown["quota"]["state"], shown["quota"]["locked"], shown["quota"]["used"]) == ("ok", False, CAP * 3)
        assert not names_in(shown) & OF_A_CAP
        assert shown["upgrade"]["available"] is False
        assert shown["upgrade"]["recommended_plan"] is None
        assert shown["next_action"] == "Nothing to do: this installation has no cap."
    made = await person.create_project()
    for answer in (made, usage, status, ok(await person.get(f"/v1/projects/{made['id']}/health"))):
        assert "billing_notice" not in answer
    ok(await person.get(f"/v1/projects/{made['id']}/session-recordings"))
    for path, body in ((CHECKOUT, {"plan": "pro"}), (PORTAL, {})):
        await post_for_503(person, path, body)


async def test_the_plans_come_back_with_a_payment_provider(world: World, sold: World):
    """Unchanged: the same account has the free plan with its cap, and is over it; the other process says none yet."""
    person = await heavy(world)
    paid = sold.having(person.secret)
    usage = ok(await paid.get("/v1/usage"))
    assert (usage["plan"], usage["monthly_event_cap"], usage["retention_days"]) == ("free", CAP, 30)
    assert (usage["pct_of_plan"], usage["quota"]["state"], usage["quota"]["locked"]) == (300, "over", True)
    assert usage["billing_notice"]["client_payload"]["kind"] == "quota_over"
    assert ok(await paid.get(STATUS))["price_cents"] == 0
    assert ok(await person.get("/v1/usage"))["plan"] == "self_hosted"


async def test_pages_texts_and_tools_show_no_cap(world: World):
    person = await heavy(world)
    project_id = (await person.create_project())["id"]
    browser = await browser_of(person)
    for path in ("", f"projects/{project_id}/usage"):
        page = await browser.open(path)
        assert f"{CAP * 3:,}".replace(",", " ") in page.text.replace("\u202f", " ").replace(",", " ")
        assert 'class="bar"' not in page.html
        assert "quota" not in page.text
        assert "Price" not in page.text
    answer = await Agent(person).read("read", operation="get_billing_status")
    assert answer["plan"] == "self_hosted"
    assert not names_in(answer) & OF_A_CAP
    guide = (await world.client.get("/service.md")).text
    assert "Nothing is sold in this installation, and no account has a cap." in guide
    assert "retention_days" in (await world.client.get("/v1/docs/query")).text
    disclosure = ok(await world.client.get("/v1/privacy/disclosure"))["paste_ready_markdown"]
    assert "for 90 days" in disclosure
    assert "free" not in disclosure


async def test_the_document_says_that_members_of_a_cap_are_optional(world: World):
    schemas = ok(await world.client.get("/v1/openapi.json"))["components"]["schemas"]
    for name in ("Usage", "BillingStatus", "Quota"):
        found = schemas[name]
        mine = OF_A_CAP & set(found["properties"])
        assert mine
        assert not mine & set(found["required"])
        assert {found["properties"][member]["type"] for member in mine} == {"integer"}, "absent, and never null"
