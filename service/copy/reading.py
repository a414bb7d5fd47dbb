"""Questions to the copy: over HTTP, or over a Unix socket to the worker with the engine's folder (G-200).

A statement comes with the values of its places, is read-only, and has limits of time, rows and memory.
"""

from __future__ import annotations

import asyncio
import socketserver
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import LifoQueue
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog

from service.copy.engine import CopyFailed, Engine
from service.settingvalues import CHDB

log = structlog.get_logger(__name__)

PLACES: Final = 4
"""Questions that a process, or the worker with the folder, has answered at once."""
LONGEST_PATH: Final = 100
"""Of a Unix socket, in bytes."""
MOST_ASKED: Final = 8 << 20
MOST_ANSWERED: Final = 64 << 20
SLACK_SECONDS: Final = 1.0
"""For a question on its way, beyond the time of its statement."""
UNREACHABLE: Final = "no worker answers for it"

_LENGTH: Final = struct.Struct(">I")


class CopyQuestion(msgspec.Struct, frozen=True):
    """A statement with its values, and the seconds that it may take."""

    text: str
    values: dict[str, Any]
    seconds: float


class CopyAnswer(msgspec.Struct, frozen=True):
    """The names of the columns, and the rows. Or why there are none: `failed` is CopyFailed's message."""

    names: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    failed: str | None = None


def socket_of(url: str) -> Path:
    """Return the path of the socket beside the folder of a `chdb:` URL. Raises CopyFailed for one that is too long."""
    folder = Path(urlsplit(url).path)
    path = folder.with_name(f"{folder.name}.sock")
    if len(bytes(path)) > LONGEST_PATH:
        raise CopyFailed("the path of its folder is too long for a socket beside it")
    return path


class CopyReader:
    """The copy as a process asks it. It connects at the first question."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._by_socket = urlsplit(url).scheme == CHDB
        self._engine: Engine | None = None
        self._opening = threading.Lock()

    async def ask(self, text: str, values: Mapping[str, Any], seconds: float) -> CopyAnswer:
        """Answer a statement, within seconds. Raises CopyFailed."""
        asked = CopyQuestion(text, dict(values), seconds)
        answered = await (self._over_socket(asked) if self._by_socket else asyncio.to_thread(self._over_http, asked))
        if answered.failed is not None:
            raise CopyFailed(answered.failed)
        return answered

    async def _over_socket(self, asked: CopyQuestion) -> CopyAnswer:
        try:
            async with asyncio.timeout(asked.seconds + SLACK_SECONDS):
                reader, writer = await asyncio.open_unix_connection(socket_of(self._url))
                try:
                    body = msgspec.json.encode(asked)
                    writer.write(_LENGTH.pack(len(body)) + body)
                    await writer.drain()
                    [length] = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                    return msgspec.json.decode(await reader.readexactly(length), type=CopyAnswer)
                finally:
                    writer.close()
        except (OSError, EOFError, TimeoutError, msgspec.DecodeError):
            raise CopyFailed(UNREACHABLE) from None

    def _over_http(self, asked: CopyQuestion) -> CopyAnswer:
        with self._opening:
            if self._engine is None:
                self._engine = Engine(self._url)
        return _answer(self._engine, asked)


def _answer(engine: Engine, asked: CopyQuestion) -> CopyAnswer:
    try:
        names, rows = engine.read(asked.text, asked.values, asked.seconds)
    except CopyFailed as failed:
        return CopyAnswer(failed=str(failed))
    return CopyAnswer(names, rows)


class Answering:
    """The socket of the process with the engine's folder. A thread answers each question.

    Raises CopyFailed when the engine or the socket cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self._path = socket_of(url)
        self._engines: LifoQueue[Engine] = LifoQueue()
        for _ in range(PLACES):
            self._engines.put(Engine(url))
        engines = self._engines

        class Handler(socketserver.StreamRequestHandler):
            """One question of one connection."""

            timeout = 30

            def handle(self) -> None:
                [length] = _LENGTH.unpack(self.rfile.read(_LENGTH.size))
                if length > MOST_ASKED:
                    return
                asked = msgspec.json.decode(self.rfile.read(length), type=CopyQuestion)
                engine = engines.get()
                try:
                    body = msgspec.json.encode(_answer(engine, asked))
                finally:
                    engines.put(engine)
                if len(body) > MOST_ANSWERED:
                    body = msgspec.json.encode(CopyAnswer(failed="TOO_MANY_BYTES"))
                self.wfile.write(_LENGTH.pack(len(body)) + body)

        try:
            self._path.unlink(missing_ok=True)  # Of a worker that is gone: this one has the lock.
            self._server = _Server(str(self._path), Handler, bind_and_activate=False)
            self._server.server_bind()
            self._path.chmod(0o600)  # Before anybody can connect.
            self._server.server_activate()
        except OSError as error:
            self._close_engines()
            raise CopyFailed(f"the socket beside its folder cannot be opened: {type(error).__name__}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="copy-answers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more, and close the handles of the engine once each has ended its statement."""
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)
        self._close_engines()

    def _close_engines(self) -> None:
        for _ in range(PLACES):
            self._engines.get().close()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what a connection failed of. The process that asked is told by its end."""
        del request, client_address
        log.warning("copy_question_failed", cause=str(sys.exc_info()[0]))
