"""The row of another tracker: Bugsink is given the same envelopes of Sentry's SDK as the service.

There are ISSUES different errors, and they come again: an issue is a type, a place and a message, of which each event
has numbers of its own, as it has in its breadcrumbs, its request and its local variables. What is sent is laid out
before anything is timed, and only ids and numbers change then.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scripts.bench.figures import Figures, console
from scripts.load import loadgen, worlds
from scripts.load.loadgen import Client

# Envelopes as Sentry's SDK for Python sends them of an exception in a web product: of 15 kB, and no two the same.

ISSUES = 20
FRAMES = 14  # of a stack, give or take two
NUMBER = "0123456789"  # stands where each event has a number of its own
EVENT_ID = "e0e1" * 8  # stands where each has its id
_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC835  # odd, so that ids look drawn and none comes twice
_WORDS = ("orders", "billing", "accounts", "search", "reports", "webhooks", "sessions", "exports")


def event(issue: int, timestamp: str) -> dict[str, Any]:
    """One event of an issue."""
    word = _WORDS[issue % len(_WORDS)]
    return {
        "event_id": EVENT_ID,
        "timestamp": timestamp,
        "platform": "python",
        "level": "error",
        "logger": "django.request",
        "transaction": f"/{word}/{{id}}/pay",
        "release": "shop@2026.11.2",
        "environment": "production",
        "server_name": f"web-{issue % 7}",
        "exception": {
            "values": [
                {
                    "type": f"PaymentDeclined{issue}",
                    "module": f"shop.{word}.errors",
                    "value": f"card declined for order {NUMBER} of {word}",
                    "mechanism": {"type": "django", "handled": False},
                    "stacktrace": {"frames": [_frame(issue, depth) for depth in range(FRAMES - 2 + issue % 5)]},
                }
            ]
        },
        "breadcrumbs": {"values": [_breadcrumb(issue, n, timestamp) for n in range(16 - issue % 5)]},
        "request": {
            "method": "POST",
            "url": f"https://shop.example/{word}/{NUMBER}/pay",
            "query_string": "attempt=2",
            "headers": {
                "Accept": "application/json",
                "Host": "shop.example",
                "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101",
            },
        },
        "user": {"id": f"user-{NUMBER}"},
        "tags": {"region": "eu-west", "service": "checkout"},
        "contexts": {
            "runtime": {"name": "CPython", "version": "3.12.4", "build": "3.12.4 (main)"},
            "trace": {"trace_id": EVENT_ID, "span_id": "b7ad6b7169203331", "op": "http.server"},
        },
        "modules": {f"package-{n}": f"{n}.{issue}.0" for n in range(20)},
        "extra": {"sys.argv": ["/srv/shop/venv/bin/gunicorn", "shop.wsgi"]},
        "sdk": {
            "name": "sentry.python.django",
            "version": "2.75.0",
            "packages": [{"name": "pypi:sentry-sdk", "version": "2.75.0"}],
            "integrations": ["django", "logging", "stdlib", "threading"],
        },
    }


def _frame(issue: int, depth: int) -> dict[str, Any]:
    """A call with the eleven lines around it and its local variables."""
    word = _WORDS[(issue + depth) % len(_WORDS)]
    ours = depth % 3 == 1
    path = f"shop/{word}/step_{(issue * depth) % 97}.py" if ours else f"django/{word}/layer_{depth}.py"
    root = "/srv/shop" if ours else "/srv/shop/venv/lib/python3.12/site-packages"
    line = 10 + (7 * issue + 13 * depth) % 900
    return {
        "filename": path,
        "abs_path": f"{root}/{path}",
        "module": path.removesuffix(".py").replace("/", "."),
        "function": f"handle_{word}_{(issue * depth) % 61}",
        "lineno": line,
        "pre_context": [f"    step_{at} = self.prepare(order, {at})" for at in range(line - 5, line)],
        "context_line": f"    result = self.{word}.charge(order, amounts[{depth}], order.currency)",
        "post_context": [f"    self.{word}.record(step_{at})" for at in range(line + 1, line + 6)],
        "in_app": ours,
        "vars": {"order": f"<Order {NUMBER}>", "amount": f"'{NUMBER} EUR'", "retries": str(depth % 4)},
    }


def _breadcrumb(issue: int, n: int, timestamp: str) -> dict[str, Any]:
    word = _WORDS[(issue + n) % len(_WORDS)]
    return {
        "type": "default",
        "category": ("httplib", "query", "django.request")[n % 3],
        "level": "info",
        "timestamp": timestamp,
        "message": f"{word}: GET /api/v1/{word}/{NUMBER} answered 200 after {n * 37 % 411} ms",
    }


def texts(timestamp: str) -> list[bytes]:
    """The envelope of each issue, with the placeholders in it; `timestamp` (RFC 3339) is when they happened."""
    return [_envelope(event(issue, timestamp), timestamp) for issue in range(ISSUES)]


def _envelope(told: dict[str, Any], timestamp: str) -> bytes:
    payload = json.dumps(told, separators=(",", ":"))
    header = {"event_id": EVENT_ID, "sent_at": timestamp}
    item = {"type": "event", "content_type": "application/json", "length": len(payload)}
    return "\n".join([json.dumps(header), json.dumps(item), payload, ""]).encode()


def sending(dsn: str, laid_out: Sequence[bytes], turn: int, number: int) -> Client:
    """Report events of all issues in turn, as an SDK that was given nothing but a DSN.

    `turn` and `number` keep apart what the clients of a run send.
    """
    address = urlsplit(dsn)
    path = f"/api{address.path}/envelope/"
    headers = {
        "content-type": "application/x-sentry-envelope",
        "user-agent": "sentry.python.django/2.75.0",
        "x-sentry-auth": f"Sentry sentry_key={address.username}, sentry_version=7, sentry_client=sentry.python/2.75.0",
    }
    count = (turn * 1_000 + number) * 100_000
    while True:
        count += 1
        body = laid_out[(number + count) % len(laid_out)].replace(NUMBER.encode(), b"%010d" % count)
        yield ("POST", path, headers, body.replace(EVENT_ID.encode(), b"%032x" % (count * _SPREAD % (1 << 128))))


# Two trackers of errors, given the same envelopes of Sentry's by the same clients: this service, and Bugsink. Each
# takes short turns. What counts is how many envelopes it accepts in a second (2xx) while they are sent, and how many
# of them are visible in a second: stored in the case (there: the issue) that they belong to, and readable, told by
# what its own reading side says, until the last of those that it accepted is. A tracker that answers first and works
# later is given the time for that; one that then loses what it accepted fails the run.

CONNECTIONS = 16
TURNS = 3  # after a short one to warm up
WARMING = 1.0  # seconds
LOOK = 0.1  # seconds between looks at what is visible
PATIENCE = 30.0  # seconds that a tracker may make no headway with what it accepted


class Tracker(NamedTuple):
    """A tracker and one project of it: where SDKs report to, and how many of its events are visible, of how many kinds.

    `kinds` are its cases or issues.
    """

    name: str
    dsn: str
    visible: Callable[[], int]
    kinds: Callable[[], int]


class Turn(NamedTuple):
    """What became of one load: events per second that were accepted, and that were visible; and every answer."""

    accepted: float
    visible: float
    statuses: Counter[int]


def of_service(service: worlds.Service) -> Tracker:
    """A running service of ours, with a project of its own."""
    project = service.create_project("trackers")
    path = f"/v1/projects/{project['id']}/cases?limit=100"

    def counts() -> list[int]:
        return [case["event_count"] for case in service.call("GET", path, None, service.owner_key)["cases"]]

    return Tracker("the service", project["sdks"]["sentry_dsn"], lambda: sum(counts()), lambda: len(counts()))


def take_turn(tracker: Tracker, number: int, seconds: float, patience: float = PATIENCE) -> Turn:
    """Send for so long, then wait until everything that was accepted is visible.

    `number` keeps apart what turns send. Exits when a tracker makes no headway for `patience` seconds.
    """
    address = urlsplit(tracker.dsn)
    laid_out = texts(datetime.now(UTC).isoformat())
    before = tracker.visible()
    began = time.perf_counter()
    stats = loadgen.run(
        str(address.hostname),
        address.port or 80,
        lambda client: sending(tracker.dsn, laid_out, number, client),
        CONNECTIONS,
        seconds,
    )
    accepted = len(stats.latencies)
    seen, last = 0, time.perf_counter()
    while (now := tracker.visible() - before) < accepted:
        if now > seen:
            seen, last = now, time.perf_counter()
        if time.perf_counter() - last > patience:
            raise SystemExit(f"{tracker.name} accepted {accepted} events, of which {now} became visible")
        time.sleep(LOOK)
    return Turn(stats.rate, accepted / (time.perf_counter() - began), stats.statuses)


def measure(trackers: Sequence[Tracker], seconds: float, say: Callable[[str], None]) -> list[Turn]:
    """Let them take turns of so many seconds; returns the medians of each, and all its answers."""
    found: dict[str, list[Turn]] = {tracker.name: [] for tracker in trackers}
    for number in range(1 + TURNS):
        for tracker in trackers:
            turn = take_turn(tracker, number, seconds if number else WARMING)
            found[tracker.name].append(turn)
            rates = f"{turn.accepted:,.0f} accepted/s, {turn.visible:,.0f} visible/s"
            say(f"{tracker.name}: {rates}, answers {dict(turn.statuses)}")
    for tracker in trackers:
        kinds = tracker.kinds()
        assert kinds == ISSUES, f"{tracker.name} tells {kinds} kinds of error"
    return [_median(turns[1:]) for turns in found.values()]


def _median(turns: Sequence[Turn]) -> Turn:
    statuses = sum((turn.statuses for turn in turns), Counter[int]())
    return Turn(median(turn.accepted for turn in turns), median(turn.visible for turn in turns), statuses)


# Bugsink on loopback, as its documentation sets one up for production on a single host, for `make bench`. That is:
# gunicorn with a worker for each processor, its background worker beside it, its default database. There is no proxy
# in front of it, which only spares it work. Its limits, which would refuse most of a load, are lifted as it asks of
# those who measure it (https://www.bugsink.com/docs/stress-testing/); nothing leaves the machine. `make
# .bugsink/.installed` makes its environment. It is run, never imported, and stops with its data.

HOME = worlds.ROOT / ".bugsink"
_PROGRAMS = HOME / "venv" / "bin"
_STOPPING = 20.0  # seconds

_SETTINGS = """
# For a measurement on loopback, without a proxy.
SECURE_PROXY_SSL_HEADER = None
USE_X_REAL_IP = False
BUGSINK |= {{
    "BASE_URL": "http://{host}:{port}",
    "PHONEHOME": False,
    **{{
        f"MAX_EVENTS_PER_{{whose}}{{period}}": 1_000_000_000
        for whose in ("", "PROJECT_PER_")
        for period in ("5_MINUTES", "HOUR", "MONTH")
    }},
}}
ALLOWED_HOSTS = ["{host}"]
"""
_CREATE_PROJECT = """
from projects.models import Project
project = Project.objects.create(name="bench", retention_max_event_count=1_000_000_000)
print(project.dsn)
"""


@contextmanager
def running() -> Iterator[Tracker]:
    """Run Bugsink with one project. Exits when it is not installed, or does not start."""
    if not (HOME / ".installed").exists():
        raise SystemExit("Bugsink is not installed: `make .bugsink/.installed`")
    directory = Path(tempfile.mkdtemp(prefix="bugsink-bench-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        with (directory / "log").open("ab") as log:
            port = worlds.free_port()
            dsn = _set_up(directory, port)
            started += [
                subprocess.Popen(command, cwd=directory, env=_environment(directory), stdout=log, stderr=log)
                for command in _servers(port)
            ]
            worlds.wait_until_ready(port, started[0], path="/health/ready")
            database = directory / "db.sqlite3"
            yield Tracker(
                f"Bugsink {version()}",
                dsn,
                lambda: _count(database, "events_event"),
                lambda: _count(database, "issues_issue"),
            )
    finally:
        for process in started:
            _stop(process)
        shutil.rmtree(directory)


def version() -> str:
    """The version that is installed."""
    [found] = HOME.glob("venv/lib/python3*/site-packages/bugsink-*.dist-info")
    return found.name.removeprefix("bugsink-").removesuffix(".dist-info")


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
    return {**kept, "HOME": str(directory), "PYTHONPATH": str(directory), "PYTHONUNBUFFERED": "1"}


def _set_up(directory: Path, port: int) -> str:
    """Write its settings, make its databases and one project; returns the project's DSN."""
    _run(
        directory, "bugsink-create-conf", "--template=singleserver", f"--host={worlds.HOST}", f"--base-dir={directory}"
    )
    with (directory / "bugsink_conf.py").open("a") as settings:
        settings.write(_SETTINGS.format(host=worlds.HOST, port=port))
    _run(directory, "bugsink-manage", "migrate")
    _run(directory, "bugsink-manage", "migrate", "snappea", "--database=snappea")
    return _run(directory, "bugsink-manage", "shell", "--no-imports", "-c", _CREATE_PROJECT).split()[-1]


def _run(directory: Path, program: str, *arguments: str) -> str:
    done = subprocess.run(
        [_PROGRAMS / program, *arguments],
        cwd=directory,
        env=_environment(directory),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{program} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _servers(port: int) -> list[list[str]]:
    """Its web server and its background worker, as its guide for a single server has them."""
    web = [
        str(_PROGRAMS / "gunicorn"),
        f"--bind={worlds.HOST}:{port}",
        f"--workers={min(os.cpu_count() or 1, 4)}",
        "--timeout=6",
        "--access-logfile=-",
        "--max-requests=1000",
        "--max-requests-jitter=100",
        "bugsink.wsgi",
    ]
    return [web, [str(_PROGRAMS / "bugsink-runsnappea")]]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOPPING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _count(database: Path, table: str) -> int:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        [count] = connection.execute(f"select count(*) from {table}").fetchone()
    return int(count)


def measure_trackers(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Take envelopes of Sentry's SDKs beside Bugsink: what is accepted, and what is visible in its case."""
    with running() as other:
        ours, theirs = measure([of_service(world), other], seconds / 2, lambda line: console.print(f"  {line}"))
    name = f"envelopes of 15 kB, {CONNECTIONS} connections"
    figures.add(f"{name}, accepted, to {other.name}", ours.accepted, "/s", yardstick=theirs.accepted, promised=5)
    figures.add(f"{name}, visible, to {other.name}", ours.visible, "/s", yardstick=theirs.visible, promised=15)
