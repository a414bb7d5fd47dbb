"""A runner that dies at any step, or hears no answer, ends its run with one branch and one draft (R-AUT-29)."""

from __future__ import annotations

import signal
import time

import psutil
import pytest

from tests.service.runner.conftest import Open
from tests.service.runner.test_loop import KINDS, assert_delivered
from tests.service.runner.test_wall import HAS_NAMESPACES
from tests.support.runner.workplace import REPAIR, Workplace

pytestmark = pytest.mark.shares_server
KILLED = -signal.SIGKILL


@pytest.mark.parametrize("kind", KINDS)
def test_it_dies_around_every_request(opened: Open, kind: str) -> None:
    """Before and after each write to the service and to the host, and after each read. Every start goes on."""
    place = opened(kind)
    place.faults.mode, place.faults.spared = "kill", ("/consume",)
    codes = place.until_done()
    assert_delivered(place)
    assert set(codes) == {KILLED, 0}
    assert len(codes) > 18, place.faults.kills
    assert place.run()["charges"]["turns"] == 1, "the work was done once"
    assert place.note()["attempts"] == 1


@pytest.mark.parametrize("hook", ["pre-receive", "post-receive"])
def test_it_dies_around_the_programs_and_the_push(opened: Open, hook: str) -> None:
    """While the repair begins and ends, and before the push lands or after it. A repair left over is ended."""
    place = opened()
    flag, kill = f"{place.directory}/$1", f"kill -9 $(cat {place.pid_file})"
    once = f"die() {{ [ -e {flag} ] || {{ touch {flag}; {kill}; $2; }}; }}"
    if hook == "pre-receive":
        place.repairs(f"{once}\ndie begun sleep\\ 900\n{REPAIR}\ndie ended sleep\\ 900")
    place.on_push(hook, f"{once}\ndie receiving true\nexit 0")
    codes = place.until_done("--isolate", "never")
    assert_delivered(place)
    killed = 3 if hook == "pre-receive" else 1
    assert codes == [KILLED] * killed + [0]
    assert place.run()["charges"]["turns"] == killed, "each repair that was begun is charged"
    assert list(place.directory.glob("service-runner-*")) == []
    assert programs_of(place) == []


@pytest.mark.skipif(not HAS_NAMESPACES, reason="this machine has no namespaces of users")
def test_behind_the_wall_nothing_outlives_the_runner(opened: Open) -> None:
    """What left its session and its group ends with the runner, without a later start."""
    place = opened()
    flag = place.directory / "begun"
    place.repairs(f"[ -e {flag} ] || {{ setsid sleep 900 & touch {flag}; sleep 900; }}\n{REPAIR}")
    with place.begin("--isolate", "always") as process:
        while not flag.exists():
            assert process.poll() is None
            time.sleep(0.05)
        assert any("sleep 900" in line for line in started_by(process.pid))
        programs = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        psutil.wait_procs(programs, timeout=60)
        assert [one for one in programs if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
    assert place.until_done("--isolate", "always") == [0]
    assert_delivered(place)
    assert list(place.directory.glob("service-runner-*")) == []


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_it_goes_on_after_a_reviewer_who_took_longer_than_the_lease(opened: Open, decision: str) -> None:
    """It asked and died. The owner answers after twenty minutes, and the next start comes hours later (G-185)."""
    place = opened()
    with place.begin("--approval", "always") as process:
        assert process.stdout is not None
        assert any("asked a person" in line for line in process.stdout)
        process.kill()
    place.scene.wait(1200)
    place.decide(decision)
    place.scene.wait(20000)
    assert place.start("--approval", "always") == (0 if decision == "approve" else 1), place.output
    if decision == "approve":
        assert_delivered(place)
        assert place.run()["charges"]["turns"] == 1, "the work was done once"
    else:
        assert (place.run()["status"], place.branches) == ("escalated", [])


def programs_of(place: Workplace) -> list[str]:
    """The commands of running programs that name a workplace."""
    lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(place.directory) in line]


def started_by(pid: int) -> list[str]:
    """The commands of the programs below a process."""
    return [" ".join(one.cmdline()) for one in psutil.Process(pid).children(recursive=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_it_hears_no_first_answer(opened: Open, kind: str) -> None:
    """Each write is sent again with its key, and repeats nothing."""
    place = opened(kind)
    place.faults.mode, place.faults.spared = "lose", ("GET", "/consume")
    assert place.start() == 0, place.output
    assert_delivered(place)
    assert len(place.faults.lost) > 6
    assert place.run()["charges"]["turns"] == 1


@pytest.mark.parametrize("mode", ["kill", "lose"])
def test_who_was_not_told_that_it_may_call_only_looks(opened: Open, mode: str) -> None:
    """The consume was carried out, and its answer is lost. Nobody opens anything, and a person is told (R-AUT-32)."""
    place = opened()
    place.faults.mode = mode  # type: ignore[assignment]
    place.faults.only = ("/consume",)
    if mode == "kill":
        assert [place.start(), place.start()] == [KILLED, KILLED]
    assert place.start() == 1, place.output
    run = place.run()
    assert (run["status"], run["phase"]) == ("escalated", "external_follow_up_required")
    assert "Nobody may open it now." in run["reason"]
    assert place.branches == []
    assert place.host.pulls == []
