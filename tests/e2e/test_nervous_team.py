"""The walk of a nervous team: people touch each pull request, and each place says what is so and what to do.

Each act is a project of its own. It runs at both code hosts, with the runner and CI's program as they are shipped.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.nervous import Team, moments_of_page, open_team
from tests.support.cluster import TestCluster
from tests.support.runner.workplace import REPAIR
from tests.support.server import USUAL_PROCESSES, ServerHandle, running_server

MINUTE, HOUR = 60, 3600
SAID = re.compile(r'team\.says\("([^"]+)"\)')

Opens = Callable[..., Team]


each_host = pytest.mark.parametrize("opens", ["github", "gitlab"], indirect=True)
both_at_releases = pytest.mark.parametrize(
    "opens", ["github", pytest.param("gitlab", marks=pytest.mark.release)], indirect=True
)
"""For acts in which the code host takes no part of its own."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server with as many API processes as an operator gets."""
    with running_server(tmp_path_factory.mktemp("usual"), cluster, USUAL_PROCESSES) as handle:
        yield handle


@pytest.fixture
def opens(request: pytest.FixtureRequest, server: ServerHandle, tmp_path: Path) -> Iterator[Opens]:
    """Open the scene of an act at each code host."""
    with ExitStack() as stack:

        def opened(title: str, mode: str = "review_required", **changes: Any) -> Team:
            team = stack.enter_context(open_team(server, tmp_path, request.param, mode, **changes))
            team.stage.chapter(f"{title} ({request.param})")
            return team

        yield opened


def test_each_moment_of_the_page_is_played() -> None:
    """The page quotes nothing that the walk does not hear."""
    assert set(SAID.findall(Path(__file__).read_text())) == set(moments_of_page())


@each_host
def test_it_is_merged_as_it_was_granted(opens: Opens) -> None:
    team = opens("It is merged as it was granted")
    host, scene = team.place.host, team.scene
    team.tell(team.starts())
    team.tell(team.proves())
    commit = host.merge()
    host.remove(team.branch)
    team.tell(team.proves())
    team.says("It was merged as it was granted")
    assert scene.deploy(commit) == team.run["run_id"]
    team.says("The merge is deployed")
    team.tell(team.starts())
    team.verifies()
    team.says("No error came back")


@each_host
def test_a_reviewer_takes_twenty_minutes_and_changes_the_repair(opens: Opens) -> None:
    team = opens("A reviewer takes their time, and changes the repair")
    host = team.place.host
    team.says("A receipt waits")
    team.asks()
    team.says("A person has to approve")
    team.tell("The reviewer thinks for twenty minutes. Nobody is at the runner's machine.")
    team.scene.wait(20 * MINUTE)
    team.says("A person has to approve")
    assert team.run["resting"] is True
    team.place.decide()
    team.says("A person has approved")
    team.tell(team.starts())
    team.says("The draft is open")
    team.tell(team.proves())
    team.says("CI has seen the draft")
    host.push(team.branch)
    team.tell(team.proves())
    team.says("CI has seen the draft")
    host.push("main")
    host.update(team.branch)
    team.tell(team.proves())
    team.says("CI has seen the draft")
    commit = host.merge()
    team.tell(team.proves())
    team.says("It was merged with other commits")
    team.scene.deploy(commit)
    team.says("The other commits are deployed")
    team.errs()
    team.says("The error came back after the deploy")
    team.offers(MINUTE)
    team.says("The case is offered again")


@each_host
def test_a_reviewer_is_faster_than_ci(opens: Opens) -> None:
    team = opens("A reviewer is faster than CI")
    host = team.place.host
    team.tell(team.starts())
    host.mark(draft=False)
    told = team.proves()
    team.tell(told)
    assert "mark it as a draft and start this again" in told
    team.says("The draft is open")
    host.mark(draft=True)
    team.tell(team.proves())
    team.says("CI has seen the draft")
    host.mark(draft=False)
    team.tell(team.proves())
    team.says("CI has seen the draft")
    commit = host.merge()
    team.tell(team.proves())
    assert team.scene.deploy(commit) == team.run["run_id"]
    team.says("The merge is deployed")


@each_host
def test_a_reviewer_merges_before_ci_has_looked(opens: Opens) -> None:
    team = opens("A reviewer merges before CI has looked")
    team.tell(team.starts())
    team.place.host.merge()
    told = team.proves(1)
    team.tell(told)
    assert "an owner cancels the run" in told
    team.says("The draft is open")
    path = f"/v1/automation-runs/{team.run['run_id']}/cancel"
    team.scene.must(team.scene.post(path, {"reason": "It was merged."}, who="owner"))
    team.says("An owner has cancelled the run")


@each_host
def test_a_draft_is_closed_and_reopened(opens: Opens) -> None:
    team = opens("A draft is closed without a merge, and reopened", cooldown_seconds=HOUR)
    host = team.place.host
    team.tell(team.starts())
    team.tell(team.proves())
    host.close_pull("ada")
    team.tell(team.looks())
    team.says("It was closed without a merge")
    [comment] = team.case()["comments"]
    team.tell(comment["text"])
    host.reopen("ada")
    team.tell(team.looks())
    team.says("It was reopened")
    team.tell(team.starts())
    team.errs()
    team.says("It was reopened")
    commit = host.merge()
    team.tell(team.looks())
    team.says("It was reopened")
    assert team.scene.deploy(commit) is None
    team.offers(HOUR)
    team.says("The case of a closed draft is offered again")


@each_host
def test_checks_are_red(opens: Opens) -> None:
    team = opens("A check is red", "auto_merge")
    team.place.host.check(build="success", test="failure")
    team.tell(team.starts("--checks", "60", code=1))
    team.says("A required check is red")
    team.tell(team.proves(1, "--wait", "60", "--gate", "prove"))
    team.says("CI has seen what was handed over")
    team.place.host.close_pull("ada")
    team.tell(team.proves())
    team.says("CI has seen what was handed over")


@each_host
def test_a_branch_is_written_anew_and_deleted(opens: Opens) -> None:
    team = opens("A branch is pushed by force, and deleted")
    host = team.place.host
    team.tell(team.starts())
    team.tell(team.proves())
    host.push_over(team.branch)
    team.tell(team.proves())
    team.says("CI has seen the draft")
    host.delete(team.branch, "ada")
    team.tell(team.proves())
    team.says("It was closed without a merge")
    team.tell(team.starts())
    assert team.place.branches == []


SLOW = f"touch {{here}}/working; while [ ! -e {{here}}/go ]; do sleep 0.05; done{REPAIR}"
"""A repair that takes until it may end."""


@contextmanager
def at_work(team: Team) -> Iterator[subprocess.Popen[str]]:
    """A runner whose repair takes long."""
    here = team.place.directory
    team.place.repairs(SLOW.format(here=here))
    with team.place.begin() as process:
        try:
            while not (here / "working").exists():
                assert process.poll() is None
                time.sleep(0.02)
            yield process
        finally:
            (here / "go").touch()


@both_at_releases
def test_two_runners_come_at_once(opens: Opens) -> None:
    team = opens("Two runners come at once")
    place = team.place
    other = {"SERVICE_RUNNER_API_KEY": team.scene.world.secrets["rival"]}
    elsewhere = ("--checkout", str(team.checkout("elsewhere")))
    with place.begin() as one, place.begin(*elsewhere, **other) as two:
        for runner in (one, two):
            assert runner.stdout is not None
            team.tell(runner.stdout.read().splitlines()[-1])
    assert [one.returncode, two.returncode] == [0, 0]
    assert [len(team.runs()), len(place.host.pulls), len(team.run["grants"])] == [1, 1, 1]
    assert team.run["charges"]["turns"] == 1, "one of them has worked"
    team.says("The draft is open")


@both_at_releases
def test_a_runner_comes_while_another_one_is_at_work(opens: Opens) -> None:
    team = opens("A runner comes while another one is at work")
    place = team.place
    other = {"SERVICE_RUNNER_API_KEY": team.scene.world.secrets["rival"]}
    with at_work(team) as runner:
        team.says("A runner is at work")
        told = team.starts("--checkout", str(team.checkout("elsewhere")), **other)
        team.tell(told)
        assert "is another runner's" in place.output
        assert team.run["charges"]["turns"] == 1
        (place.directory / "go").touch()
        assert runner.stdout is not None
        team.tell(runner.stdout.read().splitlines()[-1])
    assert runner.returncode == 0
    team.says("The draft is open")


@both_at_releases
def test_a_credential_is_replaced_in_the_middle(opens: Opens) -> None:
    team = opens("A credential is replaced in the middle")
    place = team.place
    with at_work(team) as runner:
        team.revokes()
        (place.directory / "go").touch()
        assert runner.stdout is not None
        team.tell(runner.stdout.read().splitlines()[-1])
    assert runner.returncode == 1
    team.says("The credential of the runner is revoked")
    another = {"SERVICE_RUNNER_API_KEY": team.credential()}
    team.says("A runner is at work")
    team.tell(team.starts(**another))
    team.says("The draft is open")
    assert len(place.host.pulls) == 1


@both_at_releases
def test_nobody_comes_back(opens: Opens) -> None:
    team = opens("The runner is gone for good", cooldown_seconds=HOUR)
    with at_work(team) as runner:
        runner.kill()
    team.scene.wait(16 * MINUTE)
    team.says("The runner did not come back")
    team.offers(HOUR)
    team.tell(team.starts())
    team.says("The draft is open")


@both_at_releases
def test_a_runner_comes_once_a_night(opens: Opens) -> None:
    team = opens("A runner comes once a night", quiet_seconds=48 * HOUR)
    [first] = team.receipts()
    team.scene.wait(20 * HOUR)
    team.scene.issue()
    assert team.receipts() == [first]
    team.says("A receipt waits")
    team.scene.wait(5 * HOUR)
    team.scene.issue()
    [second] = team.receipts()
    assert second != first, "nobody came for a day"
    team.says("A receipt waits")
    team.tell(team.starts())
    team.says("The draft is open")


@both_at_releases
def test_a_case_has_gone_quiet_at_night(opens: Opens) -> None:
    team = opens("A case has gone quiet when the runner comes", quiet_seconds=6 * HOUR)
    team.scene.wait(7 * HOUR)
    team.says("A receipt waits")
    team.tell(team.starts())
    assert "materiality_not_met" in team.place.output
    team.says("The case has gone quiet")
    assert team.runs() == []
