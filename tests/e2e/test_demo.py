"""`service demo` as a person runs it: it tells its story to the end, or says what is missing, and leaves nothing."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

LIMIT_SECONDS = 240  # it takes less than 60 on an idle machine; this one is never idle
MARK = "DEMO_TEST_DIRECTORY"

STORY = [
    r"Start the service on an embedded PostgreSQL of its own\n +ready after",
    r"key: service_sk_",
    r"case: ZeroDivisionError: .*3 events, 3 users, open",
    r"another hash: plan_hash_mismatch",
    r"another etag: precondition_failed",
    r"CI recorded the deploy: trusted=True, proof matched=True",
    r"status: verified, installation_complete=True",
    r"proved event: order_paid with total_cents, lines",
    r"evidence: .*source_verified",
    r"All \d+ steps went as promised",
]
"""What a run prints, in this order."""


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """An environment whose temporary files are ours, and which marks every process of the demo.

    The directory has a short name, as any other temporary directory: the database keeps its socket under it.
    """
    with tempfile.TemporaryDirectory(prefix="demo-") as directory:
        yield {**os.environ, "TMPDIR": directory, MARK: directory, "COLUMNS": "200"}


@pytest.fixture(autouse=True)
def _nothing_is_left(environment: dict[str, str]) -> Iterator[None]:
    """After each demo no process of it runs, and no file of it remains."""
    yield
    assert list(processes_of(environment[MARK])) == []
    assert list(Path(environment[MARK]).iterdir()) == []


def processes_of(directory: str) -> Iterator[str]:
    """The command lines of processes that were started for a demo in this directory."""
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(MARK) == directory
            line = " ".join(process.cmdline())
            if (marked or directory in line or process.cwd().startswith(directory)) and process.pid != os.getpid():
                yield line or process.name()
        except psutil.Error:
            continue


def demo(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end."""
    return subprocess.run(
        [sys.executable, "-m", "service", "demo"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def ports_of(output: str) -> set[int]:
    """The loopback ports that a demo spoke of."""
    return {int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)", output)}


def assert_closed(ports: set[int]) -> None:
    """Nobody listens there any more."""
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, f"port {port} is still open"


@pytest.mark.slow
def test_the_demo_tells_its_story_and_leaves_nothing(environment: dict[str, str]) -> None:
    """It carries the product through the whole job, exits 0, and every process and port of it is gone."""
    done = demo(environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    at = 0
    for line in STORY:
        found = re.compile(line).search(done.stdout, at)
        assert found, f"{line!r} is missing, or out of order, in:\n{done.stdout}"
        at = found.end()
    ports = ports_of(done.stdout)
    assert ports
    assert_closed(ports)


@pytest.mark.slow
@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGINT])
def test_a_demo_that_is_stopped_leaves_nothing(environment: dict[str, str], ended_by: signal.Signals) -> None:
    """Stopped in the middle, by a person or by a supervisor, it takes everything with it."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "service", "demo"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "ready after" in line:
                break
        process.send_signal(ended_by)
        said += process.communicate(timeout=LIMIT_SECONDS)[0]
    assert process.returncode != 0, said
    assert "Traceback" not in said, said
    assert_closed(ports_of(said))


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        (["git"], "Node.js 20 or later is needed for the source snapshot: install it"),
        (["node"], "install git, then run it again"),
    ],
)
def test_a_missing_program_is_named(
    environment: dict[str, str], tmp_path: Path, present: list[str], sentence: str
) -> None:
    """Without Node or git it says at once what to install, starts nothing and exits 1."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in present:
        path = shutil.which(name)
        assert path is not None, f"the tests of the demo need {name}"
        (programs / name).symlink_to(path)
    began = time.monotonic()
    done = demo({**environment, "PATH": str(programs)})
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert time.monotonic() - began < LIMIT_SECONDS / 4
