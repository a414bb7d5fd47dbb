"""The back-test over HTTP: what it answers, that it records nothing, who may ask, and how many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
import pytest

from schemas.runs.decision import BacktestReceipt
from service.http.answer.errors import RateLimited
from service.http.contracts import backtest
from service.http.contracts.backtest import _in_slices, _place
from service.runs.shown import _use
from statemachines.contracts.policy import Limits
from tests.support.automation_world import World, closed, open_world
from tests.support.loop.contracts import contract_of
from tests.support.loop.http_scene import HttpScene
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

# What sweeps write beside everything is not among them.
TABLES = ("events", "automation_decisions", "trigger_receipts", "leases", "automation_contracts")


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


def path_of(world: World) -> str:
    return f"{world.contract}/backtest"


def candidate(days: Any = 7, **changes: Any) -> dict[str, Any]:
    return contract_of("review_required", **changes) | {"days": days}


def rows(world: World) -> dict[str, int]:
    """How many rows of the project there are."""
    with psycopg.connect(world.url) as sql:
        query = "select count(*) from {} where project_id = %s"
        return {table: sql.execute(query.format(table), (world.project_id,)).fetchone()[0] for table in TABLES}


def test_it_shows_what_was_decided_and_records_nothing(server: ServerHandle, world: World) -> None:
    """With the contract that was enabled all the time, it is what the decisions of that time say."""
    scene = HttpScene(server, world, "review_required").prepare()
    scene.error(3)
    scene.issue()
    scene.wait(5)
    scene.issue()
    scene.wait(5)
    listed = world.call("GET", f"{scene.project}/automation-decisions").json()["decisions"]
    before = rows(world)
    answer = world.call("POST", path_of(world), candidate(), who="member")
    assert answer.status_code == 200, answer.text
    told = answer.json()
    [use] = told["automations"]
    assert (use["automation_id"], use["receipts"], use["max_runs"]) == ("heal", 1, 1)
    assert float(use["max_cost_usd"]) > 0
    assert told["unknown"] == []
    assert told["looks"] >= 1
    assert [receipt["receipt_id"] for receipt in told["receipts"]] == [scene.receipt_id]
    # In which second of the two an issue was decided is not known; the differential test stops the clock.
    same = ("decision_id", "verdict", "code", "receipt_id", "case_id")
    shown, then = (
        [[{**one, **one["inputs"]}[name] for name in same] for one in found]
        for found in (told["decisions"], reversed(listed))
    )
    assert shown == then
    assert [verdict for _, verdict, *_ in shown] == ["passed", "passed_over"]
    assert any("claimed" in line for line in told["assumptions"])
    assert rows(world) == before


def test_without_looks_it_says_so(world: World) -> None:
    """Nothing is guessed about when work would have been looked for."""
    told = world.call("POST", path_of(world), candidate()).json()
    assert (told["looks"], told["decisions"], told["receipts"]) == (0, [], [])
    assert told["unknown"] == [{"case_id": None, "missing": ["looks"]}]
    assert "The service did not look for work" in told["next_action"]


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        b"nonsense",
        candidate(0),
        candidate(91),
        candidate("7"),
        candidate(1.5),
        candidate(10**30),
        candidate(7) | {"more": 1},
        {"policy_version": 2, "automations": [], "days": 7},
        {"policy_version": 2, "automations": [{"playbook": 1}], "days": 7},
        {"policy_version": 1, "automations": [1], "days": 7},
    ],
)
def test_a_bad_body_is_named(world: World, body: Any) -> None:
    error = closed(world.call("POST", path_of(world), body), 400, "invalid_payload")
    assert error["details"]["request_body_schema"]


def test_people_of_the_project_ask(world: World) -> None:
    """Members do; strangers find no project, and credentials of machines are of the wrong kind."""
    world.mint("automation_runner", "heal")
    world.mint("ci_deploy")
    assert world.call("POST", path_of(world), candidate(), who="member").status_code == 200
    assert world.call("POST", path_of(world), candidate(), who="stranger").status_code == 404
    for who in ("heal", "ci"):
        assert world.call("POST", path_of(world), candidate(), who=who).status_code == 403
    assert world.call("POST", path_of(world), candidate(), who=None).status_code == 401


def test_a_repeat_is_tried_anew(world: World) -> None:
    """It records nothing, so no answer is kept: a key binds nothing."""
    for days in (7, 8):
        answer = world.call("POST", path_of(world), candidate(days), key="again")
        assert (answer.status_code, "idempotent-replayed" in answer.headers) == (200, False)


DAY = 86_400
LIMITS = Limits(max_runs_per_day=3, max_prs_per_day=2, max_cost_usd_per_run="1.25")


@pytest.mark.parametrize(
    ("issued", "most"),
    [
        ([], (0, 0, "0")),
        ([10 * DAY], (1, 1, "1.25")),
        (range(10), (3, 2, "3.75")),  # of one day, whatever it holds
        (range(0, DAY - 3600 + 1, 100), (3, 2, "3.75")),  # the last begins before the first day is over
        (range(0, DAY, 100), (6, 4, "7.5")),  # and here after it
        (range(0, 3 * DAY, DAY), (3, 3, "3.75")),
        (range(0, 10 * DAY, 600), (33, 22, "41.25")),
    ],
)
def test_the_most_that_could_have_been_used_is_bounded_by_its_days(issued: Any, most: tuple[int, int, str]) -> None:
    """A run for each receipt, as many as trailing days allow; another automation's receipts are its own."""
    found = [BacktestReceipt(f"rcp_{at}", "heal", "case_1", 1, None, at, at + 3600) for at in issued]
    others = [BacktestReceipt("rcp_other", "mend", "case_2", 1, None, 50 * DAY, 60 * DAY)]
    use = _use("heal", LIMITS, found + others)
    assert (use.receipts, (use.max_runs, use.max_prs, use.max_cost_usd)) == (len(found), most)


async def test_one_an_account_and_two_a_process_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """An account with many leaves the other place to others, who come in turn; a place is always given back."""
    order: list[str] = []
    goes_on = asyncio.Event()

    async def hold(tenant: str) -> None:
        async with _place(tenant):
            order.append(tenant)
            await goes_on.wait()

    async def settled() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    held = [asyncio.create_task(hold("greedy")) for _ in range(3)]
    await settled()
    assert order == ["greedy"], "the others of one account wait, though a place is free"
    with pytest.raises(RateLimited) as refused:
        await hold("greedy")
    assert refused.value.headers["retry-after"]
    held += [asyncio.create_task(hold(tenant)) for tenant in ("one", "two")]
    await settled()
    assert order == ["greedy", "one"]
    goes_on.set()
    await asyncio.gather(*held)
    assert order[2:] == ["two", "greedy", "greedy"] or order[2:] == ["greedy", "two", "greedy"]
    with pytest.raises(ZeroDivisionError):
        async with _place("one"):
            raise ZeroDivisionError
    monkeypatch.setattr(backtest, "WAIT_SECONDS", 0.01)
    goes_on.clear()
    held = [asyncio.create_task(hold(tenant)) for tenant in ("one", "two")]
    await settled()
    with pytest.raises(RateLimited):
        await hold("three")
    goes_on.set()
    await asyncio.gather(*held)


async def test_the_event_loop_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps it takes, others have their turn every few milliseconds: here each step takes half of that."""
    turns = 0
    clock = count()
    monkeypatch.setattr(backtest, "SLICE_SECONDS", 2)
    monkeypatch.setattr(backtest, "perf_counter", lambda: next(clock))

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await _in_slices(iter(range(90)))
    task.cancel()
    assert turns == 45
