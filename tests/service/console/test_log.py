"""Pages of the event log, of streams and of reports, and the operator's page."""

from __future__ import annotations

import psycopg
import pytest

from service.console.kit.diagrams import Passed, draw
from service.console.pages.log import Figures
from service.registry import machines
from tests.support.consolescene import People, open_people
from tests.support.intruding import meaning
from tests.support.loop.http_scene import HttpScene
from tests.support.weekly import Weekly, gap, hypothesis, metric, report_on

pytestmark = pytest.mark.shares_server

HOSTILE = "<script>alert(1)</script> \u202e![x](http://evil.example/x.png)"


def test_the_log_is_browsed_backwards_by_owners_alone(at: HttpScene, people: People) -> None:
    at.running()
    for number in range(25):
        at.must(at.act("usage", {"turns": 1, "label": f"look {number}"}), 200)
    place = f"projects/{at.world.project_id}/log"
    page = people.owner.sees(place, "run.charged.v1")
    assert "Signed size" in people.owner.sees(place, "Signed size").text
    [older] = [link for link in page.page.links if link.startswith("?before=")]
    before = people.owner.open(f"{place}{older}")
    assert "project.created" in before.text or "Older events" in before.text
    assert "To the newest events" in before.text
    assert "owner" in people.member.open(place, 403).text
    theirs, none = people.stranger.open(place, 404), people.stranger.open("projects/proj_0/log", 404)
    assert theirs.text == none.text
    people.owner.open(f"{place}?before=nonsense", 404)


def test_a_stream_shows_its_way_and_what_is_otherwise_between_two_moments(at: HttpScene, people: People) -> None:
    at.running()
    at.must(at.act("usage", {"turns": 3, "label": HOSTILE}), 200)
    place = f"streams/{at.run_id}"
    page = people.owner.sees(place, "run.charged.v1")
    assert "revision 1: run.started.v1" in page.text
    assert "<script>alert" not in page.html
    found = people.owner.open(f"streams?stream_id={at.run_id}")
    assert "run.started.v1" in found.text
    compared = people.owner.open(f"{place}?from=1&to=2")
    assert '<span class="removed"><bdi>-   &#34;status&#34;: &#34;run_started/null&#34;,' in compared.html
    assert '<span class="added"><bdi>+   &#34;status&#34;: &#34;running/null&#34;,' in compared.html
    assert "The stream has 2 events" in people.owner.open(f"{place}?from=1&to=99").text
    assert "at most 1000 events" in people.owner.open(f"{place}?from=1&to=99999").text
    people.member.open(place, 403)
    theirs, none = people.stranger.open(place, 404), people.stranger.open("streams/run_0", 404)
    assert theirs.text == none.text
    people.owner.open("streams", 404)


def test_anybody_signed_in_learns_how_to_verify(at: HttpScene, people: People) -> None:
    at.prepare()
    page = people.stranger.sees("how-to-verify", "Signed size")
    assert "scripts/verify_proof.py proof.json --key @keys --checkpoint kept" in page.text
    kept = people.stranger.get("download/get_log_checkpoint")
    assert kept.headers["content-disposition"] == 'attachment; filename="checkpoint.txt"'
    assert kept.text.startswith("service.invalid/log/")
    proof = people.stranger.get("download/get_inclusion_proof?position=1")
    assert '"leaf_index":0' in proof.text
    people.stranger.open("download/get_inclusion_proof?position=x", 400)
    assert people.owner.browser.client.cookies == {}


def test_a_report_is_shown_in_its_form_and_as_text(at: HttpScene) -> None:
    weekly = Weekly(at).begin([9, 6, 4], [8, 6, 2])
    with open_people(at) as people:  # A week went by, and with it every session.
        place = f"projects/{at.world.project_id}/reports"
        assert "There is no report yet" in people.owner.open(place).text
        people.owner.open(f"runs/{weekly.run_id}/report", 404)
        source = at.must(weekly.source(), 200)
        report = report_on(
            source, metric(source), hypothesis(title=HOSTILE, rationale=HOSTILE), gap(), limitations=[HOSTILE]
        )
        at.must(weekly.record(report), 201)
        listed = people.member.open(place)
        assert f"/console/runs/{weekly.run_id}/report" in listed.html
        shown = people.member.open(f"runs/{weekly.run_id}/report")
        assert "users at step 3" in shown.text
        assert shown.html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 3
        assert "<script>alert" not in shown.html
        people.stranger.open(f"runs/{weekly.run_id}/report", 404)
        assert f"/console/runs/{weekly.run_id}/report" in people.owner.open(f"runs/{weekly.run_id}").html


def test_the_operators_page_has_the_figures_of_the_installation(at: HttpScene, people: People) -> None:
    page = people.operator.open("operator")
    for text in (
        "Readers of the log",
        "sequencer",
        "Jobs None failed",
        "service jobs retry",
        "Rebuilds",
        "None is under way",
        "Scheduled tasks",
        "Accounts held back, so that their neighbours come first",
        "Times an account was held back since the start",
        "Largest tables",
        "Reload",
    ):
        assert text in page.text
    assert 'data-every="10"' in page.html
    assert at.world.project_id not in page.text


def test_the_operators_page_is_for_nobody_else(people: People) -> None:
    """Neither the owner of a project nor anybody else finds it, or a link to it: it is as if it did not exist."""
    for one in (people.owner, people.member, people.stranger):
        there, never = one.get("operator"), one.get("operators")
        assert there.status_code == never.status_code == 404
        assert meaning(there) == meaning(never)
        assert "/console/operator" not in one.open("").html
    assert "/console/operator" in people.operator.open("").html


def test_a_rebuild_under_way_shows_how_far_it_is(at: HttpScene, people: People) -> None:
    assert at.server.database_url is not None
    with psycopg.connect(at.server.database_url, autocommit=True) as connection:
        connection.execute("insert into rebuilds (name, position, events, started_at) values ('a_test', 9, 7, 0)")
        try:
            shown = people.operator.sees("operator", "a_test 7 of ")
        finally:
            connection.execute("delete from rebuilds where name = 'a_test'")
    assert "The table of before answers until the swap." in shown.text


def test_figures_are_read_back_from_their_text() -> None:
    text = '# HELP a b\na 3.0\nb{x="y\\"z",n="1"} 2\nc{} NaN\nnonsense\n'
    found = Figures(text)
    assert found.one("a") == 3
    assert found.by("b", "n") == {"1": 2}
    assert found.one("missing") is None


@pytest.mark.parametrize("kind", list(machines()))
def test_each_machine_is_drawn_with_its_states_apart(kind: str) -> None:
    drawing = draw(kind, [])
    assert drawing is not None
    assert len(drawing.states) == len(machines()[kind].table.states)
    for number, one in enumerate(drawing.states):
        assert one.x >= 0
        assert one.x + one.width <= drawing.width + 1
        for two in drawing.states[:number]:
            apart = abs(one.y - two.y) >= one.height or one.x + one.width <= two.x or two.x + two.width <= one.x
            assert apart, (one.label, two.label)


def test_the_way_lights_the_arrows_that_a_stream_took() -> None:
    topics = ["run.started.v1", "run.charged.v1", "run.charged.v1", "run.approval_requested.v1", "run.review_ended.v1"]
    drawing = draw("run", [Passed(number, topic) for number, topic in enumerate(topics, 1)])
    assert drawing is not None
    lit = {one.words.partition(":")[0] for one in drawing.arrows if one.lit}
    assert lit == {"absent to started", "started to running", "running to in review", "in review to running"}
    assert [(step.state, step.first, step.last) for step in drawing.steps] == [
        ("started", 1, 1),
        ("running", 2, 3),
        ("in review", 4, 4),
        ("running", 5, 5),
    ]
    assert {one.label: one.visits for one in drawing.states if one.visits} == {
        "started": 1,
        "running": 3,
        "in review": 1,
    }
    assert draw("nothing", []) is None
