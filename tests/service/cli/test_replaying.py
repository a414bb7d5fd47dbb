"""Streams folded from the command line: step by step, drawn, compared, and all of them as a check of a release."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from click.testing import CliRunner, Result

from service.cli import main
from service.cli.machines import mermaid
from service.eventstore.schema import migrations
from service.registry import machines
from tests.support.cluster import TestCluster
from tests.support.olddatabases import NAMES, bring_back

FOLD = "select stream_id, max(revision) from events where kind = %s group by stream_id order by 2 desc, 1 limit 1"


def run(url: str, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, words, env={"SERVICE_DATABASE_URL": url})
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def kept(cluster: TestCluster) -> Iterator[str]:
    """The newest kept database, brought forward."""
    with cluster.database("template0") as url:
        bring_back(url, NAMES[-1])
        migrations.migrate(url)
        yield url


def longest(url: str, kind: str) -> tuple[str, int]:
    """The stream of a kind with the most events, and its last revision."""
    with psycopg.connect(url) as connection:
        [[stream, last]] = connection.execute(FOLD, (kind,)).fetchall()
    return stream, last


def test_each_state_is_one_line_and_the_last_is_that_of_a_replay(kept: str) -> None:
    stream, last = longest(kept, "run")
    lines = [json.loads(line) for line in run(kept, "events", "replay", stream, "--each").stdout.splitlines()]
    assert [line["revision"] for line in lines] == list(range(1, last + 1))
    final = json.loads(run(kept, "events", "replay", stream).stdout)
    assert final == {"stream_id": stream, "revision": last, "state": lines[-1]["state"]}
    for line in lines:
        told = json.loads(run(kept, "events", "replay", stream, "--revision", str(line["revision"])).stdout)
        assert told["state"] == line["state"]


def test_text_tells_what_each_event_changed(kept: str) -> None:
    """Its lines add up to the last state."""
    stream, last = longest(kept, "run")
    text = run(kept, "events", "replay", stream, "--format", "text").stdout
    told: dict[str, str] = dict(re.findall(r"^    ([\w.]+): .* -> (.*)$", text, re.MULTILINE))
    state = json.loads(run(kept, "events", "replay", stream).stdout)["state"]
    assert told["status"] == state["status"]
    assert len(re.findall(rf" {stream} r\d+ ", text)) == last
    assert all(str(state[name]) == value for name, value in told.items() if isinstance(state.get(name), str | int))


def test_the_drawing_has_every_step_on_an_arrow_of_the_machine(kept: str) -> None:
    stream, last = longest(kept, "run")
    drawn = run(kept, "events", "replay", stream, "--format", "mermaid").stdout
    machine = machines()["run"]
    assert sorted(int(step) for step in re.findall(r"\br(\d+)\b", drawn)) == list(range(1, last + 1))
    state = json.loads(run(kept, "events", "replay", stream).stdout)["state"]
    [now] = re.findall(r"^    class (\w+) now$", drawn, re.MULTILINE)
    assert now == msgspec.convert(state, machine.state_type).status.name
    assert re.sub(r" r\d+|^    class.*\n", "", drawn, flags=re.MULTILINE).strip() == mermaid(machine).strip()


def test_two_moments_are_compared(kept: str) -> None:
    """Either way round; a moment is the same as itself."""
    stream, last = longest(kept, "run")
    first, then = (json.loads(run(kept, "events", "replay", stream, "--revision", r).stdout) for r in ("1", str(last)))
    rows = json.loads(run(kept, "events", "diff", stream, "r:1", f"r:{last}", "--json").stdout)
    found = {row["member"]: (row["before"], row["after"]) for row in rows}
    assert found["status"] == (first["state"]["status"], then["state"]["status"])
    back = json.loads(run(kept, "events", "diff", stream, f"r:{last}", "r:1", "--json").stdout)
    assert {row["member"]: (row["after"], row["before"]) for row in back} == found
    assert "Nothing differs." in run(kept, "events", "diff", stream, "r:1", "r:1").stdout


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("diff", "run_unknown", "r:1", "r:2"), 1, "There is no such stream."),
        (("diff", "STREAM", "1", "r:2"), 2, "is no revision"),
        (("diff", "STREAM", "r:1", "r:999999"), 1, "is not reached yet"),
        (("diff", "STREAM", "p:0", "r:1"), 1, "The stream began after p:0."),
        (("replay", "STREAM", "--each", "--format", "text"), 2, "--each prints JSON"),
        (("replay", "STREAM", "--revision", "1", "--as-of", "r:1"), 2, "exclude each other"),
    ],
)
def test_a_wrong_wish_is_one_sentence(kept: str, words: tuple[str, ...], code: int, sentence: str) -> None:
    stream, _ = longest(kept, "run")
    done = run(kept, "events", *(stream if word == "STREAM" else word for word in words), code=code)
    assert sentence in done.output, done.output


@pytest.mark.parametrize("name", NAMES)
def test_every_stream_of_an_earlier_release_folds(empty_database_url: str, name: str) -> None:
    """Each event is one that the machine of today would allow at its place."""
    bring_back(empty_database_url, name)
    migrations.migrate(empty_database_url)
    found = json.loads(run(empty_database_url, "events", "replay-all", "--json").stdout)
    with psycopg.connect(empty_database_url) as connection:
        query = "select count(distinct (project_id, stream_id)), count(*) from events"
        [[streams, events]] = connection.execute(query).fetchall()
    assert found == {"streams": streams, "events": events, "of_later_releases": 0, "erased": 0, "findings": []}
    assert run(empty_database_url, "events", "replay-all").stdout.startswith(f"Each of {streams} streams folds")


def test_what_no_longer_folds_is_named(cluster: TestCluster) -> None:
    """A payload that no code wrote, and an event that its machine would refuse, each with its place."""
    with cluster.database("template0") as url:
        bring_back(url, NAMES[-1])
        migrations.migrate(url)
        (broken, last), (strange, second) = longest(url, "run"), longest(url, "trc")
        topics: list[Any] = []
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("alter table events disable trigger all")
            change = "update events set payload = '[1]' where stream_id = %s and revision = %s returning topic"
            topics += connection.execute(change, (broken, last)).fetchone() or ()
            first = "select topic, payload from events where stream_id = %s and revision = 1"
            topic, payload = connection.execute(first, (strange,)).fetchone() or ("", "")
            change = "update events set topic = %s, payload = %s where stream_id = %s and revision = %s"
            connection.execute(change, (topic, json.dumps(payload), strange, second))
        found = json.loads(run(url, "events", "replay-all", "--json", code=1).stdout)["findings"]
        assert {(fault["what"], fault["stream_id"], fault["revision"], fault["topic"]) for fault in found} == {
            ("unreadable", broken, last, topics[0]),
            ("not_allowed", strange, second, topic),
        }
