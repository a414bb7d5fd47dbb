"""A team that touches the pull requests of repairs, and what the service says of it in four places at each moment.

The moments stand in docs/how-to/touched-pull-requests.md. A moment of the story says in each place what the page says.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from service.demo.theatre.stage import Stage
from tests.support import seen
from tests.support.console import Browser
from tests.support.consolescene import Watcher
from tests.support.loop.http_scene import open_scene
from tests.support.runner.host import TOKEN
from tests.support.runner.workplace import Workplace, git, open_workplace
from tests.support.server import ServerHandle
from tests.support.sessions import open_session

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "touched-pull-requests.md"
_PLACE = re.compile(r"^- \*\*(Run|Case|Control)\*\*: (.+(?:\n  .+)*)", re.MULTILINE)
SIGN_IN = 303
SECRET = re.compile(r"service_[a-z]+_[0-9A-Za-z]{30}")
_ASKED = "asked a person"


class Sayings(NamedTuple):
    """The words of a moment, by place."""

    run: str
    case: str
    control: str


def moments_of_page() -> dict[str, Sayings]:
    """The moments of the page by their headings, with the words that it quotes."""
    found = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        places = {place.lower(): _plain(words) for place, words in _PLACE.findall(text)}
        if places:
            found[heading] = Sayings(**places)
    return found


def _plain(words: str) -> str:
    return " ".join(words.replace("`", "").split())


class Team:
    """A reviewer, an owner, the runner and CI around one automation."""

    def __init__(self, place: Workplace, member: Watcher, stage: Stage) -> None:
        self.place = place
        self.scene = place.scene
        self.member = member
        self.stage = stage
        self.page = moments_of_page()
        self.moments: list[str] = []

    # ---- what is done

    def tell(self, sentence: str) -> None:
        """Go on with the story."""
        self.stage.tell(sentence)

    def runs(self) -> list[dict[str, Any]]:
        """The runs, newest first."""
        path = f"{self.scene.project}/automation-runs"
        found: list[dict[str, Any]] = self.scene.must(self.scene.call("GET", path, who="owner"))["runs"]
        return found

    def receipts(self) -> list[str]:
        """The receipts that wait for a runner."""
        path = f"{self.scene.project}/automation-trigger-receipts?status=issued"
        found = self.scene.must(self.scene.call("GET", path, who="owner"))["trigger_receipts"]
        return [one["receipt_id"] for one in found]

    @property
    def run(self) -> dict[str, Any]:
        """The newest run."""
        return self.runs()[0]

    @property
    def branch(self) -> str:
        """The branch of the newest run."""
        return f"repair/{self.run['run_id']}"

    def case(self) -> dict[str, Any]:
        """The case."""
        scene = self.scene
        return scene.must(scene.call("GET", f"/v1/cases/{scene.case_id}", who="owner"))

    def starts(self, *options: str, code: int = 0, **environment: str) -> str:
        """The scheduler starts the runner; returns its last line."""
        assert self.place.start(*options, **environment) == code, self.place.output
        return self.place.output.splitlines()[-1]

    def asks(self) -> None:
        """The runner asks a person, and its machine is taken away."""
        with self.place.begin("--approval", "always") as process:
            assert process.stdout is not None
            assert any(_ASKED in line for line in process.stdout)
            process.kill()

    def proves(self, code: int = 0, *options: str) -> str:
        """CI proves what became of the pull request, in a job of its branch; returns the last line."""
        assert self.place.prove("--branch", self.branch, *options) == code, self.place.proved
        return self.place.proved.splitlines()[-1]

    def looks(self) -> str:
        """CI proves what has changed within a day, in a job of the schedule; returns the last line."""
        assert self.place.prove() == 0, self.place.proved
        return self.place.proved.splitlines()[-1]

    def errs(self) -> None:
        """One more error, a moment later."""
        self.scene.wait(2)
        self.scene.error()

    def offers(self, seconds: int) -> None:
        """Time passes, and the service offers the case."""
        self.scene.wait(seconds)
        self.scene.issue()

    def verifies(self) -> None:
        """People buy, and the service counts until it has a verdict. Traffic of the last moments may not count yet."""
        path, answer = f"/v1/automation-runs/{self.run['run_id']}/verify", None
        for _ in range(5):
            self.scene.traffic(3)
            self.scene.wait(130)
            answer = self.scene.post(path, who="owner")
            if answer.status_code == 200:
                break
        assert answer is not None
        assert self.scene.must(answer, 200)["verification"]["passed"]

    def credential(self) -> str:
        """The owner makes another credential for the runner; returns its secret."""
        body = {"kind": "automation_runner", "name": "another", "automation_id": "heal"}
        made = self.scene.must(self.scene.post(f"{self.scene.project}/credentials", body, who="owner"), 200)
        return str(made["credential"])

    def revokes(self) -> None:
        """The owner revokes every credential of a runner."""
        scene = self.scene
        listed = scene.must(scene.call("GET", f"{scene.project}/credentials", who="owner"))["credentials"]
        for one in listed:
            if one["kind"] == "automation_runner" and one["active"]:
                path = f"/v1/project-credentials/{one['id']}/revoke"
                scene.must(scene.post(path, {"reason": "It leaked."}, who="owner"))

    def checkout(self, name: str) -> Path:
        """Another checkout of the shop, on the machine of another runner."""
        path = self.place.directory / name
        git(self.place.directory, "clone", "--quiet", str(self.place.bare), str(path))
        return path

    # ---- what is said

    def says(self, moment: str) -> None:
        """Assert that each place says what the page says of this moment, and tell it."""
        said = Sayings(self._of_run(), self._of_case(), self._of_control())
        self.moments.append(moment)
        self.stage.tell(f"[{moment}]")
        for place, words in said._asdict().items():
            self.stage.tell(f"  {place:7} {words}")
        assert said == self.page[moment], moment

    def _of_run(self) -> str:
        runs = self.runs()
        if not runs:
            return "There is no run."
        run = self.scene.must(self.scene.call("GET", f"/v1/automation-runs/{runs[0]['run_id']}", who="owner"))
        standing = run["status"] or run["phase"]
        page = self._reads(f"runs/{run['run_id']}")
        assert run["next_action"] in page, page
        if run["reason"]:
            assert run["reason"] in page, page
            standing += f", {run['reason'].rstrip('.')}"
        return f"{standing}. {run['next_action']}"

    def _reads(self, place: str) -> str:
        """The words of a page of the console, as a member of the team reads them."""
        if self.member.get(place).status_code == SIGN_IN:
            self.sign_in()
        return html.unescape(self.member.open(place).text)

    def sign_in(self) -> None:
        """A member signs in at the console. A session ends after half a day."""
        world = self.scene.world
        session = world.run(partial(open_session, user_id=world.users["member"]))
        self.member.browser.secret = session.secret

    def _of_case(self) -> str:
        case = self.case()
        page = self._reads(f"cases/{self.scene.case_id}")
        assert case["work"]["reason"] in page, page
        return str(case["work"]["reason"])

    def _of_control(self) -> str:
        path = f"{self.scene.project}/automation-control"
        control = self.scene.must(self.scene.call("GET", path, who="owner"))
        page = self._reads(f"projects/{self.scene.world.project_id}/automation")
        messages = list(dict.fromkeys(one["message"] for one in control["exceptions"]))
        for message in messages:
            assert message in page, page
        return " ".join(messages) or str(control["next_action"])


@contextmanager
def open_team(server: ServerHandle, directory: Path, kind: str, mode: str, **changes: Any) -> Iterator[Team]:
    """A project with a contract, a receipt, a runner and a repository at one of the code hosts."""
    with ExitStack() as stack:
        scene = stack.enter_context(open_scene(server, mode))
        place = stack.enter_context(open_workplace(directory, scene, kind, **changes))
        client = seen.async_client(server.base_url, timeout=60)
        runner = stack.enter_context(asyncio.Runner())
        stack.callback(lambda: runner.run(client.aclose()))
        story = directory / "story.txt"
        with story.open("w") as file:
            team = Team(place, Watcher(Browser(client, ""), runner.run), Stage(transcript=file))
            team.sign_in()
            yield team
        _check(story.read_text(), team.moments)


def _check(story: str, moments: list[str]) -> None:
    """The story tells each moment in its order, and no secret."""
    assert re.findall(r"^   \[(.+)\]$", story, re.MULTILINE) == moments
    assert re.match(r"1\. [A-Z]", story)
    assert SECRET.search(story) is None
    assert TOKEN not in story
