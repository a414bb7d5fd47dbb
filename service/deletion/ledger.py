"""What was erased, remembered outside of the database: restoring a backup must not undo an erasure.

One line of JSON an erasure: the scope (project id or user id), the deletion's id and its time in epoch seconds, and
nothing else, so that the file itself is no trace of what is gone. A person of a project's telemetry has a line of
another form, with the project and keyed hashes of the names. Releases without such lines pass over them. A line is
written and synced to the disk after the fence and before the first row goes. Several hosts append to one file, each
whole line under a lock. A line that a crash cut off is ignored, and ended before the next one.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

WAIT_SECONDS = 0.5
"""A line takes milliseconds. Who holds the lock for longer hangs, and must not hang others: they come again."""


class Erasure(NamedTuple):
    """One erasure: of what, by which deletion, and when its purge was about to begin (epoch seconds)."""

    scope_id: str
    deletion_id: str
    at: int


class PersonErasure(NamedTuple):
    """The erasure of a person of a project: of all records until a time, under names with these hashes.

    The first hash is that of the person's main name.
    """

    project_id: str
    deletion_id: str
    until: int
    names: list[str]


class _Line(msgspec.Struct, frozen=True):
    scope_id: str
    deletion_id: str
    at: int


class _PersonLine(msgspec.Struct, frozen=True):
    project_id: str
    deletion_id: str
    until: int
    names: Annotated[list[str], Meta(min_length=1)]


def remember(path: Path, erasure: Erasure | PersonErasure) -> None:
    """Append an erasure unless it is there, and have it on the disk before this returns. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with _locked(descriptor, fcntl.LOCK_EX):
            text = _read(descriptor)
            known = {one.deletion_id for one in _parse(text)} | {one.deletion_id for one in _parse_people(text)}
            if erasure.deletion_id not in known:
                written = _Line(*erasure) if isinstance(erasure, Erasure) else _PersonLine(*erasure)
                line = msgspec.json.encode(written) + b"\n"
                whole = line if not text or text.endswith(b"\n") else b"\n" + line
                if os.write(descriptor, whole) != len(whole):
                    raise OSError(f"{path} took only a part of a line")
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        _sync_folder(path.parent)


def try_to_write(path: Path) -> None:
    """Look whether an erasure could be remembered, and leave nothing behind. Raises OSError."""
    if path.exists():
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        try:
            with _locked(descriptor, fcntl.LOCK_EX):
                return
        finally:
            os.close(descriptor)
    folder = next(above for above in path.absolute().parents if above.exists())
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def erasures(path: Path) -> list[Erasure]:
    """Read every erasure of a scope, the oldest first. None without such a file. Raises OSError."""
    return list(_parse(_text_of(path)))


def people_erased(path: Path) -> list[PersonErasure]:
    """Read every erasure of a person, the oldest first. None without such a file. Raises OSError."""
    return list(_parse_people(_text_of(path)))


def _text_of(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        with _locked(descriptor, fcntl.LOCK_SH):
            return _read(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(descriptor: int, how: int) -> Iterator[None]:
    """Hold the lock of the file. Raises BlockingIOError when another host does not let go of it."""
    give_up = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(0.01)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _read(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _parse(text: bytes) -> Iterator[Erasure]:
    for line in text.splitlines():
        try:
            found = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError:  # What a crash has left of a line; its deletion writes it again.
            continue
        yield Erasure(found.scope_id, found.deletion_id, found.at)


def _parse_people(text: bytes) -> Iterator[PersonErasure]:
    for line in text.splitlines():
        try:
            found = msgspec.json.decode(line, type=_PersonLine)
        except msgspec.DecodeError:
            continue
        yield PersonErasure(found.project_id, found.deletion_id, found.until, found.names)


def _sync_folder(folder: Path) -> None:
    """Have a new file's name on the disk too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
