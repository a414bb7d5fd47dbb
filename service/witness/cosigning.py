"""One request of a log for cosignatures: its checks in their order, and its answers (C2SP tlog-witness).

It runs from beginning to end in one thread, so no other request comes between the check of the old size and the write
of the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from service.tlog.hashing import EMPTY, ProofRefused, check_consistency
from service.tlog.notes import (
    BadSignature,
    Checkpoint,
    KeyPair,
    MalformedNote,
    SignedNote,
    VerifierKey,
    parse_checkpoint,
    parse_hash,
    parse_note,
    parse_number,
    verify_note,
)
from service.witness.state import WitnessState, origin_hash

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
    note: SignedNote
    checkpoint: Checkpoint


class Witness:
    """A witness with its name, its keys, and the keys of the logs that it cosigns, by origin."""

    def __init__(
        self, name: str, pair: KeyPair, state: WitnessState, logs: Mapping[str, Sequence[VerifierKey]]
    ) -> None:
        self.name = name
        self._pair = pair
        self._state = state
        self._logs = logs

    def add_checkpoint(self, body: bytes, now: int) -> WitnessAnswer:
        """Cosign the checkpoint of a request, at a time in epoch seconds, or say why not. Raises OSError."""
        try:
            return self._cosign(_read(body), now)
        except MalformedNote as error:
            return WitnessAnswer(HTTPStatus.BAD_REQUEST, f"{error}\n")
        except BadSignature as error:
            return WitnessAnswer(HTTPStatus.FORBIDDEN, f"invalid signature: {error}\n")
        except ProofRefused as error:
            return WitnessAnswer(HTTPStatus.UNPROCESSABLE_ENTITY, f"consistency proof: {error}\n")

    def _cosign(self, asked: WitnessRequest, now: int) -> WitnessAnswer:
        origin, size = asked.checkpoint.origin, asked.checkpoint.size
        keys = self._logs.get(origin)
        if keys is None:
            return WitnessAnswer(HTTPStatus.NOT_FOUND, "unknown log\n")
        signed = {(key.name, key.key_id) for key, _ in verify_note(asked.note, keys)}
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
        raise MalformedNote("The request is malformed.") from error
    if not blank or not first.startswith("old "):
        raise MalformedNote("A request begins with the old size, and has an empty line before the checkpoint.")
    if len(lines) > MOST_HASHES:
        raise MalformedNote("The proof is too long.")
    note = parse_note(rest)
    old, proof = parse_number(first.removeprefix("old ")), [parse_hash(line) for line in lines]
    return WitnessRequest(old, proof, note, parse_checkpoint(note.text))


def _check_growth(asked: WitnessRequest, newest: Checkpoint | None) -> None:
    """Check that the checkpoint continues the newest one. Raises ProofRefused."""
    size, root = asked.checkpoint.size, asked.checkpoint.root
    if size == 0 and root != EMPTY:
        raise ProofRefused("The empty tree has another root.")
    check_consistency(asked.old, size, EMPTY if newest is None else newest.root, root, asked.proof)
