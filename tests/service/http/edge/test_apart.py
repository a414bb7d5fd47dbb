"""Large documents are worked on away from the event loop, one at a time, tenants in turn (P25)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from service.fairness.offload import LARGE, Apart
from service.http.edge import steps
from service.http.edge.pipeline import MOST_DOCUMENTS, MOST_TELEMETRY
from tests.service.http.edge.toy_api import THING, Toy

MANY = [{"count": 1} for _ in range(4000)]


@pytest.fixture
def parsed_in(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads in which bodies were parsed."""
    names: list[str] = []
    parse = steps.parse

    def watched(*args: Any) -> Any:
        names.append(threading.current_thread().name)
        return parse(*args)

    monkeypatch.setattr(steps, "parse", watched)
    return names


@pytest.mark.parametrize(
    ("body", "status", "thread"),
    [
        ({**THING, "items": MANY}, 201, "service-apart"),
        ({**THING, "items": [{"no": 1} for _ in MANY]}, 400, "service-apart"),
        (THING, 201, "MainThread"),
    ],
)
async def test_what_is_large_is_taken_apart_elsewhere(
    toy: Toy, parsed_in: list[str], body: Any, status: int, thread: str
) -> None:
    """Good and bad ones: to say what is wrong with thousands of places costs more than to read them."""
    assert (await toy.send_as("owner", "POST", "/v1/things", json=body)).status_code == status
    [name] = parsed_in
    assert name.startswith(thread)


async def test_documents_wait_for_their_turn_before_they_are_parsed(toy: Toy, parsed_in: list[str]) -> None:
    """However many one caller sends, few at once are more than bytes; another caller's comes between."""
    gate, execute, waiting = asyncio.Event(), toy.store.execute, asyncio.Semaphore(0)

    async def slow(command: Any) -> Any:
        waiting.release()
        await gate.wait()
        return await execute(command)

    toy.store.execute = slow  # type: ignore[method-assign]
    body = {**THING, "items": MANY}
    flood = [asyncio.create_task(toy.send_as("owner", "POST", "/v1/things", json=body)) for _ in range(8)]
    for _ in range(MOST_DOCUMENTS // 2):
        await waiting.acquire()
    other = asyncio.create_task(toy.send_as("member", "POST", "/v1/things", json=body))
    await waiting.acquire()
    assert len(parsed_in) == MOST_DOCUMENTS // 2 + 1
    gate.set()
    assert {answer.status_code for answer in await asyncio.gather(other, *flood)} == {201}


async def test_large_bodies_of_telemetry_wait_for_those_before_them(toy: Toy) -> None:
    """Each may hold thousands of records that wait for their commit; a small one, and another's, come between."""
    gate, execute, begun = asyncio.Event(), toy.store.execute, asyncio.Semaphore(0)
    running = 0

    async def slow(command: Any) -> Any:
        nonlocal running
        running += 1
        begun.release()
        await gate.wait()
        return await execute(command)

    toy.store.execute = slow  # type: ignore[method-assign]
    large, most = {"text": "x" * 2 * LARGE}, MOST_TELEMETRY // 4
    flood = [asyncio.create_task(toy.send_as("dsn", "POST", "/v1/telemetry", json=large)) for _ in range(2 * most)]
    for _ in range(most):
        await begun.acquire()
    others = [
        asyncio.create_task(toy.send_as("dsn", "POST", "/v1/telemetry", json={})),
        asyncio.create_task(toy.send_as("ci", "POST", "/v1/telemetry", json=large)),
    ]
    for _ in others:
        await begun.acquire()
    assert running == most + len(others)
    gate.set()
    assert {answer.status_code for answer in await asyncio.gather(*flood, *others)} == {202}


async def test_one_thread_does_it_for_all_in_turn() -> None:
    apart, inside, served = Apart(waiting=100), 0, []

    def work(tenant: str) -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        time.sleep(0.001)
        served.append(tenant)
        inside -= 1

    await asyncio.gather(*(apart.run(tenant, lambda tenant=tenant: work(tenant)) for tenant in "f" * 20 + "q"))
    assert served.index("q") <= 2


async def test_what_has_begun_is_carried_out_before_the_next() -> None:
    """Callers that go away do not make it more than one piece of work at once."""
    apart, done = Apart(waiting=100), threading.Event()
    gone = asyncio.create_task(apart.run("a", lambda: done.wait(5)))
    await asyncio.sleep(0.01)
    gone.cancel()
    after = asyncio.create_task(apart.run("b", done.is_set))
    await asyncio.sleep(0.01)
    done.set()
    assert await after


async def test_small_work_stays_where_it_is() -> None:
    apart = Apart(waiting=1)
    assert await apart.run_if_large("a", LARGE, threading.current_thread) is threading.current_thread()
    assert await apart.run_if_large("a", LARGE + 1, threading.current_thread) is not threading.current_thread()


async def test_what_all_wait_for_is_made_once() -> None:
    """Callers share it while it is made, also when the first goes away; a failure is everybody's, and made anew."""
    apart, gate, begun = Apart(waiting=1), threading.Event(), 0

    def work() -> int:
        nonlocal begun
        begun += 1
        gate.wait(5)
        if begun == 2:
            raise ValueError
        return begun

    first, *others = [asyncio.create_task(apart.run_once(f"t{number}", "name", work)) for number in range(24)]
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert set(await asyncio.gather(*others)) == {1}
    assert first.cancelled()
    both = await asyncio.gather(*(apart.run_once("a", "name", work) for _ in range(2)), return_exceptions=True)
    assert [type(found) for found in both] == [ValueError, ValueError]
    assert await apart.run_once("a", "name", work) == 3
