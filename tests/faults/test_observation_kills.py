"""An ungranted pull request under kill -9: finding and stop are one, and CI sends it again until it is told (G-172)."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import httpx2
import pytest

from tests.faults.test_ingest_kills import kill_api
from tests.service.runs.test_pull_request import enabled, observe, topics
from tests.support import long_after
from tests.support.loop.http_scene import HttpScene, open_scene

KILLS = [2, 10]
"""In `make test`, and before a release."""
FOUND, STOPPED = "pull_request.ungranted.v1", "automation_contract.last_automation_disabled.v1"


def _send(at: HttpScene, number: int, answers: list[int]) -> None:
    """Send one observation, whatever becomes of it."""
    try:
        answers.append(observe(at, pr_number=number).status_code)
    except httpx2.HTTPError:
        answers.append(0)


@pytest.mark.parametrize("kills", long_after(1, KILLS))
def test_it_is_found_and_stopped_once_or_not_at_all(server_factory: Any, kills: int) -> None:
    """Several jobs send it while the service dies. Afterwards the log has both events of it, or neither."""
    server = server_factory()
    with open_scene(server) as at:
        at.prepare()
        for number in range(1, kills + 1):
            answers: list[int] = []
            senders = [threading.Thread(target=_send, args=(at, number, answers)) for _ in range(4)]
            for sender in senders:
                sender.start()
            time.sleep(random.uniform(0, 0.05))
            kill_api(server, whole=True)
            for sender in senders:
                sender.join()
            server.wait_until_ready()
            assert topics(at, "pull").count(FOUND) == topics(at, "ctr").count(STOPPED) in (number - 1, number)
            at.must(observe(at, pr_number=number), 200, 201)
            assert not enabled(at)
            assert topics(at, "pull").count(FOUND) == topics(at, "ctr").count(STOPPED) == number
            at.enable()
