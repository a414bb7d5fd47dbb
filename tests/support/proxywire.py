"""The part of PostgreSQL's wire protocol that is needed to detect a COMMIT."""

from __future__ import annotations

from collections.abc import Iterator

PARSE, BIND, QUERY, COMPLETE = b"P", b"B", b"Q", b"C"
COUNTING = b"select ingest_flush("  # commits by itself


class Frames:
    """Splits a stream of bytes into whole messages. A client's first message has no type byte."""

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


def commit_tag(frame: bytes, prepared: dict[bytes, bytes]) -> bytes | None:
    """The tag with which the server will say that it committed, if the client asks for a commit here.

    `prepared` keeps the names of statements that commit, with their tags.
    """
    kind = frame[:1]
    if kind == QUERY:
        return _tag_of(frame[5:].rstrip(b"\0"))
    if kind == PARSE:
        name, _, rest = frame[5:].partition(b"\0")
        tag = _tag_of(rest.partition(b"\0")[0])
        if tag is None:
            prepared.pop(name, None)
        else:
            prepared[name] = tag
        return None  # The Bind that follows asks for it.
    if kind == BIND:
        _, _, rest = frame[5:].partition(b"\0")
        return prepared.get(rest.partition(b"\0")[0])
    return None


def _tag_of(statement: bytes) -> bytes | None:
    if statement.strip().lower() == b"commit":
        return b"COMMIT\0"
    return b"SELECT 1\0" if statement.startswith(COUNTING) else None


def is_end_of_request(frame: bytes) -> bool:
    """Whether the server carries out what it was sent when it gets this: a Sync, or a simple query."""
    return frame[:1] in {b"S", QUERY}


def is_committed(frame: bytes, tag: bytes | None) -> bool:
    """Whether the server says here that it did what `tag` stands for. It says so only after the commit."""
    return frame[:1] == COMPLETE and frame[5:] == tag
