"""`service conformance` as people type it: exit codes, the list, JSON, and a command that cannot be started."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from service.cli import main
from service.conformance import kit
from service.conformance.kit import OwnService
from service.conformance.scenarios import SCENARIOS
from service.conformance.world import ServiceUnderPlay
from tests.support.runners import BROKEN, command_of, reference
from tests.support.server import ServerHandle, clean_environment

pytestmark = pytest.mark.shares_server


@pytest.fixture
def borrowed(shared_server: ServerHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the command use the server of the tests in place of one of its own."""

    @contextmanager
    def borrow() -> Iterator[OwnService]:
        yield OwnService(
            ServiceUnderPlay(shared_server.base_url, shared_server.internal_token, shared_server.test_token), tmp_path
        )

    monkeypatch.setattr(kit, "own_service", borrow)
    return tmp_path


def run(*words: str) -> Result:
    """Type the command."""
    return CliRunner().invoke(main, ["conformance", *words])


def test_the_list_says_what_is_played_and_what_is_right() -> None:
    done = run("--list")
    assert done.exit_code == 0
    for scenario in SCENARIOS:
        assert scenario.plays in done.output
        assert scenario.right in done.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Name the command of the runner"),
        (["--runner", "true", "--only", "nothing"], "There is no scenario nothing"),
        (["--runner", "true", "--timeout", "1"], "--timeout"),
    ],
)
def test_wrong_words_are_no_verdict(words: list[str], says: str) -> None:
    done = run(*words)
    assert done.exit_code == 2
    assert says in done.output


def test_a_right_runner_gets_0(borrowed: Path) -> None:
    done = run("--runner", command_of(reference(), borrowed), "--only", "happy", "--timeout", "120")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("PASS  happy")
    assert "passed all 1 scenarios" in done.output


def test_a_broken_runner_gets_1_and_its_rule_in_json(borrowed: Path) -> None:
    [broken] = [one for one in BROKEN if one.does == "charges nothing"]
    command = command_of(broken.program(), borrowed)
    done = run("--runner", command, "--only", "happy", "--timeout", "120", "--json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.output)
    assert told["passed"] is False
    [happy] = told["scenarios"]
    assert happy["breaches"][0]["rule"] == "R-AUT-31"
    assert "/actions/draft-pr/authorize" in happy["breaches"][0]["request"]


def test_a_runner_that_asks_nothing_is_no_runner(borrowed: Path) -> None:
    done = run("--runner", "true", "--only", "happy", "--timeout", "5")
    assert done.exit_code == 1
    assert "asked the service nothing" in done.output


def test_a_command_that_cannot_be_started_is_no_verdict(tmp_path: Path) -> None:
    """With a service of the kit's own, which ends with it."""
    done = subprocess.run(
        [sys.executable, "-m", "service", "conformance", "--runner", "no-such-runner", "--only", "happy"],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "could not be started" in done.stderr
