"""What commands say to people: dates, one clear sentence for a wrong wish, and a doctor for every mode."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service.cli import main
from service.embedded.attach import sole_supervisor
from service.embedded.layout import Layout
from service.testing.installation import NODE_MAJOR
from tests.service.cli.test_doctor import SECRETS
from tests.support.cluster import TestCluster
from tests.support.rounds import wait_until
from tests.support.server import ServerHandle

DATE = r"2\d{3}-\d\d-\d\d \d\d:\d\d:\d\dZ"


def run(*words: str, **env: str) -> Result:
    """A command in this process, with no other setting of the service than these."""
    unset = dict.fromkeys(name for name in os.environ if name.startswith("SERVICE_"))
    return CliRunner().invoke(main, words, env={**unset, **env})


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doctor's table with each finding on a line; how narrow it is otherwise, test_doctor looks at."""
    monkeypatch.setattr("service.cli.doctor.WIDTH", 1000)


@pytest.fixture(scope="module")
def filled(cluster: TestCluster):
    """A database with one person and a key."""
    with cluster.database() as url:
        assert run("keys", "create", "--email", "one@example.com", SERVICE_DATABASE_URL=url).exit_code == 0
        yield url


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("events", "tail", "--count", "-1"), 2, "-1 is not in the range"),
        (("events", "tail", "--count", str(10**30)), 2, "is not in the range"),
        (("events", "tail", "--project", "proj_unknown"), 1, "There is no such project: proj_unknown."),
        (("events", "export", "--after", "-5"), 2, "-5 is not in the range"),
        (("events", "export", "--after", "99"), 1, "The log ends at position 2."),
        (("events", "export", "--project", "proj_unknown"), 1, "There is no such project: proj_unknown."),
        (("events", "show", "key_unknown"), 1, "There is no such stream."),
        (("events", "replay", "key_unknown"), 1, "There is no such stream."),
        (("events", "replay", "key_unknown", "--revision", "0"), 2, "0 is not in the range"),
        (("members", "list", "proj_unknown"), 1, "There is no such project."),
        (("members", "add", "proj_unknown", "one@example.com"), 1, "There is no such"),
        (("members", "remove", "proj_unknown", "one@example.com"), 1, "There is no such"),
        (("keys", "list", "--person", "nobody"), 1, "There is no such person."),
        (("projections", "rebuild", "nothing"), 2, "no read model is called nothing"),
        (("projections", "verify", "nothing"), 2, "no read model or counter is called nothing"),
    ],
)
def test_a_wrong_wish_is_one_sentence(filled: str, words: tuple[str, ...], code: int, sentence: str) -> None:
    done = run(*words, SERVICE_DATABASE_URL=filled)
    assert (done.exit_code, sentence in done.output) == (code, True), done.output
    assert isinstance(done.exception, SystemExit)


def test_a_replay_ends_where_the_stream_does(filled: str) -> None:
    tail = run("events", "tail", "--count", "1", SERVICE_DATABASE_URL=filled).stdout
    [stream] = re.findall(r"key_[0-9a-z]{26}", tail)[:1]
    done = run("events", "replay", stream, "--revision", "7", SERVICE_DATABASE_URL=filled)
    assert "The stream ends at revision 1." in done.output


def test_times_are_dates_for_people_and_numbers_for_programs(filled: str) -> None:
    shown = run("keys", "list", SERVICE_DATABASE_URL=filled).stdout
    assert re.search(rf" live +{DATE}", shown), shown
    assert re.search(r'"created_at":\d{10}', run("keys", "list", "--json", SERVICE_DATABASE_URL=filled).stdout)


def findings(done: Result) -> dict[str, tuple[str, str]]:
    """What the doctor's table says: result and detail by check."""
    rows = [re.split(r"  +", line.strip(), maxsplit=2) for line in done.stdout.splitlines()[1:]]
    return {row[0]: (row[1], row[2]) for row in rows if len(row) == 3}


def test_the_doctor_before_the_first_start(tmp_path: Path) -> None:
    """It shows all it can, says that there is no database yet, and makes nothing."""
    done = run("doctor", SERVICE_DATA_DIR=str(tmp_path / "data"))
    assert done.exit_code == 1
    found = findings(done)
    assert found["data directory"] == ("ok", f"{tmp_path / 'data'}, empty before the first start")
    assert found["service"] == ("ok", "does not run")
    assert found["disk"][0] == "ok"
    assert found["database"][0] == "wrong"
    assert "`service serve` makes a new one" in found["database"][1]
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_while_it_is_stopped_and_while_it_runs(tmp_path: Path) -> None:
    """It starts the embedded database for its look, or finds the one that runs; either way it names the directory."""
    data = tmp_path / "data"
    assert run("db", "migrate", SERVICE_DATA_DIR=str(data)).exit_code == 0
    done = run("doctor", SERVICE_DATA_DIR=str(data))
    assert done.exit_code == 0, done.output
    assert findings(done)["service"] == ("ok", "does not run")
    assert findings(done)["database"] == ("ok", f"PostgreSQL in {data}")
    with sole_supervisor(Layout(data), "http://127.0.0.1:1"):
        found = findings(run("doctor", SERVICE_DATA_DIR=str(data)))
    assert found["service"] == ("ok", f"runs as process {os.getpid()} at http://127.0.0.1:1")
    assert found["data directory"] == ("ok", str(data))


def test_the_doctor_of_another_database(filled: str) -> None:
    done = run("doctor", SERVICE_DATABASE_URL=filled, **SECRETS)
    assert done.exit_code == 0, done.output
    assert findings(done)["data directory"][1].startswith("none: ")
    assert re.fullmatch(r"test_\w+ at .*", findings(done)["database"][1])


def test_the_doctor_of_settings_that_cannot_be_read() -> None:
    done = run("doctor", SERVICE_PORT="many")
    assert done.exit_code == 1
    assert "SERVICE_PORT" in findings(done)["settings"][1] or "SERVICE_PORT" in done.stdout


def test_the_doctor_asks_for_the_demos_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the demo would refuse is a warning here, in its words."""
    old = tmp_path / "node"
    old.write_text("#!/bin/sh\necho v18.0.0\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")
    found = findings(run("doctor", SERVICE_DATA_DIR=str(tmp_path / "data")))
    assert found["node"][0] == found["git"][0] == "warning"
    assert found["node"][1].startswith(f"Node.js {NODE_MAJOR} or later is needed")
    assert "v18.0.0" in found["node"][1]
    assert "install git" in found["git"][1]


@pytest.mark.parametrize("words", [("serve",), ("db", "migrate"), ("events", "tail"), ("doctor",)])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("file", "is a file."),
        ("file/below", "is a file."),
        ("cluster", "is the directory of PostgreSQL itself. The data directory is the one above it."),
        ("/proc/nothing", "cannot be made|There is no database in /proc/nothing|may not write"),
    ],
)
def test_a_wrong_data_directory_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], place: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "PG_VERSION").touch()
    done = run(*words, SERVICE_DATA_DIR=str(tmp_path / place))
    assert done.exit_code == 1
    assert re.search(reason, done.output), done.output
    assert isinstance(done.exception, SystemExit)
    if words != ("doctor",):
        said = [line for line in done.output.splitlines() if not line.startswith("Database: ")]
        assert len(said) <= 2, said


def test_the_banner_is_one_block(server: ServerHandle) -> None:
    """Below what was logged while it started, whole, with nothing of the log in it."""
    wait_until(lambda: "Ctrl-C stops everything." in server.log())
    log = server.log()
    block = re.search(r"\nService ready after .*?\nCtrl-C stops everything\.\n\n", log, re.DOTALL)
    assert block is not None, log
    assert '"event"' not in block[0]
    assert '"event": "serving"' in log[: block.start()]
    assert f"Console    {server.base_url}/console\n" in block[0]
    assert f"Docs       {server.base_url}/docs\n" in block[0]
    assert " -m service console open --email you@example.com\n" in block[0]  # as the tests start it
    wait_until(lambda: '"event": "working"' in server.log().replace(block[0], ""))
