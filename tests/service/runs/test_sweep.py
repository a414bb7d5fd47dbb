"""The sweep: writes down what reads say already, twice at once records nothing twice, and finds work by itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest

from service.eventstore.store import EventStore
from service.runs import sweep as sweeping
from tests.support.automation_world import World, closed
from tests.support.loop.http_scene import HttpScene
from tests.support.sweeping import make_sweep

pytestmark = pytest.mark.shares_server


def sweep(world: World, times: int = 1) -> list[Counter[str]]:
    """Sweep so many times at once."""

    async def work(store: EventStore) -> list[Counter[str]]:
        return list(await asyncio.gather(*(make_sweep(store).run() for _ in range(times))))

    found: list[Counter[str]] = world.run(work)
    return found


def until_succeeded(at: HttpScene, seconds: float = 30) -> None:
    """Sweep twice at once, and again while the verification was left to a later sweep.

    The worker's own sweep may have the turn of the run just then, and a flush under way holds the counting back.
    """
    give_up = time.monotonic() + seconds
    sweep(at.world, 2)
    while at.run()["status"] != "succeeded":
        assert time.monotonic() < give_up, at.run()
        sweep(at.world, 2)


def topics(world: World) -> Counter[str]:
    rows = world.run(lambda store: store.fetch("select topic from events where project_id = %s", world.project_id))
    return Counter(topic for (topic,) in rows)


def test_four_sweeps_at_once_record_everything_once(at: HttpScene) -> None:
    """A lapsed run takes its claim, grant, request and reservation with it, exactly once."""
    at.running()
    at.must(at.authorize(), 201)
    at.must(at.act("approvals", {"action": "draft_pr", "summary": "s"}), 201)
    at.wait(172800 + 900)  # nobody decides, and the runner stays away
    before = at.run()
    sweep(at.world, 4)
    assert at.run() == before
    recorded = topics(at.world)
    for topic in (
        "run.failed.v1",
        "claim.expired.v1",
        "grant.expired.v1",
        "approval.expired.v1",
        "ledger.pr_returned.v1",
    ):
        assert recorded[topic] == 1, topic
    sweep(at.world)
    assert topics(at.world) == recorded or topics(at.world) - recorded == Counter(
        {"trigger_receipt.issued.v1": 1, "lease.offered.v1": 1}
    )


def test_the_sweep_looks_for_work_once(at: HttpScene) -> None:
    at.prepare()
    at.error(2)
    sweep(at.world, 4)
    assert topics(at.world)["trigger_receipt.issued.v1"] == 1
    [receipt] = at.must(at.call("GET", f"{at.project}/automation-trigger-receipts"), 200)["trigger_receipts"]
    assert receipt["case"]["title"] == "Payment declined for order 17"


def test_the_sweep_settles_verification(at: HttpScene) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(60)
    at.traffic(2)
    at.wait(63)  # the window, and how far behind now counting stays
    until_succeeded(at)
    recorded = topics(at.world)
    assert (recorded["run.verified.v1"], recorded["case.resolved.v1"], recorded["claim.completed.v1"]) == (1, 1, 1)


def test_a_stop_is_written_down_by_the_sweep_and_nothing_begins(at: HttpScene) -> None:
    at.prepare()
    at.error(2)
    at.issue()
    at.pause()
    sweep(at.world, 2)
    recorded = topics(at.world)
    assert (recorded["trigger_receipt.invalidated.v1"], recorded["trigger_receipt.issued.v1"]) == (1, 1)


def test_a_fenced_project_is_left_alone(at: HttpScene) -> None:
    at.running()
    at.world.fence()
    at.wait(900)
    recorded = topics(at.world)
    sweep(at.world, 2)
    assert topics(at.world) == recorded
    run = at.run(who="owner")
    assert (run["phase"], run["status"]) == ("deletion_fenced", "cancelled")
    closed(at.call("GET", at.path), 409, "project_deletion_in_progress")


def open_receipts(world: World) -> list[str]:
    """The projects of the receipts that a sweep looks at, in its order; the server has those of other tests too."""
    query = (
        "select t.project_id from trigger_receipts t join projects p on p.id = t.project_id and p.status = 'active' "
        "where t.status in ('issued', 'claimed') order by t.expires_at, t.id"
    )
    return [project_id for (project_id,) in world.run(lambda store: store.fetch(query))]


def test_a_step_takes_no_more_objects_than_its_bound(at: HttpScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 a sweep; what is left over a later sweep takes (G-119). Here the bound ends at the first of two receipts."""
    assert sweeping.AT_MOST == 500
    at.prepare()
    at.error(2)
    at.error(2, message="The receipt of an order was not sent")
    assert len(at.issue()["trigger_receipts"]) == 2
    sweep(at.world)
    at.pause()
    with monkeypatch.context() as bounded:
        bounded.setattr(sweeping, "AT_MOST", open_receipts(at.world).index(at.world.project_id) + 1)
        [done] = sweep(at.world)
        assert done["receipts"] <= 1
    sweep(at.world)
    assert topics(at.world)["trigger_receipt.invalidated.v1"] == 2


def test_every_step_reads_within_the_bound(at: HttpScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven steps, seven lists, each limited by the one bound (G-119)."""
    monkeypatch.setattr(sweeping, "AT_MOST", 37)

    async def work(store: EventStore) -> list[str]:
        fetch, lists = store.reads.fetch_planned, []

        async def noted(query: str, **values: Any) -> Any:
            if values.get("most") == 37:
                lists.append(values["step"])
            return await fetch(query, **values)

        monkeypatch.setattr(store.reads, "fetch_planned", noted)
        await make_sweep(store).run()
        return lists

    lists = at.world.run(work)
    assert len(lists) == len(set(lists)) == 7
