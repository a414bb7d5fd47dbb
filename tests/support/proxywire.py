"""As much of PostgreSQL's wire protocol as it takes to see a COMMIT go by."""

from __future__ import annotations

from collections.abc import Iterator

PARSE, BIND, QUERY, COMPLETE, READY = b"P", b"B", b"Q", b"C", b"Z"
COMMITTING = (b"commit", b"select ingest_count(")  # beginnings of the statements that end in a commit


class Frames:
    """Cuts a stream of bytes into whole messages. A client's first message has no type byte."""

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes; yields the messages that are whole now, each taken only when asked for."""
        self.push(data)
        while (frame := self.take()) is not None:
            yield frame

    def push(self, data: bytes) -> None:
        """Add bytes."""
        self._data += data

    def take(self) -> bytes | None:
        """Take the next whole message, if there is one."""
        skip = 1 if self._typed else 0
        if len(self._data) < skip + 4:
            return None
        length = skip + int.from_bytes(self._data[skip : skip + 4], "big")
        if len(self._data) < length:
            return None
        frame = bytes(self._data[:length])
        del self._data[:length]
        self._typed = True
        return frame


def is_commit_sent(frame: bytes, prepared: set[bytes]) -> bool:
    """Whether the client asks for a commit here; `prepared` keeps the names of statements that do."""
    kind = frame[:1]
    if kind == QUERY:
        return frame[5:].strip().lower().startswith(COMMITTING)
    if kind == PARSE:
        name, _, rest = frame[5:].partition(b"\0")
        if not rest.strip().lower().startswith(COMMITTING):
            prepared.discard(name)
            return False
        prepared.add(name)
        return False  # The Bind that follows asks for it.
    if kind == BIND:
        _, _, rest = frame[5:].partition(b"\0")
        return rest.partition(b"\0")[0] in prepared
    return False


def is_end_of_request(frame: bytes) -> bool:
    """Whether the server carries out what it was sent when it gets this: a Sync, or a simple query."""
    return frame[:1] in {b"S", QUERY}


def is_committed(frame: bytes) -> bool:
    """Whether the server says here that it committed: by the tag, or because no transaction is open any more."""
    return (frame[:1] == COMPLETE and frame[5:] == b"COMMIT\0") or frame == READY + b"\0\0\0\5I"
