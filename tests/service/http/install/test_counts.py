"""Next steps, answer contracts, verification and its report count alike, over generated projects (G-157)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.service.http.install.scene import Installed, install, report_body
from tests.support.api import World, at_once, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.onboarding import Onboarding
from tests.support.plans import plan_body

pytestmark = pytest.mark.shares_server

NAMES = ("a", "b", "c", "d")


def a_plan(random_: random.Random) -> dict[str, Any]:
    """A plan with one to six milestones, some of them about one event."""
    milestone = plan_body()["milestones"][0]
    milestones = [
        milestone | {"event": random_.choice(NAMES), "properties": random_.sample(NAMES, random_.randrange(3))}
        for _ in range(random_.randint(1, 6))
    ]
    return plan_body(milestones=milestones)


async def live(installed: Installed, random_: random.Random, *, verified: bool) -> None:
    """Do some of what a project does, in a random measure."""
    plan = a_plan(random_)
    if verified:
        onb = Onboarding(installed.world, installed.owner, installed.project_id, installed.product.secret or "")
        begun = await onb.to_proving(plan)
        for milestone in plan["milestones"]:
            await onb.send_event(begun, milestone["event"], **dict.fromkeys(milestone["properties"], 1))
        tags = {"failure_marker": "payment_declined", "decline_code": "51"}
        await onb.send_error(begun, message="The bank said no.", tags=tags)
        await onb.deploy(begun)
        assert ok(await onb.verify(begun["state"]))["ok"]
    elif random_.random() < 0.9:
        sha = (await installed.put_map(plan))["plan_sha256"]
        if random_.random() < 0.8:
            ok(await installed.report(report_body(sha)), 201)
    thorough = random_.random() < 0.5
    for milestone in plan["milestones"]:
        if thorough or random_.random() < 0.7:
            keys = NAMES if thorough else random_.sample(NAMES, random_.randrange(3))
            await installed.send_event(milestone["event"], **dict.fromkeys(keys, 1))
    if thorough or random_.random() < 0.5:
        await installed.send_error(random_.choice([None, "payment_declined"]))
    if thorough or random_.random() < 0.5:
        await installed.send_deploy(random_.choice(["production", "staging"]))


async def check(installed: Installed, *, mapped: bool) -> None:
    """Ask the four, and compare all that two of them tell."""
    verdict = await installed.verify()
    state = ok(await installed.owner.get(f"{installed.path}/next-steps"))["project_state"]
    contracts = ok(await installed.owner.get(f"{installed.path}/answer-contracts"))
    standings = [contract["status"] for contract in contracts["answer_contracts"]]
    assert state["blocked_answer_contract_count"] == standings.count("blocked")
    assert state["pending_real_data_count"] == standings.count("pending_real_data")
    assert state["readiness_gaps_count"] == len(verdict["readiness_gaps"])
    assert state["install_verified"] == verdict["ok"]
    ready = verdict["ok"] and bool(standings) and set(standings) == {"ready"}
    assert [verdict["answer_ready"], state["answer_ready"], contracts["answer_ready"]] == [ready] * 3
    blockers = {
        tuple(blocker.values()) for contract in contracts["answer_contracts"] for blocker in contract["blockers"]
    }
    kinds = sorted({gap["code"] for gap in verdict["readiness_gaps"]} - {"safe_error_missing"})
    assert sorted({code for code, _, _ in blockers}) == kinds
    able = ready and not verdict["readiness_gaps"]
    daily = {"state": "queried"} if able else {"state": "needs_data_or_instrumentation"}
    assert {"state": contracts["daily_use"]["state"]} == daily
    assert bool(contracts["daily_use"]["reasons"]) != able
    if mapped:
        report = ok(await installed.owner.get(f"{installed.path}/verify-report"))
        for name in ("ok", "status", "gate_failures", "readiness_gaps", "answer_ready"):
            assert report[name] == verdict[name], name
        assert report["daily_use"] == contracts["daily_use"]
        if verdict["ok"]:
            assert report["verified_at"] == verdict["verified_at"]


@pytest.mark.parametrize("seed", range(6))
async def test_the_four_views_of_a_project_count_alike(world: World, seed: int) -> None:
    """Six projects at once for each seed: mapped or not, half instrumented or whole, one of them onboarded."""

    async def live_and_check(number: int) -> None:
        installed = await install(world)
        await live(installed, random.Random(seed * 100 + number), verified=number == 0)
        mapped = (await installed.owner.get(f"{installed.path}/signal-map")).status_code == 200
        await check(installed, mapped=mapped)
        await check(installed, mapped=mapped)

    await at_once(6, live_and_check)
