"""A witness: what it keeps, and how it cosigns. Its HTTP server is in serving.py.

One process holds the directory by a lock of the kernel, which ends with the process. A checkpoint is on the disk
before its cosignature leaves, so a killed witness never cosigns two histories.
"""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from service.tlog import notes
from service.tlog.hashing import EMPTY, ProofRefused, check_consistency

# The memory of a witness: its key, and the newest checkpoint of each log that it has cosigned.

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

    def pair(self) -> notes.KeyPair:
        """Return the keys, made at the first call."""
        return read_pair(self._directory)

    def note(self, origin: str) -> str | None:
        """Return the newest checkpoint of a log with our cosignatures. None before the first one."""
        try:
            return self._file(origin_hash(origin)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def newest(self, origin: str) -> notes.Checkpoint | None:
        """Return what the newest checkpoint of a log says. None before the first one."""
        note = self.note(origin)
        return None if note is None else notes.parse_checkpoint(notes.parse_note(note.encode()).text)

    def keep(self, origin: str, note: str) -> None:
        """Replace the newest checkpoint of a log. It is on the disk before this returns. Raises OSError."""
        _write(self._file(origin_hash(origin)), note.encode())

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.checkpoint"


def origin_hash(origin: str) -> str:
    """Name a log in addresses and files."""
    return hashlib.sha256(origin.encode()).hexdigest()


def read_pair(directory: Path) -> notes.KeyPair:
    """Read the keys of a directory, and make them where there are none. Raises OSError and ValueError."""
    file = directory / "key"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(file, secrets.token_hex(notes.SEED_BYTES).encode(), only_new=True)
    return notes.KeyPair.derive(bytes.fromhex(file.read_text(encoding="ascii").strip()), DOMAIN)


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


# One request of a log for cosignatures: its checks in their order, and its answers (C2SP tlog-witness). It runs from
# beginning to end in one thread, so no other request comes between the check of the old size and the write of the
# new one.

MOST_HASHES = 63
PLAIN = "text/plain; charset=utf-8"
SIZE = "text/x.tlog.size"


class WitnessAnswer(NamedTuple):
    """What a witness answers."""

    status: int
    body: str
    content_type: str = PLAIN


class WitnessRequest(NamedTuple):
    """A request that is well-formed."""

    old: int
    proof: list[bytes]
    note: notes.SignedNote
    checkpoint: notes.Checkpoint


class Witness:
    """A witness with its name, its keys, and the keys of the logs that it cosigns, by origin."""

    def __init__(
        self, name: str, pair: notes.KeyPair, state: WitnessState, logs: Mapping[str, Sequence[notes.VerifierKey]]
    ) -> None:
        self.name = name
        self._pair = pair
        self._state = state
        self._logs = logs

    def add_checkpoint(self, body: bytes, now: int) -> WitnessAnswer:
        """Cosign the checkpoint of a request, at a time in epoch seconds, or say why not. Raises OSError."""
        try:
            return self._cosign(_read(body), now)
        except notes.MalformedNote as error:
            return WitnessAnswer(HTTPStatus.BAD_REQUEST, f"{error}\n")
        except notes.BadSignature as error:
            return WitnessAnswer(HTTPStatus.FORBIDDEN, f"invalid signature: {error}\n")
        except ProofRefused as error:
            return WitnessAnswer(HTTPStatus.UNPROCESSABLE_ENTITY, f"consistency proof: {error}\n")

    def _cosign(self, asked: WitnessRequest, now: int) -> WitnessAnswer:
        origin, size = asked.checkpoint.origin, asked.checkpoint.size
        keys = self._logs.get(origin)
        if keys is None:
            return WitnessAnswer(HTTPStatus.NOT_FOUND, "unknown log\n")
        signed = {(key.name, key.key_id) for key, _ in notes.verify_note(asked.note, keys)}
        if asked.old > size:
            return WitnessAnswer(HTTPStatus.BAD_REQUEST, "the old size is beyond the checkpoint\n")
        newest = self._state.newest(origin)
        known = 0 if newest is None else newest.size
        if asked.old != known:
            return WitnessAnswer(HTTPStatus.CONFLICT, f"{known}\n", SIZE)
        _check_growth(asked, newest)
        lines = "".join(found.line for found in self._pair.cosign(self.name, asked.checkpoint, now))
        own = "".join(one.line for one in asked.note.signatures if (one.name, one.key_id) in signed)
        self._state.keep(origin, f"{asked.note.text}\n{own}{lines}")
        return WitnessAnswer(HTTPStatus.OK, lines)

    def monitored(self, name: str) -> WitnessAnswer:
        """Show the newest checkpoint of a log by the hash of its origin."""
        for origin in self._logs:
            if origin_hash(origin) == name:
                note = self._state.note(origin)
                if note is not None:
                    return WitnessAnswer(HTTPStatus.OK, note)
        return WitnessAnswer(HTTPStatus.NOT_FOUND, "no checkpoint\n")


def _read(body: bytes) -> WitnessRequest:
    """Read a request. Raises MalformedNote."""
    head, blank, rest = body.partition(b"\n\n")
    try:
        first, *lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise notes.MalformedNote("The request is malformed.") from error
    if not blank or not first.startswith("old "):
        raise notes.MalformedNote("A request begins with the old size, and has an empty line before the checkpoint.")
    if len(lines) > MOST_HASHES:
        raise notes.MalformedNote("The proof is too long.")
    note = notes.parse_note(rest)
    old, proof = notes.parse_number(first.removeprefix("old ")), [notes.parse_hash(line) for line in lines]
    return WitnessRequest(old, proof, note, notes.parse_checkpoint(note.text))


def _check_growth(asked: WitnessRequest, newest: notes.Checkpoint | None) -> None:
    """Check that the checkpoint continues the newest one. Raises ProofRefused."""
    size, root = asked.checkpoint.size, asked.checkpoint.root
    if size == 0 and root != EMPTY:
        raise ProofRefused("The empty tree has another root.")
    check_consistency(asked.old, size, EMPTY if newest is None else newest.root, root, asked.proof)
