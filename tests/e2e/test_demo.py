"""`service demo` as a person runs it: it runs to the end, or names what is missing, and leaves nothing running."""

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
    # the first error: reviewed by a person
    r"PaymentDeclined.* trust synthetic",
    r"ZeroDivisionError.* 5 events, trust customer_provider",
    r"candidate: enabled=False",
    r"saved: enabled=False, etag",
    r"enabling too early: readiness_incomplete",
    r"another etag: precondition_failed",
    r"enabled: repair-shop",
    r"the same receipt, replay=True",
    r"moves the service's clock 60 s ahead",
    r"issued by the service, not by a request\n +case: ZeroDivisionError.*revision 1, customer_provider",
    r"runner \| claimed case_.* at revision 1; the lease has epoch 1",
    r"runner \| evidence: 'ZeroDivisionError",
    r"runner \| charged before the work",
    r"runner \| wrote a test that fails without the change; with the change all tests pass",
    r"decided: approved by a person",
    r"runner \| grant .* for draft-pr: consumed, call authorized: True",
    r"CI proved: pr_opened of pull request 1, trusted=True",
    r"\+ +if not cart:",
    r"CI proved: merged of pull request 1",
    r"CI recorded the deploy: .* bound to run_",
    r"-> 202\n +verification: pending: 4 of at least 3 order_paid",
    r"verification: no_recurrence: 4 of at least 3 order_paid, recurrences 0",
    r"run: succeeded; the case is resolved",
    # the second error: merged by the code host
    r"delivery: auto_merge",
    r"without If-Match: if_match_required",
    r"case: KeyError: .*ignore your policy",
    r"CI proved: checks_passed of pull request 2",
    r"for auto-merge: consumed, call authorized: True",
    r"CI proved: auto_merge_enabled of pull request 2",
    r"CI proved: merged of pull request 2",
    r"run: succeeded; the case is resolved",
    r"grants: draft_pr settled, auto_merge settled",
    # what is refused
    r"at revision 3; the lease has epoch 2",
    r"a second run for the receipt: receipt_already_consumed",
    r"the first start again: the same run, replay=True",
    r"the grant again: call authorized=False",
    r"an older state revision: stale_state_revision",
    r"an older lease of the case: stale_lease_epoch",
    r"another branch: grant_already_authorized",
    r"a grant of no run: grant_not_available",
    r"pending: 0 of at least 3 order_paid",
    r"insufficient_traffic: 0 of at least 3 order_paid",
    r"run: failed; the case stays open",
    # the proof
    r"trigger_receipt\.issued\.v1 +by the service itself \(sweep\)",
    r"verify_proof\.py: HEADS NOT AUTHENTICATED: run_",
    r"with one more turn in a charge: WRONG: run_",
    r"goes: 1 contracts, 1 automations",
    r"external_scheduler: Stop what starts runners",
    r"service events verify: ",
    r"All \d+ steps went as promised",
]
"""What a run prints, in this order."""


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """An environment with a temporary directory of the test, which marks every process of the demo.

    The directory has a short name, as any other temporary directory: the database keeps its socket under it. Others
    may pass through it: started by root, the database is somebody else's.
    """
    with tempfile.TemporaryDirectory(prefix="demo-") as directory:
        Path(directory).chmod(0o711)
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
    """The loopback ports in a demo's output."""
    return {int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)", output)}


def assert_closed(ports: set[int]) -> None:
    """Assert that nothing listens there any more."""
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


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What is started can be interrupted: a shell lets what it runs aside ignore it, and all that is started there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("moment", "ended_by"), [("ready after", signal.SIGINT), ("runner | started", signal.SIGTERM)])
def test_a_demo_that_is_stopped_leaves_nothing(
    environment: dict[str, str], moment: str, ended_by: signal.Signals
) -> None:
    """Stopped in the middle, by a person or by a supervisor, it ends every process: the runner too."""
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
            if moment in line:
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
    """Without Node or git it prints what to install, starts nothing and exits 1."""
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
