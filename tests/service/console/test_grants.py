"""The grants of a run in the console: what each lets the runner do, and where it stands."""

from __future__ import annotations

import re

import pytest

from tests.support.console import Shown
from tests.support.consolescene import open_people
from tests.support.loop.bodies import HEAD
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

MERGE = {"pr_number": 7, "head_sha": HEAD, "merge_method": "squash"}


def rows(page: Shown) -> list[tuple[str, str]]:
    """Kind and status of each grant on a page."""
    table = page.html.partition("<h2>Grants</h2>")[2].partition("</table>")[0]
    cells = re.findall(r'data-label="Kind">([^<]+)</td><td data-label="Status"><span[^>]*>([^<]+)', table)
    return [(kind.lower(), status.lower()) for kind, status in cells]


def granted(at: HttpScene, kind: str) -> str:
    """Have a grant of a kind authorized."""
    answer = at.authorize() if kind == "draft-pr" else at.act("actions/auto-merge/authorize", MERGE)
    return str(at.must(answer, 201)["grant_id"])


def test_a_grant_for_the_pull_request_and_one_for_its_merge(server: ServerHandle) -> None:
    """Each by itself: asked for, used once, settled by what CI saw. A refused wish leaves none."""
    with open_scene(server, "auto_merge") as at, open_people(at) as people:
        at.running()
        place = f"runs/{at.run_id}"
        assert "<h2>Grants</h2>" not in people.owner.open(place).html
        opening = granted(at, "draft-pr")
        page = people.member.open(place)
        assert rows(page) == [("draft pr", "authorized")]
        assert opening in page.html
        assert HEAD[:12] in page.text
        assert "src/cart.py" in page.text
        at.must(at.consume(opening), 200)
        assert rows(people.member.open(place)) == [("draft pr", "consumed")]
        at.must(at.prove(), 201)
        assert at.act("actions/auto-merge/authorize", MERGE).status_code == 409
        assert len(rows(people.member.open(place))) == 1, "no readiness, no grant"
        at.must(at.prove("checks_passed"), 201)
        merging = granted(at, "auto-merge")
        page = people.owner.open(place)
        assert dict(rows(page))["auto merge"] == "authorized"
        assert merging in page.html
        at.must(at.consume(merging, "auto-merge"), 200)
        at.must(at.prove("auto_merge_enabled"), 201)
        at.must(at.prove("merged"), 201)
        page = people.owner.open(place)
        assert rows(page) == [("draft pr", "settled"), ("auto merge", "settled")]
        assert "pull request 7, squash" in page.text
        assert people.stranger.open(place, 404).text == people.stranger.open("runs/run_0", 404).text


def test_a_stop_takes_the_grants_away(server: ServerHandle) -> None:
    """An owner who stops the automation sees at the run that nothing may be opened any more."""
    with open_scene(server, "auto_merge") as at, open_people(at) as people:
        at.running()
        place, grant = f"runs/{at.run_id}", granted(at, "draft-pr")
        page = people.owner.open(place)
        stopped = people.owner.send(page.form("pause_automation_contract"))
        assert "The automation of this project is stopped." in stopped.text
        assert rows(people.owner.open(place)) == [("draft pr", "revoked")]
        assert at.consume(grant).status_code == 409
