"""`service-runner report` on a real service: each slot has one report, with the numbers of its source (R-AUT-47)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from service.runner.answers import Malformed, check_source
from service.runner.command import draw_up
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.schedules import AUTOMATION
from tests.support.server import ServerHandle, clean_environment
from tests.support.weekly import MINIMUM, STEPS, Weekly

pytestmark = pytest.mark.shares_server


@pytest.fixture
def at(server: ServerHandle) -> Iterator[HttpScene]:
    with open_scene(server) as scene:
        yield scene


def command(at: HttpScene, server: ServerHandle, who: str = AUTOMATION) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, as a scheduler does."""
    environment = clean_environment(SERVICE_URL=server.base_url, SERVICE_RUNNER_API_KEY=at.world.secrets[who])
    words = [sys.executable, "-m", "service.runner.command", "report", "--project", at.world.project_id]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert at.world.secrets[who] not in done.stdout + done.stderr
    return done


def recorded(weekly: Weekly) -> Any:
    """The report of the run."""
    return weekly.run()["output"]


def test_a_slot_gets_its_report_once(at: HttpScene, server: ServerHandle) -> None:
    weekly = Weekly(at).begin((6, 4, 3)[:STEPS], (8, 4, 2)[:STEPS])
    done = command(at, server)
    assert (done.returncode, weekly.run()["status"]) == (0, "succeeded"), done.stdout + done.stderr
    assert "recorded rep_" in done.stdout + done.stderr
    report = recorded(weekly)
    first = report["findings"][0]
    assert (first["metric"], first["prior_value"]) == ("people at step 1", 6)
    assert first["change"] == first["current_value"] - 6 >= 2  # Others may have come to the shop as well.
    assert {finding["kind"] for finding in report["findings"]} == {"metric"}
    assert len(report["findings"]) == 2 * STEPS - 1
    again = command(at, server)
    assert again.returncode == 0
    assert "Nothing to do." in again.stdout + again.stderr


def test_the_command_begins_the_run_of_a_slot(at: HttpScene, server: ServerHandle) -> None:
    weekly = Weekly(at)
    weekly.clock.move_to(weekly.clock.next_slot())
    [receipt] = weekly.clock.issue()["trigger_receipts"]
    period = receipt["schedule"]
    weekly.visit("prior", period["period_start"] - 3600, (5, 3, 2)[:STEPS])
    weekly.visit("current", period["period_end"] - 3600, (5, 3, 2)[:STEPS])
    weekly.clock.move_to(period["period_end"] + 5)
    done = command(at, server)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recorded rep_" in done.stdout + done.stderr


def test_a_small_sample_is_a_gap(at: HttpScene, server: ServerHandle) -> None:
    weekly = Weekly(at).begin((1,), (1,))
    assert command(at, server).returncode == 0
    [gap] = recorded(weekly)["findings"]
    assert (gap["kind"], gap["code"]) == ("readiness_gap", "sample_too_small")
    assert f"of at least {MINIMUM}" in gap["message"]


def test_a_run_that_was_broken_off_goes_on(at: HttpScene, server: ServerHandle) -> None:
    """The source of the earlier start is the one of the report."""
    weekly = Weekly(at).begin((6, 4, 3)[:STEPS], (8, 4, 2)[:STEPS])
    source = at.must(weekly.source(), 200)
    assert command(at, server).returncode == 0
    assert recorded(weekly)["source_hash"] == source["source_hash"]


def test_a_wrong_credential_is_refused(at: HttpScene, server: ServerHandle) -> None:
    Weekly(at).begin((6, 4, 3)[:STEPS], (8, 4, 2)[:STEPS])
    done = command(at, server, "owner")
    assert done.returncode == 1
    assert "principal_not_allowed" in done.stdout + done.stderr


SOURCE: dict[str, Any] = {
    "run_id": "run_1",
    "source_hash": "a" * 64,
    "period_start": 10,
    "period_end": 20,
    "rows": [
        {
            "step": 1,
            "prior_users": 4,
            "current_users": 6,
            "prior_conversion": 1.0,
            "current_conversion": 1.0,
        },
        {"step": 2, "prior_users": 2, "current_users": 1, "prior_conversion": 0.5, "current_conversion": 0.166667},
    ],
    "sample_size": 4,
    "minimum_sample_size": 3,
    "minimum_sample_met": True,
    "readiness_gap": None,
}


def test_changes_are_those_of_the_source() -> None:
    findings = draw_up(check_source(SOURCE))["findings"]
    assert [one["change"] for one in findings] == [2, -1, -0.333333]
    gap = {"kind": "readiness_gap", "code": "provider_timeout", "message": "Late."}
    assert draw_up({**SOURCE, "readiness_gap": gap, "rows": []})["findings"] == [gap]
    unknown = [{**row, "prior_conversion": None} for row in SOURCE["rows"]]
    assert len(draw_up({**SOURCE, "rows": unknown})["findings"]) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"source_hash": "x"},
        {"rows": None},
        {"rows": [{"step": "1"}]},
        {"minimum_sample_met": 1},
        {"period_end": None},
        {"readiness_gap": {"kind": 1}},
    ],
)
def test_a_source_of_another_form_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        check_source({**SOURCE, **change})
