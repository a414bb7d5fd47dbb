"""The process of `Offload`: it carries out one piece of work after the other, for as long as its parent listens.

It is started by `exec` and imports what a piece of work names, nothing else of the service. It sees no setting and no
secret but those in its work. Whatever takes too much processor time ends it, by a timer of the kernel's.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import socket
import traceback
from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

MOST_SECONDS = 5.0
"""Seconds of processor time for one piece of work."""
MOST_MEMORY = 512 * 1024 * 1024
IDLE_SECONDS = 60.0
"""Seconds without work after which the process ends, so that it takes memory only while somebody needs it."""
GIVES_WAY = 5  # how nice it is: whoever has much computed takes the processors from nobody
HEAD = 8  # bytes that say how long a message is
DONE, FAILED = b"\x00", b"\x01"


def record(name: str, fields: Sequence[str], values: Sequence[Any], more: Mapping[str, Any]) -> Any:
    """A record with the fields of one of another class, whose module need not be loaded. `more` are its properties."""
    made = _class(name, tuple(fields))(*values)
    made.__dict__.update(more)
    return made


@cache
def _class(name: str, fields: tuple[str, ...]) -> Any:
    return type(name, (namedtuple(name, fields),), {})  # noqa: PYI024 - its fields are known when it arrives


def send(to: socket.socket, message: bytes) -> None:
    """Send one message. Raises OSError."""
    to.sendall(len(message).to_bytes(HEAD, "big"))
    to.sendall(message)


def receive(source: socket.socket) -> bytes:
    """Receive one message. Raises EOFError at the end of the connection, and OSError."""
    return bytes(_exactly(source, int.from_bytes(_exactly(source, HEAD), "big")))


def _exactly(source: socket.socket, size: int) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        got = source.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return found


def _carry_out(asked: bytes) -> bytes:
    """The answer to one message: the bytes that its function returns, or where it failed, without any value."""
    try:
        function, args = pickle.loads(asked)  # noqa: S301 - our parent wrote it, and the texts in it are data
        done: bytes = function(*args)
    except Exception as error:  # noqa: BLE001 - its parent raises it
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = " < ".join(f"{os.path.basename(one.filename)}:{one.lineno}" for one in reversed(frames))  # noqa: PTH119 - pathlib is not loaded
        return FAILED + f"{type(error).__name__} at {places}".encode()
    return DONE + done


def main() -> None:
    """Serve the socket on standard input until it ends or nothing is asked for a while."""
    os.nice(GIVES_WAY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    gc.set_threshold(50_000)
    with socket.socket(fileno=0) as parent:
        while True:
            parent.settimeout(IDLE_SECONDS)
            try:
                asked = receive(parent)
            except (EOFError, OSError):  # A timeout is an OSError.
                return
            parent.settimeout(None)
            signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
            answer = _carry_out(asked)
            signal.setitimer(signal.ITIMER_PROF, 0)
            try:
                send(parent, answer)
            except OSError:
                return
            del asked, answer
            gc.collect()


if __name__ == "__main__":
    main()
