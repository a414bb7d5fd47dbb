"""HTTP doors on loopback, to the service and a code host, with faults: a runner is killed, or an answer lost."""

from __future__ import annotations

import http.client
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from service.testing.loopback import Given, Heard, LoopbackServer

Moment = Literal["before", "after"]
_ID = re.compile(r"\b(proj|run|case|claim|trc|grant|appr)_[0-9a-z]+")


class Dropped(Exception):
    """The connection ends here, without an answer."""


class Step(NamedTuple):
    """A request of a runner: its operation, and its body. The same step again is the same."""

    name: str
    body: bytes


class Faults:
    """Chooses what happens at each request; the runner that is killed has `pid`."""

    def __init__(self) -> None:
        self.pid = 0
        self.kills: list[tuple[Step, Moment]] = []
        self.lost: list[Step] = []
        self.mode: Literal["none", "kill", "lose"] = "none"
        self.spared: tuple[str, ...] = ()
        self.only: tuple[str, ...] = ()

    def step(self, method: str, path: str, body: bytes) -> Step:
        """Name the step of a request."""
        return Step(f"{method} {_ID.sub('*', path.split('?', maxsplit=1)[0])}", body)

    def before(self, step: Step) -> None:
        """What happens before a request is carried out. Raises Dropped."""
        if self._meant(step, "kill") and not step.name.startswith("GET"):
            self._kill(step, "before")

    def after(self, step: Step) -> None:
        """What happens after it was carried out, before its answer is sent. Raises Dropped."""
        if self._meant(step, "kill"):
            self._kill(step, "after")
        if self._meant(step, "lose") and step not in self.lost:
            self.lost.append(step)
            raise Dropped

    def _meant(self, step: Step, mode: str) -> bool:
        if self.mode != mode or any(word in step.name for word in self.spared):
            return False
        return not self.only or any(word in step.name for word in self.only)

    def _kill(self, step: Step, moment: Moment) -> None:
        if (step, moment) not in self.kills:
            self.kills.append((step, moment))
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            raise Dropped


@contextmanager
def open_door(behind: Callable[[Heard], Given], faults: Faults) -> Iterator[str]:
    """Open a door; yields its address."""

    def pass_on(asked: Heard) -> Given | None:
        step = faults.step(asked.method, asked.path, asked.body)
        try:
            faults.before(step)
            given = behind(asked)
            faults.after(step)
        except Dropped:
            return None
        return given._replace(headers={"content-type": "application/json", **given.headers})

    server = LoopbackServer(pass_on)
    try:
        yield server.url
    finally:
        server.close()


class Relay:
    """Hands requests on to the service. `answers` stand in for it: by method and the end of the path."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self.answers: dict[str, list[Given]] = {}
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []

    def __call__(self, asked: Heard) -> Given:
        self.seen.append((asked.method, asked.target, asked.headers, asked.json()))
        for ending, given in self.answers.items():
            if f"{asked.method} {asked.path}".endswith(ending) and given:
                return given.pop(0)
        assert self._target.hostname is not None
        connection = http.client.HTTPConnection(self._target.hostname, self._target.port or 80, timeout=90)
        try:
            kept = {name: value for name, value in asked.headers.items() if name not in {"host", "connection"}}
            connection.request(asked.method, asked.target, asked.body or None, kept)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            passed = {name: told[name] for name in ("content-type", "retry-after") if name in told}
            return Given(answer.status, answer.read(), passed)
        finally:
            connection.close()
