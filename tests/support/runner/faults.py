"""Faults at a runner's steps: it is killed around a request or a program, or an answer to it is lost."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from typing import Literal, NamedTuple

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
