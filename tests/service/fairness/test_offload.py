"""Another process does what holds the interpreter: bounded, one piece at a time, and replaced when it dies (P25)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import psutil
import pytest
from structlog.testing import capture_logs

from service.console.kit.rendering import render
from service.fairness import offload as module
from service.fairness.bounds import FairBounds
from service.fairness.offload import Apart, Offload, OffloadFailed
from service.fairness.offloaded import MOST_SECONDS
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import ReadNotDone
from tests.service.fairness import offloading


class Row(NamedTuple):
    name: str
    count: int

    @property
    def doubled(self) -> int:
        """Twice the count."""
        return 2 * self.count


@dataclass(frozen=True, slots=True)
class Plain:
    """The same as a dataclass."""

    name: str
    count: int


class Wire(msgspec.Struct):
    """The same as a struct."""

    name: str
    count: int


@pytest.fixture
def offload() -> Iterator[Offload]:
    made = Offload(waiting=2)
    yield made
    made.stop()


async def test_the_work_is_done_in_one_other_process(offload: Offload) -> None:
    assert offload.pid is None  # It starts with the first piece of work.
    numbers = {await offload.call("a", offloading.process) for _ in range(3)}
    assert numbers == {str(offload.pid).encode()}
    assert await offload.call("a", offloading.told, {"text": "[" * 5}) == b"{'text': '[[[[['}"


async def test_it_sees_no_setting_of_ours_and_has_little_time(
    offload: Offload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_INTERNAL_TOKEN", "secret")
    names, left = json.loads(await offload.call("a", offloading.environment))
    assert [name for name in names if not name.startswith(("PYTHON", "LC_"))] == []
    assert 0 < left < MOST_SECONDS + 0.1  # a tick of its clock


async def test_what_takes_too_long_is_killed_and_the_next_is_done(offload: Offload) -> None:
    first = await offload.call("a", offloading.process)
    with capture_logs() as logs, pytest.raises(ReadNotDone):
        await offload.call("a", offloading.spin)
    assert [(one["event"], one["work"], one["reason"]) for one in logs] == [
        ("offloaded_work_given_up", "spin", "too long")
    ]
    assert await offload.call("a", offloading.process) not in {b"", first}


async def test_a_process_that_has_gone_is_replaced_without_a_refusal(offload: Offload) -> None:
    """It ends by itself when it was idle for a while."""
    await offload.call("a", offloading.process)
    assert offload.pid is not None
    gone = psutil.Process(offload.pid)
    os.kill(gone.pid, signal.SIGTERM)
    psutil.wait_procs([gone], timeout=10)
    assert await offload.call("a", offloading.process) != str(gone.pid).encode()


async def test_a_fault_says_where_and_nothing_of_the_texts(offload: Offload) -> None:
    with pytest.raises(OffloadFailed, match=r"^fail: ValueError at offloading\.py:\d+") as caught:
        await offload.call("a", offloading.fail, "a text of others")
    assert "others" not in str(caught.value)


async def test_too_much_is_refused_before_it_begins(offload: Offload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(ReadNotDone):
        await offload.call("a", offloading.told, "x" * 1000)
    assert offload.pid is None


async def test_it_ends_with_us_and_is_not_started_again(offload: Offload) -> None:
    await offload.call("a", offloading.process)
    assert offload.pid is not None
    there = psutil.Process(offload.pid)
    offload.stop()
    assert not there.is_running()
    with pytest.raises(ReadNotDone):
        await offload.call("a", offloading.process)


@pytest.mark.parametrize(("record", "doubled"), [(Row("a", 2), 4), (Plain("a", 2), None), (Wire("a", 2), None)])
async def test_records_keep_their_names_and_need_no_class_there(
    offload: Offload, record: object, doubled: int | None
) -> None:
    assert json.loads(await offload.call("a", offloading.told_parts, record)) == ["a", 2, doubled, ["a", 2]]


async def test_a_page_loads_nothing_of_the_api(offload: Offload) -> None:
    """The memory of the process is that of the templates: no route, no store, no machine."""
    facts = {"failure": {"status": 404, "message": "No", "next_action": "", "code": "not_found"}, "theme": ""}
    assert b"not_found" in await offload.call("a", render, "kit/failure.html", {**facts, "request_id": "req_1"})
    loaded = json.loads(await offload.call("a", offloading.modules))
    allowed = ("service.console", "service.fairness", "service.ids")
    assert [name for name in loaded if not name.startswith(allowed)] == []


async def test_whoever_waits_too_long_for_a_turn_is_told_so_alone() -> None:
    turns = FairSemaphore(FairBounds(1, per_tenant=1), waiting=5, patience=0.01)
    await turns.enter("a")
    with pytest.raises(ReadNotDone):
        await turns.enter("b")
    assert turns.waiting == 0
    turns.leave("a")
    await turns.enter("b")


async def test_a_kept_result_is_made_apart_the_first_time_only() -> None:
    """Whoever asks while it is made waits for it, and later callers get it here."""
    apart, threads = Apart(waiting=100), list[str]()

    def name_of(number: int) -> int:
        threads.append(threading.current_thread().name)
        return number

    assert await asyncio.gather(*(apart.call_once(tenant, name_of, 3) for tenant in "abcde")) == [3] * 5
    assert await apart.call_once("f", name_of, 3) == 3
    assert [name.startswith("service-apart") for name in threads] == [True, *[False] * 6]
