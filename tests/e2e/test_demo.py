"""`service demo` as a person runs it: it runs to the end, or names what is missing, and leaves nothing running."""

import itertools
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

import psutil
import pytest

from tests.support import seen

LIMIT_SECONDS = 240  # it takes less than 60 on an idle machine; this one is never idle
MARK = "DEMO_TEST_DIRECTORY"

STORY = [
    r"Start the service on an embedded PostgreSQL of its own\n +ready after",
    r"key: service_sk_",
    r"case: ZeroDivisionError: .*3 events, 3 users, open",
    r"receiver: http://127\.0\.0\.1:\d+/, a process of the shop; secret whsec_\S{6}…",
    r'"delivered":true',
    r"forged: the receiver answered 401: forged",
    r"another hash: plan_hash_mismatch",
    r"another etag: precondition_failed",
    r"CI recorded the deploy: trusted=True, proof matched=True",
    r"status: verified, installation_complete=True",
    r"proved event: order_paid with total_cents, lines",
    r"evidence: .*source_verified",
    r"onboarding\.approved: whd_",
    r"deploy\.recorded: whd_",
    r"onboarding\.verified: whd_",
    r"/replay -> 200",
    r'"queued":3',
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
    r"runner \| run_\w+ repairs case_\w+ on [0-9a-f]{12}",
    r"runner \| evidence: 'ZeroDivisionError",
    r"runner \| wrote a test that fails without the change; with the change all tests pass",
    r"runner \| run_\w+ committed [0-9a-f]{12}: 2 files, \d+ lines",
    r"decided: approved by a person",
    r"runner \| run_\w+ opened https://code\.example\.invalid/acme/shop/pull/1",
    r"CI proved: pr_opened of pull request 1, trusted=True",
    r"\+ +if not cart:",
    r"CI proved: merged of pull request 1",
    r"CI recorded the deploy: .* bound to run_",
    r"-> 202\n( +[<>] .*\n)* +verification: pending: 4 of at least 3 order_paid",
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
    # the review
    r"next step: .* Read the report source, then record the report",
    r"order_paid +\d+ people the day before, +2 now",
    r"one sale too many: report_values_differ: 3",
    r"recorded: rep_\w+: private, untrusted; the run succeeded",
    # questions, an alert, a public number
    r"query-blueprints/ordered-funnel/run -> 200",
    r"evidence: local, complete=True",
    r"alert: alert_\w+, created",
    r"alert\.triggered: 2 orders, delivery whd_",
    r"alert\.cleared: 5 orders, delivery whd_",
    r"GET /v1/public/q/pub_\w+ -> 200",
    r"GET /v1/public/q/pub_\w+ -> 404",
    # another bound, and a stop
    r"at most: \d+ runs, \d+ pull requests, [\d.]+ USD",
    r"No receipt was claimed",
    r"fence: ctr_\w+, revision \d+",
    r"looking for work: automation_paused",
    r"goes: 1 contracts, 1 automations",
    r"project\.fenced: delivery whd_",
    r"external_scheduler: Stop the schedulers that start runners",
    r"service events verify: ",
    r"All \d+ steps went as promised",
]
"""What a transcript holds, in this order."""

BODIES = [
    r'POST /v1/projects -> 201\n +> \{"name":".*\n +< \{"id":"proj_\w+".*"dsn":"http://service_dsn_…@',
    r"POST \S+/onboarding\S* -> 20\d\n +> \{.*\n +< \{",
    r'"code":"stale_lease_epoch"',
]
"""What a transcript holds of the bodies, in this order."""
BRIEF = [
    r"^1\. A product, and what goes wrong in it",
    r"is ready after [\d.]+ s at http://127",
    r"one case: ZeroDivisionError",
    r"\n2\. A receiver of webhooks verifies",
    r"a signed test reaches it \(200\)",
    r"refused by its signature \(401, forged\)",
    r"\n3\. Its signals",
    r"account_opened, item_added, order_paid; the error checkout\.payment_declined",
    r"\n4\. What the receiver was told",
    r"verified onboarding\.approved, deploy\.recorded, onboarding\.verified",
    r"the log replays 3, each with the id that it had",
    r"\n5\. An error is repaired",
    r"\+ +if not cart:",
    r"4 paid orders \(at least 3\), 0 recurrences\. The case is resolved",
    r"absent ──▶ started +started: the runner",
    r"in_review ──▶ running +review_ended: a person  ↺ resumed \(the runner\), draft_pr_authorized",
    r"──▶ pr_opened +pr_reported: the runner  ↺ pr_proven \(CI\), merge_proven \(CI\)",
    r"verifying ──▶ succeeded +verified: (?:a person|the service itself)",
    r"\n6\. Another one",
    r"ignore your policy",
    r"\n7\. What is refused",
    r"Refused: .*an older lease of the case \(stale_lease_epoch\)",
    r"the run has failed, the case stays open",
    r"\n8\. What is left as proof",
    r"WRONG: run_",
    r"\n9\. The next days",
    r"A report with one sale too many is refused: 3 where the source says 2\.",
    r"\n10\. A funnel, answered with evidence",
    r"order_paid +13 people, 43%",
    r"receipt [0-9a-f]{12}…, which the reader computes alike",
    r"\n11\. An alert fires, and clears",
    r"With 2 orders a day the alert fires; its receiver hears alert\.triggered",
    r"with 5 orders it is clear, and alert\.cleared follows, once",
    r"\n12\. A number for everybody",
    r"A stranger without a key reads 'Orders of the week': 17",
    r"answers publication_not_found",
    r"\n13\. A look back, and a stop",
    r"with 2 errors instead of 5, \d+ receipts, at most \d+ runs and [\d.]+ USD",
    r"is the fence\. After it: automation_paused\.",
    r"\n14\. The end",
    r"Nothing is wrong with \d+ events",
    r"All \d+ steps went as promised in \d+ s; .*service demo --verbose.*\n +1\. ",
    r"\n +14\. [^\n]*\n$",
]
"""What a person sees, in this order."""
MOST_LINES = 90
WIDEST = 120
MOST_OF_A_CHAPTER = 24


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


def demo(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run the demo to its end."""
    return subprocess.run(
        [sys.executable, "-m", "service", "demo", *options],
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


@pytest.mark.release
@pytest.mark.slow
def test_the_demo_tells_its_story_and_leaves_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    """It carries the product through the whole job, exits 0, and every process and port of it is gone."""
    transcript = tmp_path / "transcript"
    done = demo(environment, "--transcript", str(transcript))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    written = transcript.read_text()
    assert_in_order(STORY, written)
    assert_in_order(BODIES, written)
    secret = re.search(r"service_[a-z]+_[0-9A-Za-z]{30}|whsec_[0-9A-Za-z+/=]{30}|agp_[0-9A-Za-z_-]{20}", written)
    assert secret is None, "secrets are in no transcript"
    assert_in_order(BRIEF, done.stdout)
    told = done.stdout.splitlines()
    assert len(told) <= MOST_LINES
    assert max(map(len, told)) <= WIDEST
    assert not re.search(r" -> \d{3}", done.stdout), "requests are for the transcript"
    assert len(told) - next(number for number, line in enumerate(told) if "steps went as promised" in line) <= 15
    begins = [number for number, line in enumerate(told) if re.match(r"\d+\. ", line)]
    assert all(after - before <= MOST_OF_A_CHAPTER for before, after in itertools.pairwise(begins))
    ports = ports_of(done.stdout)
    assert len(ports) == 3
    assert_closed(ports)


def assert_in_order(lines: list[str], text: str) -> None:
    """Assert that the text has these, one after the other."""
    at = 0
    for line in lines:
        found = re.compile(line).search(text, at)
        assert found, f"{line!r} is missing, or out of order, in:\n{text}"
        at = found.end()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What is started can be interrupted: a shell lets what it runs aside ignore it, and all that is started there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("moment", "ended_by", "stopped"),
    [
        ("one case", signal.SIGINT, "the shop, the service with its database"),
        ("runner | started", signal.SIGTERM, "the shop, the receiver, the runner, the service with its database"),
    ],
)
def test_a_demo_that_is_stopped_says_what_it_cleaned_up(
    environment: dict[str, str], moment: str, ended_by: signal.Signals, stopped: str
) -> None:
    """Stopped in the middle, by a person or by a supervisor, it ends every process: the runner too."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "service", "demo", *(["--verbose"] if "|" in moment else [])],
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
    assert process.returncode == 128 + ended_by, said
    ended = re.search(r"The demo was interrupted\. Stopped: (.*)\. Removed: (\S+)\. Nothing is left\.", said)
    assert ended, said
    assert set(ended[1].split(", ")) == set(stopped.split(", "))
    assert not Path(ended[2]).exists()
    assert "Traceback" not in said, said
    assert_closed(ports_of(said))


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_a_demo_that_is_kept_runs_on_until_somebody_ends_it(environment: dict[str, str]) -> None:
    """The project stays, with a link that signs its owner in, another on demand, and the way to end it all."""
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "service", "demo", "--keep"],
        env=environment,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = "".join(until(process.stdout, "To end it"))
        link = re.search(r"^  (http://127\.0\.0\.1:\d+)/console/enter\?token=(\S+)&next=(\S+)$", said, re.MULTILINE)
        assert link, said + process.communicate()[0]
        assert f"or run: kill {process.pid}\n" in said
        with seen.client(link[1]) as person:
            form = {"token": link[2], "next": unquote(link[3])}
            entered = person.post("/console/enter", data=form, headers={"origin": link[1]})
            assert entered.status_code == 303, entered.text
            page = person.get(entered.headers["location"])
            assert page.status_code == 200
            assert "Shop" in page.text
        os.write(keyboard, b"\n")
        new = re.search(r"/console/enter\?token=(\S+)&", "".join(until(process.stdout, "To end it")))
        assert new, "Enter brings another link"
        assert new[1] != link[2]
        another = re.search(r"or run: (\S+) service (console open --email \S+)", said)
        assert another, said
        command = [sys.executable, "-m", "service", *another[2].split()]
        name, _, value = another[1].partition("=")
        opened = subprocess.run(command, env={**environment, name: value}, capture_output=True, text=True, check=True)
        assert f"{link[1]}/console/enter?token=" in opened.stdout
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=LIMIT_SECONDS)[0]
    assert process.returncode == 0, said
    ended = re.search(r"The demo has ended\. Stopped: (.*)\. Removed: (\S+)\. Nothing is left\.", said)
    assert ended, said
    assert set(ended[1].split(", ")) == {"the shop", "the receiver", "the service with its database"}
    assert_closed(ports_of(said))
    os.close(keyboard)
    os.close(terminal)


def until(lines: Iterable[str], words: str) -> Iterator[str]:
    """The lines up to the first that has these words."""
    for line in lines:
        yield line
        if words in line:
            return


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
