"""The walk of a nervous team: people touch each pull request, and each place says what is so and what to do.

Each act is a project of its own. It runs at both code hosts, with the runner and CI's program as they are shipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.nervous import Team, moments_of_page, open_team
from tests.support.server import ServerHandle

MINUTE, HOUR = 60, 3600
SAID = re.compile(r'team\.says\("([^"]+)"\)')

Opens = Callable[..., Team]


@pytest.fixture(params=["github", "gitlab"])
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


def test_a_draft_is_closed_and_reopened(opens: Opens) -> None:
    team = opens("A draft is closed without a merge, and reopened", cooldown_seconds=HOUR)
    host = team.place.host
    team.tell(team.starts())
    team.tell(team.proves())
    host.close("ada")
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


def test_checks_are_red(opens: Opens) -> None:
    team = opens("A check is red", "auto_merge")
    team.place.host.check(build="success", test="failure")
    team.tell(team.starts("--checks", "60", code=1))
    team.says("A required check is red")
    team.tell(team.proves(1, "--wait", "60", "--gate", "prove"))
    team.says("CI has seen what was handed over")
    team.place.host.close("ada")
    team.tell(team.proves())
    team.says("CI has seen what was handed over")


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
