"""Verification over HTTP: recurrence by case, environment and version; silence fails at the deadline (G-111)."""

from __future__ import annotations

import pytest

from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene


@pytest.mark.parametrize(
    ("changes", "recurs"),
    [
        ({}, True),
        ({"release": "1.0.1"}, True),
        ({"release": "0.9.0"}, False),
        ({"environment": "staging"}, False),
        ({"message": "Something else entirely"}, False),
    ],
)
def test_recurrence_is_this_error_in_this_environment_and_version(
    at: HttpScene, changes: dict[str, str], recurs: bool
) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(2)
    at.error(**changes)
    answer = at.verify()
    assert answer.status_code == (200 if recurs else 202)
    assert answer.json()["verification"]["outcome"] == ("recurred" if recurs else "pending")
    assert at.run()["status"] == ("failed" if recurs else "verifying")


def test_silence_fails_at_the_deadline_and_never_verifies(at: HttpScene) -> None:
    at.delivered()
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(890)
    assert at.verify().status_code == 202
    at.wait(15)
    done = at.verify(who="owner")
    assert (done.status_code, done.json()["verification"]["outcome"]) == (200, "insufficient_traffic")
    run = at.run()
    assert (run["phase"], run["status"], run["output"]["verification"]["passed"]) == ("stopped", "failed", False)
    closed(at.post(f"{at.path}/verify", {"passed": True}), 400, "invalid_payload")
    closed(at.verify(who="member"), 403, "owner_required")
