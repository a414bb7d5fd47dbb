"""Errors of the service itself, sent to a project of this installation or another one (SERVICE_SELF_DSN).

A report holds names of code and numbers: the word of the log line, the type of the exception, the files, functions and
lines it passed through, the operation and the id of the request. It has no message, since that may quote a client, and
no variable. What is left is scrubbed by the rules of intake.

A report can cause the next error, here or at the other end of a circle of installations. So a process reports no error
while it receives a report of its own project, each place at most once an hour, and ten places a minute. An error of
sending is no error of the service, and nothing is sent twice.

A program of its own sends a report: `python selfreports.py`. The process that holds the socket is copied and has one
thread, and a process that ends still gets its last error out. So this file loads the standard library alone.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from litestar.types import ASGIApp, Receive, Scope, Send

    from service.ingest.scrubbing import Scrubber
    from service.logs import EventDict
    from service.settings import Settings
    from service.settingvalues import SentryDsn

PLACE_SECONDS = 3600.0
MOST_A_MINUTE = 10
MOST_SENDING = 4
MOST_PLACES = 1000
MOST_FRAMES = 100  # a report is smaller than a pipe, so that handing it over waits for nobody
SEND_SECONDS = 5
MINUTE = 60.0
CLIENT = "service-self-report/1"
_LEVELS = {"error": "error", "critical": "fatal"}
_WORD = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<function>.*)", re.DOTALL)
_ROOT = f"{Path(__file__).resolve().parents[2]}{os.sep}"
_OWN = ("service/", "statemachines/", "projections/", "schemas/")
_ELSEWHERE = ("event", "level", "process", "exception", "raised_at", "timestamp", "operation")
# The way out of this machine, and whose certificates are trusted on it.
_KEPT = ("SSL_CERT_FILE", "SSL_CERT_DIR", *(f"{name}_proxy" for name in ("http", "https", "no")))
_ENVIRONMENT = frozenset(_KEPT) | {name.upper() for name in _KEPT}


class Reporter:
    """A step of the log (service.logs) that reports lines of errors, and passes every line on as it is.

    `scrub_names` are the operator's names of secrets, `server` the address of this installation.
    """

    def __init__(self, dsn: SentryDsn, *, release: str, server: str, scrub_names: tuple[str, ...] = ()) -> None:
        self.dsn = dsn
        self._about = {"release": release, "server_name": server}
        self._scrub_names = scrub_names
        self._scrubber: Scrubber | None = None
        self._lock = threading.Lock()
        self._places: dict[int, tuple[float, int]] = {}  # when it was reported, how often it came since
        self._recent: list[float] = []
        self._sending: list[subprocess.Popen[bytes]] = []
        self._receiving = 0

    def __call__(self, _: Any, __: str, event: EventDict) -> EventDict:
        """Report a line of an error. It stands behind the steps that remove messages and secrets."""
        if event.get("level") in _LEVELS and not self._receiving:
            with suppress(OSError):  # no process or file is left: the log has the line
                self._report(event, time.monotonic())
        return event

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Report no error of this process: it receives a report, and may fail because of it."""
        self._receiving += 1
        try:
            yield
        finally:
            self._receiving -= 1

    def _report(self, event: EventDict, now: float) -> None:
        told = described(event)
        place = hash(
            (told["tags"]["event"], told.get("transaction"), event.get("exception"), *event.get("raised_at", ()))
        )
        with self._lock:
            at, times = self._places.get(place, (None, 0))
            self._recent = [moment for moment in self._recent if now - moment < MINUTE]
            self._sending = [one for one in self._sending if one.poll() is None]
            full = len(self._recent) >= MOST_A_MINUTE or len(self._sending) >= MOST_SENDING
            if full or (at is not None and now - at < PLACE_SECONDS):
                if at is not None:
                    self._places[place] = (at, times + 1)
                return
            if len(self._places) >= MOST_PLACES:
                self._places.clear()
            self._places[place] = (now, 0)
            self._recent.append(now)
            told["extra"]["times"] = times + 1
            self._sending.append(_hand_over(self.dsn, self._scrubbed(told | self._about)))

    def _scrubbed(self, told: dict[str, Any]) -> dict[str, Any]:
        """What intake would store of a report, should it reach a receiver that hides nothing."""
        from service.ingest.scrubbing import Findings, Scrubber  # noqa: PLC0415 - see the head; a supervisor has no use

        self._scrubber = scrubber = self._scrubber or Scrubber(self._scrub_names)
        if suspicion := scrubber.look(json.dumps(told).encode()):
            scrubber.tree(told, suspicion, Findings(), frozenset({"event_id"}))
        return told


class ReceivingApp:
    """The application of an API process. While it receives a report of the project of `reporter`, it makes none."""

    def __init__(self, app: ASGIApp, reporter: Reporter) -> None:
        self._app = app
        self._reporter = reporter
        self._key = f"sentry_key={reporter.dsn.key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the life of the process."""
        headers: Any = scope.get("headers", ())  # the life of the process has none
        if any(name == b"x-sentry-auth" and self._key in value for name, value in headers):
            with self._reporter.receiving():
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def reporter_of(settings: Settings) -> Reporter | None:
    """The reporter of this process. None without SERVICE_SELF_DSN."""
    if settings.self_dsn is None:
        return None
    from service.release import VERSION  # noqa: PLC0415 - see the head

    server = urlsplit(settings.base_url).netloc
    return Reporter(settings.self_dsn, release=VERSION, server=server, scrub_names=settings.scrub_names or ())


def described(event: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the log as an event in the form of Sentry, without anything that may quote a client.

    Lines of libraries are texts, which may. Of these the logger is named.
    """
    record = event.get("_record")
    foreign = record is not None and not event.get("_from_structlog", True)
    logger = str(getattr(record, "name", "")) if foreign else "service"
    word = "line_of_a_library" if foreign else str(event.get("event", ""))
    more = {name: value for name, value in event.items() if name not in _ELSEWHERE and _harmless(value)}
    told: dict[str, Any] = {
        "event_id": secrets.token_hex(16),
        "timestamp": time.time(),
        "platform": "python",
        "level": _LEVELS.get(str(event.get("level")), "error"),
        "logger": logger,
        "tags": {"event": word if _WORD.fullmatch(word) else "line", "process": str(event.get("process", ""))},
        "extra": more,
    }
    if "operation" in event:
        told["transaction"] = str(event["operation"])
    if "exception" in event:
        places = list(event.get("raised_at", ()))
        if len(places) > MOST_FRAMES:
            places = [*places[: MOST_FRAMES // 2], *places[-MOST_FRAMES // 2 :]]
        frames = [_frame(str(one)) for one in places]
        thrown = {"type": str(event["exception"]), "value": told["tags"]["event"], "stacktrace": {"frames": frames}}
        told["exception"] = {"values": [thrown]}
    else:
        told["message"] = told["tags"]["event"]
    return told


def _harmless(value: Any) -> bool:
    """Whether a member of a line is a number or a word."""
    return isinstance(value, int | float) or (isinstance(value, str) and _WORD.fullmatch(value) is not None)


def _frame(place: str) -> dict[str, Any]:
    """A place of a stack, its file from the root of the code or of the libraries on."""
    found = _FRAME.fullmatch(place)
    if found is None:
        return {"filename": "unknown"}
    name = found["file"].removeprefix(_ROOT)
    for root in ("/site-packages/", "/lib/"):
        name = name.rpartition(root)[2]
    own = name.startswith(_OWN)
    return {"filename": name.lstrip("/"), "function": found["function"], "lineno": int(found["line"]), "in_app": own}


def envelope(dsn: SentryDsn, *lines: Mapping[str, Any]) -> dict[str, Any]:
    """What `send` takes: the request that brings an envelope with these lines to a project."""
    return {
        "url": f"{dsn.url}envelope/",
        "headers": {
            "content-type": "application/x-sentry-envelope",
            "user-agent": CLIENT,
            "x-sentry-auth": f"Sentry sentry_version=7, sentry_client={CLIENT}, sentry_key={dsn.key}",
        },
        "body": "".join(f"{json.dumps(line)}\n" for line in lines),
    }


def _hand_over(dsn: SentryDsn, told: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start the program below with a report. The key goes through its input: other users see command lines."""
    given = envelope(dsn, {"event_id": told["event_id"]}, {"type": "event"}, told)
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if name in _ENVIRONMENT},
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None
    with process.stdin:
        process.stdin.write(json.dumps(given).encode())
    return process


def send(given: Mapping[str, Any]) -> int:
    """Send what `envelope` made, once, and follow no redirect, since the key is for that address. Returns the status.

    Raises OSError and http.client.HTTPException.
    """
    from urllib.request import HTTPErrorProcessor, Request, build_opener  # noqa: PLC0415 - only who sends has a use

    class AnyStatus(HTTPErrorProcessor):
        """Returns every answer as it came."""

        def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
            return response

        https_response = http_response

    request = Request(given["url"], given["body"].encode(), given["headers"])  # noqa: S310 - of a SentryDsn
    with build_opener(AnyStatus).open(request, timeout=SEND_SECONDS) as response:
        return int(response.status)


def main() -> None:
    """Send the report in the input. Whatever goes wrong goes wrong without a word."""
    import signal  # noqa: PLC0415 - only who sends has a use

    signal.alarm(2 * SEND_SECONDS)
    with suppress(Exception):
        send(json.loads(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
