"""The memory of a witness: its key, and the newest checkpoint of each log that it has cosigned.

One process holds the directory by a lock of the kernel, which ends with the process. A checkpoint is on the disk
before its cosignature leaves, so a killed witness never cosigns two histories.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from pathlib import Path

from service.tlog.notes import SEED_BYTES, Checkpoint, KeyPair, parse_checkpoint, parse_note

DOMAIN = "witness"


class StateInUse(Exception):
    """Another process works on the directory."""


class WitnessState:
    """The directory. Raises StateInUse and OSError."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise StateInUse(f"{directory} belongs to a witness that runs.") from error

    def close(self) -> None:
        """Let another process have the directory."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def pair(self) -> KeyPair:
        """Return the keys, made at the first call."""
        return read_pair(self._directory)

    def note(self, origin: str) -> str | None:
        """Return the newest checkpoint of a log with our cosignatures. None before the first one."""
        try:
            return self._file(origin_hash(origin)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def newest(self, origin: str) -> Checkpoint | None:
        """Return what the newest checkpoint of a log says. None before the first one."""
        note = self.note(origin)
        return None if note is None else parse_checkpoint(parse_note(note.encode()).text)

    def keep(self, origin: str, note: str) -> None:
        """Replace the newest checkpoint of a log. It is on the disk before this returns. Raises OSError."""
        _write(self._file(origin_hash(origin)), note.encode())

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.checkpoint"


def origin_hash(origin: str) -> str:
    """Name a log in addresses and files."""
    return hashlib.sha256(origin.encode()).hexdigest()


def read_pair(directory: Path) -> KeyPair:
    """Read the keys of a directory, and make them where there are none. Raises OSError and ValueError."""
    file = directory / "key"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(file, secrets.token_hex(SEED_BYTES).encode(), only_new=True)
    return KeyPair.derive(bytes.fromhex(file.read_text(encoding="ascii").strip()), DOMAIN)


def _write(file: Path, content: bytes, *, only_new: bool = False) -> None:
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    if only_new:
        try:
            os.link(draft, file)  # two that begin at once agree on one key
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    else:
        draft.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
