"""Logs as exports show them: events of several streams with hashes that fit, and trees over them, computed plainly."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.outsiders.signing import ORIGIN, Signer, signed

WHO = ("event_id", "command_id", "actor_kind", "actor_id", "request_id", "correlation_id", "causation_id")
ENVELOPE = ("project_id", "stream_id", "revision", "kind", "topic", "recorded_at", "payload_hash", *WHO)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_700_000_000_000_000
Event = dict[str, Any]


def canonical(value: Any) -> bytes:
    """RFC 8785, for values without fractions; test_verify_export holds it against the standard's own code."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The Merkle tree hash of RFC 6962, section 2.1, as it is defined there."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"")
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha256(b"\x01" + root_of(leaves[:half]) + root_of(leaves[half:]))


def inclusion(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """The path of RFC 6962, section 2.1.1."""
    if len(leaves) < 2:
        return []
    half = 1 << (len(leaves) - 1).bit_length() - 1
    if index < half:
        return [*inclusion(index, leaves[:half]), root_of(leaves[half:])]
    return [*inclusion(index - half, leaves[half:]), root_of(leaves[:half])]


def consistency(older: int, leaves: Sequence[bytes], *, whole: bool = True) -> list[bytes]:
    """The proof of RFC 6962, section 2.1.2."""
    if older == len(leaves):
        return [] if whole else [root_of(leaves)]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    if older <= half:
        return [*consistency(older, leaves[:half], whole=whole), root_of(leaves[half:])]
    return [*consistency(older - half, leaves[half:], whole=False), root_of(leaves[:half])]


def time_of(micros: int) -> str:
    """A time as exports write it."""
    return (EPOCH + timedelta(microseconds=micros)).isoformat()


def leaf_of(event: Event) -> bytes:
    """The leaf of an event whose payload's hash is right."""
    since = datetime.fromisoformat(event["recorded_at"]) - EPOCH
    at = since // timedelta(microseconds=1)
    envelope = {name: event[name] for name in ENVELOPE} | {"recorded_at": at}
    return sha256(b"\0" + canonical(envelope))


def rehash(events: Sequence[Event]) -> None:
    """Give events the hashes that fit what they hold, stream by stream, and consecutive positions and revisions."""
    heads: dict[tuple[str, str], tuple[int, bytes]] = {}
    for position, event in enumerate(events, 1):
        name = (event["project_id"], event["stream_id"])
        revision, chain = heads.get(name, (0, bytes(32)))
        event["position"], event["revision"] = position, revision + 1
        if event["payload"] is not None:
            payload_hash = sha256(bytes.fromhex(event["salt"]) + canonical(event["payload"]))
            event["payload_hash"] = payload_hash.hex()
        leaf = leaf_of(event)
        chain = sha256(b"\x02" + chain + leaf)
        event["leaf"], event["chain"] = leaf.hex(), chain.hex()
        heads[name] = revision + 1, chain


def event_of(stream: int, number: int, chance: random.Random, project_id: str | None = None) -> Event:
    """An event without its hashes, of about the size that real ones have."""
    who = {name: f"{name[:3]}_{chance.getrandbits(100):026x}" for name in WHO}
    return {
        "project_id": project_id or f"proj_{stream % 3}",
        "stream_id": f"run_{stream:026}",
        "kind": "run",
        "topic": "run.progressed.v1",
        "recorded_at": time_of(SECOND + number * 1_000_003),
        "payload": {
            "text": chance.choice(["plain", "größer", '\u2028\x1f"\\', "🙂"]),
            "turn": number,
            "none": None,
            "list": [{"a": [number]}, True],
            "note": f"{chance.getrandbits(400):0100x}",
        },
        "salt": f"{chance.getrandbits(128):032x}",
        "payload_hash": "",
        **who,
    }


@dataclass
class Log:
    """A log: its events, and its tree."""

    events: list[Event] = field(default_factory=list)

    @property
    def leaves(self) -> list[bytes]:
        """The hashes of the tree's entries; an entry is the leaf of an event."""
        return [sha256(b"\0" + bytes.fromhex(event["leaf"])) for event in self.events]

    def lines(self) -> Iterator[bytes]:
        yield from (canonical(event) + b"\n" for event in self.events)

    def export(self) -> bytes:
        return b"".join(self.lines())

    def text(self, size: int | None = None, origin: str = ORIGIN) -> str:
        """The text of the checkpoint of a size."""
        size = len(self.events) if size is None else size
        return f"{origin}\n{size}\n{base64.b64encode(root_of(self.leaves[:size])).decode()}\n"

    def checkpoint(self, *signers: Signer, size: int | None = None) -> bytes:
        return signed(self.text(size, signers[0].name), *signers)

    def save_tiles(self, folder: Path) -> None:
        """Write the tiles of the lowest level as C2SP lays them out."""
        data = b"".join(self.leaves)
        for number in range(-(-len(data) // 8192)):
            tile = data[8192 * number : 8192 * (number + 1)]
            name = "/".join(f"x{number // 1000**i % 1000:03}" for i in range(number >= 1000, 0, -1))
            place = folder / "tile" / "0" / name / f"{number % 1000:03}"
            if len(tile) < 8192:
                place = place.with_name(f"{place.name}.p") / str(len(tile) // 32)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(tile)


def make_log(count: int, seed: int = 0, streams: int = 7) -> Log:
    """A log of so many events, interleaved over some streams."""
    chance = random.Random(seed)
    events = [event_of(chance.randrange(streams), number, chance) for number in range(count)]
    rehash(events)
    return Log(events)


def copied_log(log: Log) -> Log:
    """A copy, whose events may be changed."""
    return Log([dict(event) for event in log.events])
