"""Next steps and health name only what their reader can do here and now: a walk that does all that they name.

In every state of a project each operation that is named is there and takes the credential of its reader, carrying a
step out makes it disappear or change, and following the first step again and again ends where nothing is left to do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from service.accounts import membership as admin
from service.contracts.contract import resume_installation, stop_installation
from service.http.app import create_app
from service.process.assembly import make_services
from service.settings import load_settings
from statemachines.accounts.membership import Role
from tests.service.http.edge.toy_api import running
from tests.service.http.projects.walking import Walker
from tests.support import seen
from tests.support.api import World, ok
from tests.support.cluster import TestCluster
from tests.support.ending import held_at_the_fence
from tests.support.payments import KEY, SECRET, FakePayments, notification, running_payments, signature, subscription
from tests.support.plans import plan_body
from tests.support.provider import FakeProvider, running_provider
from tests.support.server import ServerHandle, running_server

LASTING = {"ask_a_question"}
"""What stays worth doing after it was done."""
CAP = 20
CREDENTIAL_SECONDS = 300
PROOF_SECONDS = 7200
HOUR = 3600
NOTHING = "Nothing needs attention."


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with running_provider() as running:
        yield running


@pytest.fixture(scope="module")
def payments() -> Iterator[FakePayments]:
    with running_payments() as running:
        yield running


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster, provider: FakeProvider, payments: FakePayments
) -> Iterator[ServerHandle]:
    """An installation that sells and can be connected, with a small free plan and few new cases an hour."""
    env = {
        **provider.env,
        "SERVICE_PAYMENT_API_KEY": KEY,
        "SERVICE_PAYMENT_API_BASE": payments.url,
        "SERVICE_PAYMENT_WEBHOOK_SECRET": SECRET,
        "SERVICE_PLANS": f'{{"free": {{"events": {CAP}, "retention_days": 30, "price_cents": 0}}, '
        '"house": {"events": 1000, "retention_days": 30, "price_cents": 0}}',
        "SERVICE_NEW_CASES_PER_HOUR": "3",
    }
    with running_server(tmp_path_factory.mktemp("equipped"), cluster, env) as handle:
        yield handle


@pytest_asyncio.fixture
async def equipped(server: ServerHandle) -> AsyncIterator[World]:
    async with seen.async_client(server.base_url, timeout=30) as client:
        yield World(client, server)


@pytest_asyncio.fixture
async def bare(shared_server: ServerHandle) -> AsyncIterator[World]:
    """An installation that sells nothing, and whose provider does not answer."""
    async with seen.async_client(shared_server.base_url, timeout=30) as client:
        yield World(client, shared_server)


async def begin(world: World, provider: FakeProvider | None = None) -> Walker:
    owner = await world.sign_in()
    made = await owner.create_project()
    return Walker(world, owner, made["id"], made["dsn"], provider)


async def follow(walker: Walker) -> list[str]:
    """Take the first step again and again; returns what was taken, until nothing is left."""
    taken: list[str] = []
    while steps := [step for step in await walker.named() if step not in LASTING]:
        step = steps[0]
        await walker.take(step)
        taken.append(step)
        left = await walker.named()
        # An onboarding is finished in three steps, each of which moves it on: that is held where they are taken.
        assert step not in left or step == "finish_onboarding", (step, left)
        assert len(taken) < 30, taken
    return taken


async def look(walker: Walker) -> Walker:
    """A member who is no owner, and reads the same project: all that is named can be called by them too."""
    member = await walker.world.sign_in()
    await walker.world.operate(lambda store: admin.set_member(store, walker.project_id, member.user_id, Role.MEMBER))
    return Walker(walker.world, member, walker.project_id, walker.dsn)


ONBOARDING = ["start_onboarding", *["finish_onboarding"] * 3]


async def test_the_named_steps_lead_from_nothing_to_bounded_automation(bare: World) -> None:
    """And in each state that lies between, or follows by a stop or by time, what is named is accepted."""
    at = await begin(bare)
    member = await look(at)
    assert await at.advice() == "Nothing has arrived yet: send a first event with the project's DSN."
    assert "connect_provider" in await at.named(), "without any setting the service registers itself (G-180)"
    assert set(await member.named()) == {"send_first_event", "record_deploys"}
    taken: list[str] = []
    while steps := [step for step in await at.named() if step not in LASTING]:
        await member.named()
        await at.take(steps[0])
        taken.append(steps[0])
        left = await at.named()
        assert steps[0] not in left or steps[0] == "finish_onboarding"
        if taken[-2:] == ["finish_onboarding"] * 2 and taken.count("finish_onboarding") == 2:
            await bare.wait(PROOF_SECONDS + 1)  # the proof session is over: the same step leads on
    assert taken == [
        "send_first_event", "record_deploys", *ONBOARDING, "review_open_cases", "automate_case_fixes",
        "enable_automation",
    ]  # fmt: skip
    assert await at.advice() == NOTHING
    assert set(await member.named()) <= LASTING

    for deed in ("pause", "disable"):
        ok(await at.stop(deed))
        assert await follow(at) == ["enable_automation"]

    [runner] = [one for one in at.credentials if one["kind"] == "automation_runner"]
    ok(await at.reader.post(f"/v1/project-credentials/{runner['id']}/revoke", {"reason": "test"}, key="away"))
    assert await follow(at) == ["replace_runner_credential"]
    await bare.wait(max(one["expires_at"] - one["created_at"] for one in at.credentials) + 1)
    assert await follow(at) == ["replace_runner_credential"]
    ok(await at.stop("pause"))


async def test_gaps_are_closed_before_the_proof(bare: World) -> None:
    """In the older order: the product is instrumented while the approved source is not verified yet."""
    at = await begin(bare)
    for step in ("start_onboarding", "finish_onboarding"):
        await at.take(step)
    assert "close_readiness_gaps" in await at.named()
    await at.take("send_first_event")
    await at.take("close_readiness_gaps")
    left = await at.named()
    assert "close_readiness_gaps" not in left
    assert "finish_onboarding" in left
    assert (await follow(at))[:2] == ["record_deploys", "finish_onboarding"]


async def test_a_map_without_onboarding_leads_to_a_verified_install(bare: World) -> None:
    """R-INST-08, R-INST-12: the install first, then its gaps; a question can be asked only after both."""
    at = await begin(bare)
    ok(await at.reader.call("PUT", f"{at.path}/signal-map", plan_body()), 201)
    assert "start_onboarding" not in await at.named()
    await at.take("verify_install")
    left = await at.named()
    assert "verify_install" not in left
    assert "ask_a_question" not in left
    await at.take("close_readiness_gaps")
    left = await at.named()
    assert "close_readiness_gaps" not in left
    assert "ask_a_question" in left
    member = await look(at)
    assert "verify_install" not in await member.named()


async def test_an_equipped_installation_names_what_only_it_can_do(equipped: World, provider: FakeProvider) -> None:
    at = await begin(equipped, provider)
    assert list(await at.named())[:3] == ["send_first_event", "record_deploys", "connect_provider"]
    await at.take("connect_provider")
    assert "connect_provider" not in await at.named()
    member = await look(at)
    assert set(await member.named()) == {"send_first_event", "record_deploys"}
    for step in ("send_first_event", "record_deploys"):
        await member.product.post("/v1/logs/", {"level": "error", "message": "boom"})
        await at.take(step)
    await at.take("review_open_cases")
    assert await member.named() == {}
    told = ok(await member.reader.get(f"{at.path}/next-steps"))["next_action"]
    assert told == "The next step needs an owner of the project. Ask one to read the next steps."


@pytest.mark.parametrize("sealing", [False, True])
async def test_a_provider_is_named_only_where_its_tokens_can_be_sealed(database_url: str, *, sealing: bool) -> None:
    """Of an installation without a key to seal with, connecting answers 503 whatever else is configured."""
    env = {
        "SERVICE_DATABASE_URL": database_url,
        "SERVICE_INTERNAL_TOKEN": "an-internal-token-of-length",
        "SERVICE_ENCRYPTION_KEY": bytes(range(32)).hex() if sealing else "none",
        "SERVICE_SIGNING_KEY": bytes(range(32)).hex(),
        "SERVICE_PROVIDER_CLIENT_ID": "client",
        "SERVICE_PROVIDER_US_URL": "http://127.0.0.1:9",
        "SERVICE_RATE_LIMITS": "off",
    }
    services = make_services(load_settings(env))
    edge = create_app(lambda: services)
    transport = httpx2.ASGITransport(edge)
    async with running(edge), seen.async_client("http://here", transport=transport) as client:
        told = {"internal_token": env["SERVICE_INTERNAL_TOKEN"], "test_token": None, "database_url": database_url}
        at = await begin(World(client, SimpleNamespace(**told)))
        steps = ok(await at.reader.get(f"{at.path}/next-steps"))["next_steps"]
        assert ("connect_provider" in steps) == sealing
        headers = {"authorization": f"Bearer {at.reader.secret}"}
        answer = await client.post("/v1/auth/provider", json={"project_id": at.project_id}, headers=headers)
        assert (answer.status_code == 503) == (not sealing), answer.text


async def test_nothing_is_enabled_while_an_operator_has_stopped_everything(equipped: World) -> None:
    at = await begin(equipped)
    assert (await follow(at))[-1] == "enable_automation"
    await equipped.operate(lambda store: stop_installation(store, "a test"))
    try:
        assert set(await at.named()) <= LASTING
    finally:
        await equipped.operate(resume_installation)
    assert await follow(at) == ["enable_automation"]


async def test_more_kinds_of_errors_than_cases_are_settled_by_what_health_says(equipped: World) -> None:
    at = await begin(equipped)
    for kind in ("one", "two", "three", "four", "five"):
        await at.send("/v1/logs/", {"message": kind, "tags": {"kind": kind}, "level": "error"})
    assert "overflow_case_id" in await at.advice()
    case_id = ok(await at.reader.get(f"{at.path}/health"))["new_cases"]["overflow_case_id"]
    record = ok(await at.reader.get(f"/v1/cases/{case_id}"))
    ok(await at.reader.post(f"/v1/cases/{case_id}/ignore", {"case_revision": record["revision"]}))
    assert (await at.advice()).startswith("List the open cases")
    await at.take("review_open_cases")
    assert await at.advice() == NOTHING
    await equipped.wait(HOUR)
    for kind in ("six", "seven", "eight", "nine", "ten"):
        await at.send("/v1/logs/", {"message": kind, "level": "error"})
    for one in await at.cases():
        if not ok(await at.reader.get(f"/v1/cases/{one['id']}")).get("overflow"):
            ok(await at.reader.post(f"/v1/cases/{one['id']}/resolve", {"case_revision": one["revision"]}))
    assert len(await at.cases()) == 1  # that of the overflow is left, and it alone is a step
    assert "review_open_cases" in await at.named()
    await at.take("review_open_cases")
    assert "review_open_cases" not in await at.named()
    assert await at.advice() == NOTHING


async def test_an_upgrade_is_named_where_it_is_sold_and_leads_to_its_page(equipped: World, bare: World) -> None:
    """Over the cap: the plan that is recommended can be had by what is named, until the largest is held (R-BILL-07)."""
    at = await begin(equipped)
    for _ in range(CAP):
        await at.send("/v1/analytics/", {"event": "signup", "distinct_id": "u"})
    usage = ok(await at.reader.get("/v1/usage"))
    assert usage["quota"]["locked"]
    assert usage["next_action"].startswith("Tell the account holder that the cap is used up.")
    await at.named()  # what is named is open to an account over its quota too
    wanted = [usage["upgrade"]["recommended_plan"]]
    while wanted[-1] is not None:
        offer = ok(await at.reader.get("/v1/billing/status"))["upgrade"]
        assert offer["available"]
        operation = offer["operation"]
        page = ok(await at.reader.call(operation["method"], operation["path"], {"plan": wanted[-1]}))
        assert page["plan"] == wanted[-1]
        await subscribe(equipped, at.reader.user_id, wanted[-1], "active", len(wanted))
        wanted.append(ok(await at.reader.get("/v1/usage"))["upgrade"]["recommended_plan"])
    assert wanted == ["pro", "scale", None]  # a plan of the house is nobody's to choose
    assert not ok(await at.reader.get("/v1/usage"))["upgrade"]["available"]
    poor = await bare.sign_in()
    assert not ok(await poor.get("/v1/usage"))["upgrade"]["available"]


async def subscribe(world: World, user_id: str, plan: str, status: str, at: int) -> None:
    """Tell what the provider tells of one subscription, which changes."""
    about = subscription(f"sub_{user_id}", status, plan, user_id=user_id)
    body = notification("customer.subscription.updated", about, 1_700_000_000 + at)
    raw = httpx2.Request("POST", "http://x", json=body).content
    headers = {"content-type": "application/json", "stripe-signature": signature(raw)}
    ok(await world.client.post("/v1/billing/webhook", content=raw, headers=headers))


async def test_a_due_payment_names_the_portal_which_opens(equipped: World) -> None:
    at = await begin(equipped)
    await subscribe(equipped, at.reader.user_id, "pro", "past_due", 1)
    told = ok(await at.reader.get("/v1/billing/status"))["next_action"]
    assert told.endswith("POST /v1/billing/portal lets you fix it.")
    assert ok(await at.reader.post("/v1/billing/portal", {}))["url"]


async def test_a_project_that_is_being_deleted_names_nothing(equipped: World, server: ServerHandle) -> None:
    """Reads go on until the purge; what they name would be refused."""
    at = await begin(equipped)
    await at.take("send_first_event")
    ledger = Path(server.env["SERVICE_DATA_DIR"]) / "erasures.jsonl"
    with held_at_the_fence(ledger):
        ok(await at.reader.call("DELETE", at.path, key="bye"), 202)
        steps: dict[str, Any] = ok(await at.reader.get(f"{at.path}/next-steps"))
        assert (steps["count"], steps["suggestions"], steps["next_steps"]) == (0, [], [])
        assert steps["next_action"] == await at.advice() == "The project is being deleted: nothing is left to do in it."
