"""`service import sentry-events` on a real service: counted, resumed after a loss, and each event stored once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner

from scripts.foreign.samples import events as samples
from service.cli import main
from service.cli.shared import exported
from service.cli.shared.exported import MAX_LINE, BadExport, ImportPlace, batches, event_of, judge, states_in
from tests.service.cli.relay import relaying
from tests.support.automation_world import World, open_world
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

DAY = 86400
ERROR = {"type": "CartError", "value": "Gone", "stacktrace": {"frames": [{"filename": "cart.py", "function": "pay"}]}}


def event(**members: Any) -> dict[str, Any]:
    """An event as an SDK sent it, an hour old by the clock of the machine."""
    return {"event_id": uuid4().hex, "timestamp": time.time() - 3600, "exception": {"values": [ERROR]}, **members}


@pytest.fixture
def now(server: ServerHandle) -> int:
    """The time by the clock of the service, which other tests move."""
    with psycopg.connect(server.database_url) as connection:
        [found] = connection.execute("select service_seconds()").fetchone() or [0]
    return int(found)


@pytest.fixture(scope="module")
def world(server: ServerHandle) -> Any:
    with open_world(server) as made:
        yield made


def run(world: World, file: Path, *options: str, url: str, who: str = "owner", code: int = 0) -> str:
    """Run the command; returns what it said on both channels."""
    words = ["import", "sentry-events", str(file), "--project", world.project_id, "--url", url, *options]
    done = CliRunner().invoke(main, words, env={"SERVICE_API_KEY": world.secrets[who], "SERVICE_URL": None})
    assert done.exit_code == code, (done.exit_code, done.output, done.exception)
    assert world.secrets[who] not in done.output
    return done.output


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def counted(said: str) -> dict[str, int]:
    """The counts of `--json`, without zeros."""
    told = json.loads(said.strip().splitlines()[-1])
    return {name: number for name, number in told.items() if number and name != "dry_run"}


def test_a_file_is_judged_then_imported_then_there_already(
    world: World, server: ServerHandle, tmp_path: Path, now: int
) -> None:
    issue = {"id": "77", "status": "resolved", "title": "CartError"}
    old = event(timestamp=1_000_000_000)
    file = write(
        tmp_path / "export.jsonl",
        event(groupID="77", timestamp=now),
        old,
        issue,
        "no json",
        {"id": 5, "hello": 1},
        "",
        event(timestamp=now),
    )
    expected = {"imported": 2, "too_old": 1, "issues": 1, "malformed": 1, "skipped": 2}
    assert counted(run(world, file, "--dry-run", "--json", url=server.base_url)) == expected
    assert counted(run(world, file, "--json", url=server.base_url)) == expected
    again = run(world, file, url=server.base_url)
    assert "2  there already" in again
    assert "0  imported" in again
    assert not file.with_name("export.jsonl.progress").exists()
    cases = world.call("GET", f"/v1/projects/{world.project_id}/cases?status=resolved&trust=imported").json()["cases"]
    assert [(one["event_count"], one["status"]) for one in cases] == [(2, "resolved")]


def test_an_import_goes_on_after_a_lost_answer(
    world: World, server: ServerHandle, tmp_path: Path, now: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lost batch comes again and is known. What came before it is not sent again."""
    monkeypatch.setattr(exported, "MOST_EVENTS", 2)
    file = write(tmp_path / "long.jsonl", *(event(release=f"r{number}", timestamp=now) for number in range(7)))
    asked: list[str] = []

    def lose(_: str, path: str) -> bool:
        asked.append(path)
        return len(asked) == 2

    with relaying(server.base_url, lose) as url:
        said = run(world, file, url=url, code=1)
        assert "Run the command again" in said
        assert file.with_name("long.jsonl.progress").exists()
        told = run(world, file, "--json", url=url)
    assert "Going on at byte" in told
    assert counted(told) == {"imported": 5, "already_there": 2}
    assert len(asked) == 2 + 3


def test_who_may_not_import_is_refused(world: World, server: ServerHandle, tmp_path: Path) -> None:
    file = write(tmp_path / "one.jsonl", event())
    for who, told in (("member", "owner_required"), ("stranger", "project_not_found")):
        assert told in run(world, file, url=server.base_url, who=who, code=1)
    assert "in the clear" in run(world, file, url="http://example.com", code=2)


def test_each_form_of_an_event_is_read() -> None:
    """Of the API of Sentry and GlitchTip, of Bugsink's, and as SDKs sent it."""
    id_ = uuid4().hex
    shown = {
        "eventID": id_,
        "groupID": "9",
        "dateCreated": "2026-11-20T10:00:00Z",
        "tags": [{"key": "level", "value": "fatal"}, {"key": "environment", "value": "staging"}],
        "release": {"version": "shop@1"},
        "entries": [
            {
                "type": "exception",
                "data": {
                    "values": [
                        {
                            "type": "E",
                            "value": "x",
                            "stacktrace": {
                                "frames": [{"filename": "a.py", "lineNo": 2, "inApp": True,
                                            "context": [[1, "one"], [2, "two"]]}]
                            },
                        }
                    ]
                },
            },
            {"type": "threads", "data": None},
        ],
    }  # fmt: skip
    read = event_of(shown)
    assert read is not None
    assert (read["event_id"], read["level"], read["environment"]) == (id_, "fatal", "staging")
    assert read["release"] == "shop@1"
    [frame] = read["exception"]["values"][0]["stacktrace"]["frames"]
    assert frame == {"filename": "a.py", "lineno": 2, "in_app": True, "context_line": "two"}
    assert judge(json.dumps(shown).encode(), {"9": "ignored"}).state == "ignored"
    bugsink = {
        "id": "u",
        "event_id": id_,
        "issue": "i",
        "timestamp": "2026-11-20T10:00:00Z",
        "data": {"level": "error"},
    }
    assert event_of(bugsink) == {"timestamp": "2026-11-20T10:00:00Z", "level": "error", "event_id": id_}
    assert judge(json.dumps(bugsink).encode(), {"i": "resolved"}).state == "resolved"
    for name, payload in samples().items():
        text = json.dumps({**payload, "event_id": id_}).encode()
        assert judge(text, {}).kind == "event", name


@pytest.mark.parametrize(
    ("issue", "state"),
    [
        ({"status": "resolved"}, "resolved"),
        ({"status": "ignored"}, "ignored"),
        ({"status": "unresolved"}, "unresolved"),
        ({"status": "reprocessing"}, "unresolved"),
        ({"is_resolved": True, "is_muted": False}, "resolved"),
        ({"is_resolved": False, "is_muted": True}, "ignored"),
        ({"is_resolved": False}, "unresolved"),
    ],
)
def test_states_of_issues(tmp_path: Path, issue: dict[str, Any], state: str) -> None:
    assert states_in(write(tmp_path / "issues.jsonl", {"id": 3, **issue})) == {"3": state}


def test_a_file_is_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long line is malformed, and the next one is read. Batches are bounded, and so are the states."""
    path = tmp_path / "long.jsonl"
    path.write_text("x" * (3 * MAX_LINE) + "\n" + json.dumps(event()) + "\n" + json.dumps(event()))
    found = list(batches(path, 0, {}))
    assert [line.kind for batch in found for line in batch.lines] == ["malformed", "event", "event"]
    assert found[-1].end == path.stat().st_size
    monkeypatch.setattr(exported, "MOST_ISSUES", 1)
    with pytest.raises(BadExport):
        states_in(write(path, {"id": 1, "status": "resolved"}, {"id": 2, "status": "resolved"}))


def test_progress_of_another_file_or_project_counts_for_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "one.jsonl", event())
    place = ImportPlace.of(file, "proj_a", "http://x")
    place.move(5, place.counts, keep=True)
    for project_id, url, offset in (("proj_a", "http://x", 5), ("proj_b", "http://x", 0), ("proj_a", "http://y", 0)):
        other = ImportPlace.of(file, project_id, url)
        other.resume()
        assert other.offset == offset
    place.kept_in.write_text('{"key": "')
    place.offset = 0
    place.resume()
    assert place.offset == 0
