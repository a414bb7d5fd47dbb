"""Kill switches and leases as points in the log, under load (P5, P10)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx2
import pytest

from statemachines.contracts.contract import ContractEnabled, ContractPaused
from tests.support.automation_world import closed
from tests.support.loop.http_port import HttpPort
from tests.support.loop.http_scene import RIVAL, HttpScene
from tests.support.loop.rules import AUTHORITY, Rules

pytestmark = pytest.mark.shares_server

ROUNDS = 8
T = TypeVar("T")


def hammer(at: HttpScene, stop: threading.Event, results: list[tuple[float, int]]) -> None:
    """Charge usage as fast as it goes; note when each call began and how it ended."""
    with at.server.client() as client:
        number = 0
        revision = 1
        while not stop.is_set():
            number += 1
            began = time.monotonic()
            body = {"state_revision": revision, "lease_epoch": 1, "turns": 1}
            key = f"{threading.get_ident()}-{number}-{began}"
            answer = at.world.call("POST", f"{at.path}/usage", body, who="heal", key=key, client=client)
            results.append((began, answer.status_code))
            shown: dict[str, Any] = answer.json()
            if answer.is_success:
                revision = shown["state_revision"]
            elif shown["error"]["code"] == "stale_state_revision":
                revision = shown["error"]["details"]["current_state_revision"]


def stopped_under_charges(
    at: HttpScene, stop: Callable[[], T], *, workers: int
) -> tuple[T, float, list[tuple[float, int]]]:
    """Stop an automation while workers charge its run, and let some begin a charge after it.

    Returns what the stop returned, the moment after it, and when each charge began and how it ended.
    """
    ended, results = threading.Event(), list[tuple[float, int]]()
    crowd = [threading.Thread(target=hammer, args=(at, ended, results)) for _ in range(workers)]
    for worker in crowd:
        worker.start()
    try:
        while not any(status == 200 for _, status in results):  # Under load the first charge takes its time.
            time.sleep(0.02)
        told = stop()
        acknowledged = time.monotonic()
        while not any(started > acknowledged for started, _ in results):
            time.sleep(0.02)
    finally:
        ended.set()
        for worker in crowd:
            worker.join()
    return told, acknowledged, results


def test_after_a_pause_is_acknowledged_nothing_that_holds_authority_commits(at: HttpScene) -> None:
    """Eight workers on one run; a pause at a random moment; again and again (P10)."""

    def pause() -> None:
        began = time.monotonic()
        at.pause()
        assert time.monotonic() - began < 2.0

    at.running(max_turns_per_run=500)
    for _ in range(ROUNDS):
        _, acknowledged, results = stopped_under_charges(at, pause, workers=8)
        late = [status for started, status in results if started > acknowledged]
        assert late
        assert not [status for status in late if status < 400]
        at.enable()
    port = HttpPort(at)
    log = port.log()
    port.close()
    Rules().check(log)
    on = False
    charged = 0
    for entry in log:
        if isinstance(entry.event, ContractEnabled):
            on = True
        elif isinstance(entry.event, ContractPaused):
            on = False
        elif isinstance(entry.event, AUTHORITY):
            charged += 1
            assert on, entry
    assert charged > ROUNDS


def test_a_worker_that_slept_through_its_lease_is_shut_out(at: HttpScene) -> None:
    """The holder sleeps, another takes over under the next epoch; everything of the first is refused (P5)."""
    at.running()
    first, token = at.run_id, at.token()
    grant = at.must(at.authorize(), 201)
    claim_id, case_id = at.claim_id, at.case_id
    at.wait(961)  # the lease, and the cooldown after it
    at.issue()
    assert at.must(at.claim(who=RIVAL), 201)["lease_epoch"] == 2
    second = at.must(at.start("rival", who=RIVAL), 201)
    path = f"/v1/automation-runs/{first}"
    late: list[Callable[[], httpx2.Response]] = [
        lambda: at.call("PATCH", path, token | {"phase": "running"}),
        lambda: at.call("PATCH", path, token | {"status": "failed", "reason": "r"}),
        lambda: at.post(f"{path}/usage", token | {"turns": 1}),
        lambda: at.post(f"{path}/approvals", token | {"action": "draft_pr", "summary": "s"}),
        lambda: at.post(f"{path}/actions/draft-pr/authorize", token | at.binding(head_sha="d" * 40)),
        lambda: at.post(f"{path}/actions/draft-pr/consume", token | {"grant_id": grant["grant_id"]}),
        lambda: at.post(f"/v1/cases/{case_id}/claims/{claim_id}/renew", {"lease_epoch": 1}),
        lambda: at.post(f"/v1/cases/{case_id}/claims/{claim_id}/release", {"lease_epoch": 1}),
    ]
    for call in late:
        closed(call(), 409, "lease_expired")
    now = at.must(at.call("GET", f"/v1/automation-runs/{second['run_id']}", who=RIVAL), 200)
    assert (now["phase"], now["lease_epoch"]) == ("run_started", 2)
    port = HttpPort(at)
    Rules().check(port.log())
    port.close()
