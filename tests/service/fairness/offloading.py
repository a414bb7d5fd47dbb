"""Pieces of work for another process."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

DYING_SECONDS = 0.05


def told(value: Any) -> bytes:
    """What arrived, as text."""
    return repr(value).encode()


def told_parts(value: Any) -> bytes:
    """The members of a record by their names, its property, and its parts in order."""
    return json.dumps([value.name, value.count, getattr(value, "doubled", None), list(value)]).encode()


def process() -> bytes:
    """The number of the process."""
    return str(os.getpid()).encode()


def environment() -> bytes:
    """The names of what it sees of the environment, and the seconds of processor time that are left to it."""
    return json.dumps([sorted(os.environ), signal.getitimer(signal.ITIMER_PROF)[0]]).encode()


def spin() -> bytes:
    """Take processor time for ever, of which little is left."""
    signal.setitimer(signal.ITIMER_PROF, DYING_SECONDS)
    while True:
        pass


def fail(secret: str) -> bytes:
    """Raise an exception with a text in it."""
    raise ValueError(secret)


def modules() -> bytes:
    """The modules of the service that are loaded there."""
    import sys

    return json.dumps(sorted(name for name in sys.modules if name.startswith("service."))).encode()
