"""Check the service's records without the service: `verify_proof.py [FILE] --key … --checkpoint …`.

Reads an export of the log (`service events export`), the archive of a project, the proof of an automation run or a
`.tlog-proof` file, and recomputes every hash of it: payloads, leaves, the chain of each stream, the Merkle tree of RFC
6962. Signed checkpoints state the tree. Keys and policy are yours; nothing in a file is believed for its own sake.
Shares no code with the service. The standard library does all but the signatures, which need `cryptography`.
An archive is told by its form, or by the word before it: `verify_proof.py archive FILE`.
`verify_proof.py sums SHA256SUMS --key …` checks the signed sums of a release, and its files in the same folder.

Says OK and ends with 0, or tells the first wrong position and its fault:

    0  all fits, and a checkpoint signed by your key covers it
    1  something is wrong
    2  the call is wrong: a key, a policy or an option
    3  all fits together, but no checkpoint was given: the end may be missing, and all of it may be made up
    4  nothing could be checked, because `cryptography` is missing or too old
    5  a fork: the same key signed two checkpoints, and they cannot both be true
"""

from __future__ import annotations

import argparse
import base64
import binascii
import bisect
import hashlib
import itertools
import json
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

FORMATS = ("service-run-proof-1", "service-run-proof-2")
TLOG_PROOF = "c2sp.org/tlog-proof@v1"
WHO = {"actor_kind", "actor_id", "event_id", "command_id", "request_id", "correlation_id", "causation_id"}
ENVELOPE = {"project_id", "stream_id", "revision", "kind", "topic", "recorded_at", "payload_hash", *WHO}
EVENT = {*ENVELOPE, "position", "payload", "salt", "leaf", "chain"}
TEXTS = sorted(EVENT - {"position", "revision", "recorded_at", "payload", "salt"})
STREAM = {"project_id", "stream_id", "kind", "head", "events"}
DOCUMENT = {"format", "project_id", "run_id", "made_at", "streams", "links", "next_action", "document_sha256"}
PROVEN = {*DOCUMENT, "checkpoint", "inclusion"}
OBJECTS = ("receipt", "claim", "run", "automation_run", "approval", "grant", "deploy", "report")
NAMING = {f"{thing}_id" for thing in OBJECTS}
NUMBERS = {"revision", "recorded_at", "made_at"}
ERASURE = "deletion.purging_began.v1"
START = bytes(32)
EPOCH = datetime(1970, 1, 1).toordinal()  # noqa: DTZ001 - a day, which has no zone
MAX_LINE, MAX_DOCUMENT, MAX_NOTE, MAX_SIGNATURES = 16 << 20, 256 << 20, 1 << 20, 100


class Wrong(Exception):
    """Something differs from the record, or is missing. `position` is its place in the log, where it has one."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class Fork(Wrong):
    """One key signed two checkpoints, and they cannot both be true."""


class Misuse(Exception):
    """The call is wrong: a key, a policy or an option."""


class CannotCheck(Exception):
    """Signatures cannot be checked here."""


def require(condition: object, message: str, position: int | None = None) -> None:
    """Raise Wrong unless the condition holds."""
    if not condition:
        raise Wrong(message, position)


# ---- JSON, read strictly ------------------------------------------------------------------------------------------


def has_members(value: Any, names: set[str], what: str, *inner: str) -> None:
    """Require an object with exactly these members: text or integers (true is none), except for the `inner` ones."""
    require(isinstance(value, dict), f"{what} is not an object")
    odd = sorted(names ^ value.keys())
    require(not odd, f"{what} lacks, or should not have: {', '.join(odd[:30])[:300]}")
    for name in sorted(names.difference(inner)):
        kind = int if name in NUMBERS else str
        require(type(value[name]) is kind, f"{what}: {name} is not {'a number' if kind is int else 'text'}")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. A member that comes twice would mean different things to different readers."""
    made = dict(pairs)
    require(len(made) == len(pairs), "an object has a member twice")
    return made


def whole(text: str) -> int:
    """Read a number; only integers occur that every reader holds exactly."""
    if len(text) < 16 and text != "-0" and text.lstrip("-").isdigit():
        return int(text)
    require(re.fullmatch(r"0|-?[1-9][0-9]{0,15}", text) and abs(int(text)) < 2**53, "a number is no safe integer")
    return int(text)


_strict = json.JSONDecoder(object_pairs_hook=unique, parse_int=whole, parse_float=whole, parse_constant=whole)
_quick = json.JSONDecoder(parse_int=whole, parse_float=whole, parse_constant=whole)
_quote = json.encoder.encode_basestring
_hex = re.compile("([0-9a-f]{2})*").fullmatch
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def load(data: bytes, decoder: json.JSONDecoder = _strict) -> Any:
    """Parse a document strictly."""
    try:
        return decoder.decode(data.decode("utf-8"))
    except ValueError as error:
        raise Wrong("this is not a JSON document") from error
    except RecursionError as error:
        raise Wrong("this is nested too deeply") from error


def canonical(value: Any) -> bytes:
    """Encode in the RFC 8785 form: without floats, and with ASCII keys, it is JSON sorted and without spaces."""
    try:
        return _encoder.encode(value).encode()
    except UnicodeEncodeError as error:
        raise Wrong("half a surrogate pair is not text") from error


def load_line(line: bytes) -> Any:
    """Parse a line in canonical form: another form could hide a change, such as a repeated member."""
    try:
        value = load(line, _quick)
        if canonical(value) == line:
            return value
    except RecursionError as error:
        raise Wrong("this is nested too deeply") from error
    load(line)  # It says more of what it refuses.
    raise Wrong("the line is not in the canonical form in which it was exported")


def from_base64(text: str, what: str) -> bytes:
    """Read standard base64 in its one form: no other text stands for the same bytes."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Wrong(f"{what} is not in base64") from error
    require(base64.b64encode(data).decode() == text, f"{what} is not in base64")
    return data


# ---- hashes and trees (RFC 6962) ----------------------------------------------------------------------------------


def sha256(*parts: bytes) -> bytes:
    """Hash the parts, one after the other."""
    return hashlib.sha256(b"".join(parts)).digest()


def join(left: bytes, right: bytes) -> bytes:
    """Hash an inner node of the tree."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """A growing Merkle tree: the roots of its full subtrees, largest first."""

    def __init__(self) -> None:
        self.size = 0
        self.full: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash."""
        node, left = leaf, self.size
        while left & 1:
            node = join(self.full.pop(), node)
            left >>= 1
        self.full.append(node)
        self.size += 1

    def root(self) -> bytes:
        """The hash of the tree as it is."""
        if not self.full:
            return hashlib.sha256(b"").digest()
        node = self.full[-1]
        for larger in reversed(self.full[:-1]):
            node = join(larger, node)
        return node


def entry(leaf: bytes) -> bytes:
    """The hash of an event's leaf as an entry of the tree."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def root_of_path(index: int, size: int, leaf: bytes, path: list[bytes]) -> bytes | None:
    """The root at the end of an inclusion proof (RFC 9162, 2.1.3.2); None when it does not fit index and size."""
    if not 0 <= index < size:
        return None
    place, last, node = index, size - 1, leaf
    for hash_ in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            node = join(hash_, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = join(node, hash_)
        place, last = place >> 1, last >> 1
    return node if last == 0 else None


def roots_of_growth(older: int, newer: int, older_root: bytes, path: list[bytes]) -> tuple[bytes, bytes] | None:
    """The two roots at the end of a consistency proof (RFC 9162, 2.1.4.2); None when it does not fit the sizes."""
    if not 0 < older <= newer:
        return None
    if older == newer:
        return (older_root, older_root) if not path else None
    path = [older_root, *path] if older & (older - 1) == 0 else path
    if not path:
        return None
    place, last = older - 1, newer - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = path[0]
    for hash_ in path[1:]:
        if last == 0:
            return None
        if place & 1 or place == last:
            first, second = join(hash_, first), join(hash_, second)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            second = join(second, hash_)
        place, last = place >> 1, last >> 1
    return (first, second) if last == 0 else None


# ---- keys, policies and checkpoints (C2SP signed-note, tlog-checkpoint, tlog-cosignature, tlog-policy) ------------

ED25519, COSIGNATURE, ML_DSA = 1, 4, 6
KEY_BYTES = {ED25519: 32, COSIGNATURE: 32, ML_DSA: 1312}
SIGNATURE_BYTES = {ED25519: 64, COSIGNATURE: 72, ML_DSA: 8 + 2420}


class Key(NamedTuple):
    """A public key with its name."""

    name: str
    id: bytes
    kind: int
    material: bytes


class Note(NamedTuple):
    """The text of a note, and its signatures: name, key id, signature."""

    text: str
    signatures: list[tuple[str, bytes, bytes]]


class Checkpoint(NamedTuple):
    """A statement of a log: its origin, its size, and the root of its tree. `told` is where it was read."""

    origin: str
    size: int
    root: bytes
    told: str


@dataclass
class Policy:
    """The believed logs, and the witnesses of the quorum.

    With `every`, a key of each algorithm given for an origin must have signed, otherwise one key of it. So the keys
    from before a rotation may stay beside the present ones.
    """

    logs: list[Key] = field(default_factory=list)
    witnesses: dict[str, Key] = field(default_factory=dict)
    groups: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    quorum: str = "none"
    every: bool = False

    def met(self, name: str, cosigned: set[Key]) -> bool:
        """Whether a witness, or enough of a group, has cosigned."""
        if name in self.witnesses:
            return self.witnesses[name] in cosigned
        least, members = self.groups[name]
        return sum(self.met(member, cosigned) for member in members) >= least


def read_key(text: str) -> Key:
    """Read a verifier key: `name+hex id+base64 of type and key`. Raises Misuse."""
    parts = text.strip().split("+", 2)
    if len(parts) != 3 or not parts[0] or re.search(r"\s", parts[0]) or not re.fullmatch("[0-9a-f]{8}", parts[1]):
        raise Misuse("a key is written name+id+key, as `service log keys` prints it")
    try:
        data = from_base64(parts[2], "the key")
    except Wrong as error:
        raise Misuse(str(error)) from error
    name, identity = parts[0], bytes.fromhex(parts[1])
    if not data or data[0] not in KEY_BYTES or len(data) != 1 + KEY_BYTES[data[0]]:
        raise Misuse(f"the key of {name} is neither Ed25519 nor ML-DSA-44, or has another length")
    if sha256(name.encode(), b"\n", data)[:4] != identity:
        raise Misuse(f"the id of the key of {name} is not that of its name and bytes")
    return Key(name, identity, data[0], data[1:])


def read_policy(data: bytes) -> Policy:
    """Read a C2SP tlog-policy. Raises Misuse, with the number of the line."""
    if set(data) & ({*range(32), 127} - {9, 10}):
        raise Misuse("the policy has a control character other than tab and newline")
    policy = Policy(quorum="")
    for number, line in enumerate(data.decode("utf-8", "surrogateescape").split("\n"), 1):
        words = re.split("[ \t]+", line.strip(" \t"))
        if words[0] and not words[0].startswith("#"):
            try:
                add_line(policy, words)
            except Misuse as error:
                raise Misuse(f"line {number} of the policy: {error}") from error
    if not policy.quorum:
        raise Misuse("the policy has no quorum line")
    return policy


def add_line(policy: Policy, words: list[str]) -> None:
    """Take in one line of a policy. Raises Misuse."""
    known = {"none", *policy.witnesses, *policy.groups}
    match words:
        case ["log", key] | ["log", key, _]:
            add_key(policy.logs, read_key(key), {ED25519, ML_DSA})
        case ["witness", name, key] | ["witness", name, key, _] if name not in known:
            others = list(policy.witnesses.values())
            add_key(others, read_key(key), {COSIGNATURE, ML_DSA})
            policy.witnesses[name] = others[-1]
        case ["group", name, least, *members] if name not in known and members:
            policy.groups[name] = read_group(policy, known, least, members), members
        case ["quorum", name] if not policy.quorum and name in known:
            policy.quorum = name
        case _:
            raise Misuse("this is no line of a policy, or names what is not defined, or what is defined twice")


def add_key(keys: list[Key], key: Key, kinds: set[int]) -> None:
    """Add a new key. Raises Misuse."""
    if key.kind not in kinds:
        raise Misuse(f"the key of {key.name} has the type of another use")
    if any(key.material == other.material for other in keys):
        raise Misuse(f"the key of {key.name} is listed twice")
    keys.append(key)


def read_group(policy: Policy, known: set[str], least: str, members: list[str]) -> int:
    """The least number of members of a group. Raises Misuse."""
    taken = {member for _, others in policy.groups.values() for member in others}
    if not known - {"none"} >= set(members) or len(set(members)) < len(members) or taken & set(members):
        raise Misuse("a group has members that are not defined, or that are in a group already")
    count = {"all": len(members), "any": 1}.get(least, int(least) if re.fullmatch("[1-9][0-9]{0,8}", least) else 0)
    if not 1 <= count <= len(members):
        raise Misuse("a group asks for more members than it has, or for none")
    return count


def read_note(data: bytes, what: str) -> Note:
    """Read a signed note."""
    require(len(data) <= MAX_NOTE, f"{what} is too long")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Wrong(f"{what} is not text in UTF-8") from error
    require(not re.search("[\x00-\x09\x0b-\x1f]", text), f"{what} has a control character")
    body, blank, rest = text.rpartition("\n\n")
    require(blank and body and rest.endswith("\n"), f"{what} is no signed note")
    lines = rest[:-1].split("\n")
    require(len(lines) <= MAX_SIGNATURES, f"{what} has too many signatures")
    signatures = []
    for line in lines:
        parts = re.fullmatch(r"— ([^\s+]+) ([A-Za-z0-9+/=]+)", line)
        require(parts, f"{what} has a line among its signatures that is none")
        assert parts is not None
        signature = from_base64(parts[2], f"{what}: a signature")
        require(len(signature) > 4, f"{what} has a signature that is too short")
        signatures.append((parts[1], signature[:4], signature[4:]))
    return Note(f"{body}\n", signatures)


def read_statement(data: bytes, what: str) -> tuple[Note, Checkpoint]:
    """Read what a checkpoint states, whoever signed it."""
    note = read_note(data, what)
    origin, size, root, *more = note.text[:-1].split("\n") if note.text.count("\n") > 2 else ("", "", "")
    require(origin and all(more) and re.fullmatch("0|[1-9][0-9]{0,15}", size), f"{what} is no checkpoint")
    checkpoint = Checkpoint(origin, int(size), from_base64(root, f"{what}: the root"), what)
    require(len(checkpoint.root) == 32, f"{what}: the root is no SHA-256 hash")
    return note, checkpoint


def read_checkpoint(data: bytes, policy: Policy, what: str) -> Checkpoint:
    """Read a checkpoint, and require that the policy holds: signed by the log, and cosigned by enough witnesses."""
    note, checkpoint = read_statement(data, what)
    origin = checkpoint.origin
    logs = [key for key in policy.logs if key.name == origin]
    require(logs, f"{what} is of {origin!r}, and no key of that name was given")
    signed = {key for key in (*logs, *policy.witnesses.values()) if has_signed(note, checkpoint, key)}
    missing = {key.kind for key in logs} - {key.kind for key in logs if key in signed}
    unsigned = signed.isdisjoint(logs) or (policy.every and missing)
    require(not unsigned, f"{what} is not signed by the key of {origin}")
    require(policy.quorum == "none" or policy.met(policy.quorum, signed), f"{what} lacks witnesses: {policy.quorum}")
    return checkpoint


def has_signed(note: Note, checkpoint: Checkpoint, key: Key) -> bool:
    """Whether a key has signed. A bad signature under the key's name and id is Wrong."""
    found = [mark for name, identity, mark in note.signatures if (name, identity) == (key.name, key.id)]
    for signature in found:
        fits = len(signature) == SIGNATURE_BYTES[key.kind]
        holds = fits and verifies(note, checkpoint, key, signature)
        require(holds, f"{checkpoint.told}: the signature of {key.name} does not hold")
    return bool(found)


def verifies(note: Note, checkpoint: Checkpoint, key: Key, signature: bytes) -> bool:
    """Check one signature, with the only code here from outside of the standard library."""
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise CannotCheck("Signatures need the package `cryptography`: pip install cryptography.") from error
    message = note.text.encode()
    if key.kind != ED25519:
        time, signature = struct.unpack(">Q", signature[:8])[0], signature[8:]
        if time >= 2**63:
            return False
        message = f"cosignature/v1\ntime {time}\n".encode() + message
    try:
        if key.kind == ML_DSA:
            try:
                from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey
            except ImportError as error:
                raise CannotCheck("ML-DSA-44 needs a later release of `cryptography`.") from error
            name, origin = key.name.encode(), checkpoint.origin.encode()
            if len(name) > 255 or len(origin) > 255:
                return False
            message = b"subtree/v1\n\0" + bytes([len(name)]) + name + struct.pack(">Q", time)
            message += bytes([len(origin)]) + origin + struct.pack(">QQ", 0, checkpoint.size) + checkpoint.root
            MLDSA44PublicKey.from_public_bytes(key.material).verify(signature, message)
        else:
            Ed25519PublicKey.from_public_bytes(key.material).verify(signature, message)
    except InvalidSignature:
        return False
    except UnsupportedAlgorithm as error:
        raise CannotCheck("This installation of `cryptography` lacks ML-DSA-44.") from error
    except ValueError as error:
        raise Misuse(f"the key of {key.name} is none") from error
    return True


def compare(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Order checkpoints of one log by size. Raises Fork for two roots of one size, Misuse for two logs."""
    ordered = sorted(checkpoints, key=lambda checkpoint: checkpoint.size)
    for one, other in itertools.pairwise(ordered):
        if one.origin != other.origin:
            raise Misuse(f"{one.told} and {other.told} are of two origins; check one after the other")
        if one.size == other.size and one.root != other.root:
            raise Fork(f"{one.told} and {other.told} are both signed, both of size {one.size}, and have other roots")
    if ordered and ordered[0].size == 0:
        require(ordered[0].root == sha256(), f"{ordered[0].told}: an empty log has another root")
    return ordered


# ---- events -------------------------------------------------------------------------------------------------------


def envelope_of(event: dict[str, Any], recorded_at: int) -> bytes:
    """The canonical form of an event's envelope, whose hash is the leaf."""
    (
        actor,
        kind_of_actor,
        cause,
        _,
        command,
        thread,
        event_id,
        kind,
        _,
        payload_hash,
        project,
        request,
        stream,
        topic,
    ) = [_quote(event[name]) for name in TEXTS]
    form = (
        f'{{"actor_id":{actor},"actor_kind":{kind_of_actor},"causation_id":{cause},"command_id":{command},'
        f'"correlation_id":{thread},"event_id":{event_id},"kind":{kind},"payload_hash":{payload_hash},'
        f'"project_id":{project},"recorded_at":{recorded_at},"request_id":{request},"revision":{event["revision"]},'
        f'"stream_id":{stream},"topic":{topic}}}'
    )
    return encoded(form)


def encoded(text: str) -> bytes:
    """Text as bytes."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Wrong("half a surrogate pair is not text") from error


def hash_event(event: dict[str, Any], recorded_at: int, place: str, payload: bytes) -> bytes:
    """Recompute payload hash and leaf of an event. With payload and salt both null they were erased."""
    salt = event["salt"]
    if event["payload"] is not None or salt is not None:
        require(type(event["payload"]) is dict, f"{place}: the payload is missing")
        require(type(salt) is str, f"{place}: salt is not text")
        require(_hex(salt), f"{place}: the salt is not in hex")
        payload_hash = hashlib.sha256(bytes.fromhex(salt) + payload).hexdigest()
        require(event["payload_hash"] == payload_hash, f"{place}: payload, salt or payload_hash was altered")
    leaf = hashlib.sha256(b"\x00" + envelope_of(event, recorded_at)).digest()
    require(event["leaf"] == leaf.hex(), f"{place}: the envelope or its leaf was altered")
    return leaf


def check_event(event: Any, stream: dict[str, Any], revision: int, previous: bytes, place: str) -> bytes:
    """Recompute one event's hashes within its stream; returns its chain hash. Here nothing may be erased."""
    has_members(event, EVENT, place, "position", "payload")
    for name in ("project_id", "stream_id", "kind"):
        require(event[name] == stream[name], f"{place}: {name} is not that of its stream")
    require(event["revision"] == revision, f"{place}: another revision stands in its place")
    leaf = hash_event(event, event["recorded_at"], place, canonical(event["payload"]))
    chain = sha256(b"\x02", previous, leaf)
    require(event["chain"] == chain.hex(), f"{place}: the chain is broken")
    return chain


# ---- what stands beside: leaf hashes of tiles, or of an older export ----------------------------------------------


class KeptLeaves(NamedTuple):
    """KeptLeaves leaf hashes, one after the other from position 1, and the number of them below a checkpoint."""

    leaves: bytes
    told: str
    covered: int = 0

    def leaf(self, position: int) -> bytes:
        """The leaf hash at a position; empty where none was kept."""
        return self.leaves[32 * (position - 1) : 32 * position]

    def tree_sizes(self, sizes: Iterable[int]) -> dict[int, bytes]:
        """The roots at these sizes, as far as leaves were kept."""
        tree, roots, wanted = Tree(), {}, set(sizes)
        for start in range(0, len(self.leaves), 32):
            tree.append(self.leaves[start : start + 32])
            if tree.size in wanted:
                roots[tree.size] = tree.root()
        return roots


def tile_name(number: int) -> str:
    """The path of a tile of the lowest level."""
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.insert(0, f"x{number % 1000:03}")
    return "/".join(groups)


def read_tiles(folder: Path) -> bytes:
    """Read the leaf hashes of tiles saved under `folder`, as `tile/0/…` or `0/…` (C2SP tlog-tiles)."""
    level = next((place for place in (folder / "tile" / "0", folder / "0") if place.is_dir()), None)
    if level is None:
        raise Misuse(f"{folder} has no tiles of the lowest level: tile/0/…")
    leaves = bytearray()
    while True:
        full = level / tile_name(len(leaves) // 8192)
        if full.is_file():
            data = full.read_bytes()
            require(len(data) == 8192, f"{full} is no whole tile")
            leaves += data
            continue
        parts = full.parent.glob(f"{full.name}.p/*")
        widths = [int(part.name) for part in parts if re.fullmatch("[1-9][0-9]{0,2}", part.name)]
        if widths:
            part = full.parent / f"{full.name}.p" / str(max(widths))
            data = part.read_bytes()
            require(len(data) == 32 * max(widths), f"{part} is no part of a tile")
            leaves += data
        return bytes(leaves)


def read_older(path: Path) -> bytes:
    """Read the leaf hashes of an older export of the whole log."""
    leaves = bytearray()
    with path.open("rb") as file:
        for line in lines_of(file):
            event = load_line(line)
            good = isinstance(event, dict) and event.get("position") == len(leaves) // 32 + 1
            require(good, "the older export is not of the whole log, from position 1 on")
            leaf = event.get("leaf")
            require(isinstance(leaf, str) and re.fullmatch("[0-9a-f]{64}", leaf), "the older export lacks a leaf")
            leaves += entry(bytes.fromhex(leaf))
    return bytes(leaves)


def authenticate(kept: KeptLeaves, checkpoints: list[Checkpoint]) -> KeptLeaves:
    """Cut kept hashes off where no checkpoint covers them, if one does. Raises Wrong where they fit none, or a fork."""
    roots = kept.tree_sizes(checkpoint.size for checkpoint in checkpoints)
    fitting = [checkpoint for checkpoint in checkpoints if roots.get(checkpoint.size) == checkpoint.root]
    others = [c for c in checkpoints if c.size in roots and c not in fitting]
    if not fitting:
        require(not others, f"{kept.told} has another root than {others[0].told if others else ''}")
        return kept
    find_fork(fitting, others, kept.told)
    size = fitting[-1].size
    return KeptLeaves(kept.leaves[: 32 * size], f"{kept.told}, which {fitting[-1].told} covers", size)


def find_fork(fitting: list[Checkpoint], others: list[Checkpoint], told: str, position: int | None = None) -> None:
    """Raise Fork for a smaller checkpoint against hashes proven by a larger one."""
    for other in others:
        if fitting and other.size <= fitting[-1].size:
            since = max((c.size for c in fitting if c.size < other.size), default=0) + 1
            where = f"between positions {since} and {other.size}" if position is None else f"at position {position}"
            raise Fork(
                f"{other.told} (size {other.size}) and {fitting[-1].told} (size {fitting[-1].size}) are both signed, "
                f"and {told} fits only the second; they part {where}",
                position,
            )


# ---- exports ------------------------------------------------------------------------------------------------------


def lines_of(file: IO[bytes] | Content) -> Iterator[bytes]:
    """The lines of a file, each of bounded length and whole."""
    while line := file.readline(MAX_LINE + 1):
        require(len(line) <= MAX_LINE, f"a line is longer than {MAX_LINE} bytes")
        require(line.endswith(b"\n"), "the last line is cut off")
        yield line[:-1]


@dataclass
class Export:
    """An export as it is read: whole, or with `project` of one project alone, whose positions have gaps.

    It begins after position `after`. Topics that it `withholds` may lack their payloads.
    """

    project: str | None = None
    after: int = 0
    withholds: tuple[str, ...] = ()
    withheld: int = 0
    count: int = 0
    last: int = 0
    streams: dict[tuple[str, str], tuple[str, int, bytes]] = field(default_factory=dict)
    gone: dict[str, tuple[int, int]] = field(default_factory=dict)
    erased: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.last = self.after

    def read(self, line: bytes) -> tuple[int, bytes]:
        """Check the next event; returns its position and its hash in the tree. Raises Wrong with the position."""
        try:
            event = load(line, _quick)
            try:
                self.check_members(event)
            except Wrong:
                load_line(line)  # What is no JSON in the one form is told first.
                raise
            payload = canonical(event["payload"])
            if line_of(event, payload) != line:
                load_line(line)
            return self.check(event, payload)
        except Wrong as error:
            raise Wrong(str(error), self.last + 1 if error.position is None else error.position) from error

    def check_members(self, event: Any) -> None:
        """Require that this is an event."""
        require(type(event) is dict and event.keys() == EVENT, "this is no event, or lacks members, or has others")
        numbers = type(event["position"]) is int and type(event["revision"]) is int
        require(numbers, "position or revision is no number")
        require(all([type(event[name]) is str for name in TEXTS]), "a member is not text")  # noqa: C419 - faster
        require(type(event["recorded_at"]) is str, "recorded_at is no time")

    def check(self, event: dict[str, Any], payload: bytes) -> tuple[int, bytes]:
        """Check one event against those before it."""
        position, revision = event["position"], event["revision"]
        self.check_position(position, event["project_id"])
        name = (event["project_id"], event["stream_id"])
        place = f"{name[1]} revision {revision}"
        try:
            leaf = hash_event(event, microseconds(event["recorded_at"]), place, payload)
            self.check_chain(event, name, leaf, place)
        except Wrong as error:
            raise Wrong(str(error), position) from error
        self.note_erasure(event, position)
        self.last, self.count = position, self.count + 1
        return position, entry(leaf)

    def check_position(self, position: int, project_id: str) -> None:
        """Require the next position, and the one project."""
        if self.project is None:
            follows = position == self.last + 1
            require(follows, f"position {self.last + 1} is missing; {position} stands in its place", self.last + 1)
        else:
            require(position > self.last, f"position {position} does not follow position {self.last}", self.last + 1)
            require(project_id == self.project, f"an event of {project_id} is among those of {self.project}", position)

    def check_chain(self, event: dict[str, Any], name: tuple[str, str], leaf: bytes, place: str) -> None:
        """Require that the event follows the one before it in its stream."""
        kind, revision, chain = event["kind"], event["revision"], event["chain"]
        before = self.streams.get(name)
        if before is None and self.after and revision > 1:  # Its beginning is not in this file.
            require(re.fullmatch("[0-9a-f]{64}", chain), f"{place}: the chain is no hash")
            self.streams[name] = kind, revision, bytes.fromhex(chain)
            return
        was, last, previous = before or (kind, 0, START)
        require(revision == last + 1, f"{place}: revision {last + 1} of the stream is missing before it")
        require(kind == was, f"{place}: kind is not that of its stream")
        made = hashlib.sha256(b"\x02" + previous + leaf).digest()
        require(chain == made.hex(), f"{place}: the chain is broken")
        self.streams[name] = kind, revision, made

    def note_erasure(self, event: dict[str, Any], position: int) -> None:
        """Count missing payloads, and note the deletions."""
        if event["payload"] is None and event["topic"].rpartition(".")[0] in self.withholds:
            self.withheld += 1
        elif event["payload"] is None:
            count, first = self.gone.get(event["project_id"], (0, position))
            self.gone[event["project_id"]] = count + 1, first
        elif event["topic"] == ERASURE:
            self.erased[str(event["payload"].get("scope_id"))] = event["project_id"]

    def end(self) -> list[str]:
        """Lines about erased payloads. Raises Wrong for the first one without a deletion."""
        said = []
        for scope, (count, first) in sorted(self.gone.items(), key=lambda item: item[1][1]):
            known = self.erased.get(scope)
            require(known, f"the payloads of {count} events of {scope} are gone, and no deletion says why", first)
            said.append(f"Erased: the payloads of {count} events of {scope}, by deletion {known}. Their hashes hold.")
        return said


def line_of(event: dict[str, Any], payload: bytes) -> bytes:
    """The canonical form of an event with members of the right types and a payload in this form."""
    actor, kind_of_actor, cause, chain, command, thread, event_id, kind, leaf, payload_hash, *more = [
        _quote(event[name]) for name in TEXTS
    ]
    project, request, stream, topic = more
    start = (
        f'{{"actor_id":{actor},"actor_kind":{kind_of_actor},"causation_id":{cause},"chain":{chain},'
        f'"command_id":{command},"correlation_id":{thread},"event_id":{event_id},"kind":{kind},"leaf":{leaf},"payload":'
    )
    salt = canonical(event["salt"]).decode()
    end = (
        f',"payload_hash":{payload_hash},"position":{event["position"]},"project_id":{project},'
        f'"recorded_at":{_quote(event["recorded_at"])},"request_id":{request},"revision":{event["revision"]},'
        f'"salt":{salt},"stream_id":{stream},"topic":{topic}}}'
    )
    return encoded(start) + payload + encoded(end)


def microseconds(text: str) -> int:
    """Microseconds since the epoch of a time as exports write it, and in no other form."""
    try:
        moment = datetime.fromisoformat(text)
        good = text.endswith("+00:00") and moment.isoformat() == text
    except (TypeError, ValueError):
        good = False
    require(good, "recorded_at is no time in UTC, in the form of exports")
    days = moment.toordinal() - EPOCH
    return (
        ((days * 24 + moment.hour) * 60 + moment.minute) * 60_000_000 + moment.second * 1_000_000 + moment.microsecond
    )


class Findings(NamedTuple):
    """The result of a good file: its events, its last position, the last one below a checkpoint, and more to say."""

    events: int
    last: int
    covered: int
    said: list[str]


def check_export(
    file: IO[bytes],
    checkpoints: list[Checkpoint],
    kept: KeptLeaves | None = None,
    *,
    project: str | None = None,
    after: int = 0,
) -> Findings:
    """Check an export. Raises Wrong, or Fork, with the first position that is wrong."""
    checkpoints, kept = settle(checkpoints, kept)
    export, tree = Export(project, after), Tree()
    gaps = project is not None
    watch = Watch(checkpoints, kept, tree, alone=gaps or after > 0, gaps=gaps, seen=after)
    try:
        for line in lines_of(file):
            watch.look(*export.read(line))
        said = export.end()
    except Wrong as error:
        place = export.last + 1 if error.position is None else error.position
        watch.end(place - 1)  # What checkpoints know of the positions before comes first.
        raise Wrong(str(error), place) from error
    require(export.count or checkpoints, "the file is empty")
    covered = watch.end(None)
    return Findings(export.count, export.last, covered, said)


def settle(checkpoints: list[Checkpoint], kept: KeptLeaves | None) -> tuple[list[Checkpoint], KeptLeaves | None]:
    """Order the checkpoints, and cut kept hashes to them."""
    checkpoints = compare(checkpoints)
    return checkpoints, None if kept is None else authenticate(kept, checkpoints)


@dataclass
class Watch:
    """Compares the passing leaves of an export with checkpoints, and with kept hashes.

    Without the whole log its tree cannot be made (`alone`), and only kept hashes can speak of the export. That of one
    project has `gaps`.
    """

    checkpoints: list[Checkpoint]
    kept: KeptLeaves | None
    tree: Tree
    alone: bool = False
    gaps: bool = False
    seen: int = 0
    differs: int | None = None
    fitting: list[Checkpoint] = field(default_factory=list)
    others: list[Checkpoint] = field(default_factory=list)

    def look(self, position: int, leaf: bytes) -> None:
        """Take in the next leaf."""
        if self.kept is not None and self.differs is None:
            known = self.kept.leaf(position)
            if known and known != leaf:
                self.differs = position
        self.seen = position
        if self.alone:
            return
        self.tree.append(leaf)
        while self.next_size() == position:
            checkpoint = self.checkpoints[len(self.fitting) + len(self.others)]
            (self.fitting if self.tree.root() == checkpoint.root else self.others).append(checkpoint)

    def next_size(self) -> int | None:
        """The size of the next checkpoint, above 0."""
        while len(self.fitting) + len(self.others) < len(self.checkpoints):
            checkpoint = self.checkpoints[len(self.fitting) + len(self.others)]
            if checkpoint.size:
                return checkpoint.size
            self.fitting.append(checkpoint)
        return None

    def end(self, limit: int | None) -> int:
        """Judge; returns the last position below a checkpoint. Raises Wrong or Fork.

        With a limit, another fault lies right behind it, and only faults up to there count.
        """
        differs = self.differs if limit is None or (self.differs or 0) <= limit else None
        find_fork(self.fitting, self.others, "the export", differs)
        if differs is not None:
            assert self.kept is not None
            raise Wrong(f"another event stands here than in {self.kept.told}", differs)
        if self.others:
            first = self.others[0]
            since = self.fitting[-1].size + 1 if self.fitting else 1
            most = len(self.kept.leaves) // 32 if self.kept is not None else 0
            since = max(since, most + 1) if most < first.size else since
            raise Wrong(
                f"the tree has another root than {first.told}: something between positions {since} and {first.size} "
                "was changed; kept tiles or an older export would tell where"
            )
        if limit is not None:
            return limit
        last = self.checkpoints[-1] if self.checkpoints else None
        if last is not None and last.size > self.seen and not self.gaps:
            raise Wrong(
                f"the log ends after position {self.seen}, but {last.told} covers {last.size} events", self.seen + 1
            )
        if self.alone:
            return 0 if self.kept is None else self.kept.covered
        return self.fitting[-1].size if self.fitting else 0


# ---- proofs of inclusion ------------------------------------------------------------------------------------------


def check_inclusion(leaf: bytes, position: int, path: Any, checkpoint: Checkpoint) -> None:
    """Check that a leaf stands at its position in the tree of a checkpoint."""
    place = f"position {position}"
    require(isinstance(path, list) and len(path) <= 64, f"{place}: its inclusion proof is no list", position)
    hashes = []
    for text in path:
        require(isinstance(text, str), f"{place}: a hash of its inclusion proof is not text", position)
        hashes.append(from_base64(text, f"{place}: a hash of its inclusion proof"))
        require(len(hashes[-1]) == 32, f"{place}: a hash of its inclusion proof has another length", position)
    root = root_of_path(position - 1, checkpoint.size, leaf, hashes)
    require(root == checkpoint.root, f"{place}: the event is not in the tree of {checkpoint.told}", position)


# ---- proofs of runs -----------------------------------------------------------------------------------------------


def check_stream(stream: Any, project_id: str) -> None:
    """Check one stream from its first event to its head."""
    has_members(stream, STREAM, "a stream", "head", "events")
    name, events, head = stream["stream_id"], stream["events"], stream["head"]
    require(isinstance(events, list) and events, f"{name}: it has no events")
    has_members(head, {"revision", "chain"}, f"{name}: its head")
    require(stream["project_id"] == project_id, f"{name}: it belongs to another project")
    chain, last = START, 0
    for revision, event in enumerate(events, 1):
        place = f"{name} revision {revision}"
        chain = check_event(event, stream, revision, chain, place)
        position = event["position"]
        follows = type(position) is int and last is not None and position > last
        require(follows or position is None, f"{place}: its position does not follow the one before it")
        last = position
    require(
        head == {"revision": len(events), "chain": chain.hex()},
        f"{name} revision {len(events)}: this is not its head; events are missing, or the head was altered",
    )


def names_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Find every member of a payload that names a stream."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in members:
        inside = f"{path}.{name}" if path else str(name)
        if name in NAMING and item is not None:
            yield inside, item
        elif name in {"expired", "cancelled"} and isinstance(item, list):
            yield from ((f"{inside}.{index}", named) for index, named in enumerate(item))
        else:
            yield from names_in(item, inside)


def check_links(document: dict[str, Any]) -> None:
    """Check that each named stream is there, that all of them hang on the run, and the list of links."""
    run, streams = document["run_id"], {stream["stream_id"]: stream for stream in document["streams"]}
    require(len(streams) == len(document["streams"]), "a stream is there twice")
    require(run in streams, "the run itself is missing")
    require([stream["kind"] for stream in streams.values()].count("run") == 1, "there are several runs")
    links: dict[bytes, str] = {}
    tied: dict[str, set[str]] = {name: set() for name in streams}
    for name, stream in streams.items():
        for event in stream["events"]:
            for member, named in names_in(event["payload"]):
                place = f"{name} revision {event['revision']}: {member}"
                require(isinstance(named, str) and named in streams, f"{place} names {named}, which is missing")
                if named != name:
                    link = {"stream_id": name, "revision": event["revision"], "member": member, "names": named}
                    links[canonical(link)] = place
                    tied[name].add(named)
                    tied[named].add(name)
    reached, queue = {run}, [run]
    while queue:
        new = tied[queue.pop()] - reached
        reached |= new
        queue += new
    for name in streams:
        require(name in reached, f"{name} revision 1: nothing ties this stream to the run")
    require(isinstance(document["links"], list), "links is no list")
    listed = [canonical(link) for link in document["links"]]
    for form, place in links.items():
        require(listed.count(form) == 1, f"{place} is not listed among the links, or twice")
    require(len(listed) == len(links), "a link is listed that no event makes")


def check(document: Any) -> None:
    """Check a whole run proof but for its checkpoint. Raises Wrong for the first thing that is wrong."""
    newer = isinstance(document, dict) and document.get("format") == FORMATS[1]
    has_members(document, PROVEN if newer else DOCUMENT, "the document", "streams", "links", "checkpoint", "inclusion")
    require(document["format"] in FORMATS, f"the format is not {FORMATS[0]}")
    require(isinstance(document["streams"], list), "streams is no list")
    for stream in document["streams"]:
        check_stream(stream, document["project_id"])
    check_links(document)
    digest = sha256(canonical({name: item for name, item in document.items() if name != "document_sha256"}))
    require(document["document_sha256"] == digest.hex(), "document_sha256 is not that of the document")


def check_covered(document: dict[str, Any], policy: Policy) -> tuple[Checkpoint | None, list[int | None]]:
    """Check the inclusion of a run proof's events; returns its checkpoint, and the positions above it."""
    events = [event for stream in document["streams"] for event in stream["events"]]
    places = {event["position"]: entry(bytes.fromhex(event["leaf"])) for event in events if event["position"]}
    require(len(places) == sum(event["position"] is not None for event in events), "two events have one position")
    text, proofs = document.get("checkpoint"), document.get("inclusion", [])
    require(isinstance(proofs, list), "inclusion is no list")
    if text is None:
        require(not proofs, "there are inclusion proofs, and no checkpoint")
        return None, [event["position"] for event in events]
    require(isinstance(text, str), "checkpoint is not text")
    checkpoint = read_checkpoint(encoded(text), policy, "the checkpoint of the proof")
    proven = set()
    for proof in proofs:
        require(isinstance(proof, dict) and proof.keys() == {"position", "hashes"}, "an inclusion proof is none")
        position = proof["position"]
        known = type(position) is int and position in places and position not in proven
        require(known, f"an inclusion proof is of position {position}, of which there is no event, or another proof")
        check_inclusion(places[position], position, proof["hashes"], checkpoint)
        proven.add(position)
    left = [event["position"] for event in events if event["position"] not in proven]
    for position in left:
        newer = position is None or position > checkpoint.size
        require(newer, f"position {position} lacks its inclusion proof", position)
    return checkpoint, left


class TlogProof(NamedTuple):
    """A `.tlog-proof`: where an entry stands, its way to the root, the checkpoint, and further data."""

    entry: int
    path: list[str]
    note: bytes
    extra: bytes | None


def read_tlog_proof(data: bytes) -> TlogProof:
    """Read a proof in the form of C2SP tlog-proof."""
    head, blank, note = data.partition(b"\n\n")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise Wrong("the proof is not text in ASCII") from error
    require(blank and lines.pop(0) == TLOG_PROOF, f"this is no {TLOG_PROOF}")
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = from_base64(lines.pop(0)[6:], "extra")
    index = re.fullmatch("index (0|[1-9][0-9]{0,15})", lines.pop(0)) if lines else None
    require(index, "the proof has no index")
    assert index is not None
    return TlogProof(int(index[1]), lines, note, extra)


def check_tlog_proof(data: bytes, policy: Policy) -> tuple[dict[str, Any], Checkpoint, list[int | None]]:
    """Check a `.tlog-proof` with a run proof as extra data: the entry at its index is an event of that run."""
    proof = read_tlog_proof(data)
    checkpoint = read_checkpoint(proof.note, policy, "the checkpoint of the proof")
    require(proof.extra is not None, "the proof carries no run proof as extra data")
    document = load(proof.extra or b"")
    check(document)
    inner, left = check_covered(document, policy)
    require(inner is not None and inner[:3] == checkpoint[:3], "the run proof names another checkpoint")
    events = {event["position"]: event for stream in document["streams"] for event in stream["events"]}
    position = proof.entry + 1
    require(position in events, f"the run has no event at position {position}", position)
    check_inclusion(entry(bytes.fromhex(events[position]["leaf"])), position, proof.path, checkpoint)
    return document, checkpoint, left


# ---- archives of projects -----------------------------------------------------------------------------------------

ARCHIVES = ("service-archive-1", "service-archive-2")  # the first has comments and runs in the lines of cases
MANIFEST_NAME, BLOCK = "manifest.json", 512
WITHHELD_BEFORE = ("credential.created", "project.created", "project.dsn_rotated", "publication.published")
WITHHELD = (*WITHHELD_BEFORE, "project.public_dsn_rotated")
MANIFEST = {
    *("format", "project_id", "made_at", "log_size", "events", "first_position", "last_position", "checkpoint"),
    *("withheld", "parts", "left_out", "manifest_sha256"),
}
PART_NAME = re.compile(r"[a-z0-9_]+(/[A-Za-z0-9_]+)*(\.[a-z]+)?").fullmatch


class PartHeader(NamedTuple):
    """The header of a part of an archive."""

    name: str
    size: int
    modified_at: int


@dataclass
class Archive:
    """An archive as it is read: its parts as they are, and what hangs together in them."""

    policy: Policy | None
    export: Export | None = None
    parts: list[dict[str, Any]] = field(default_factory=list)
    times: set[int] = field(default_factory=set)
    places: list[int] = field(default_factory=list)
    leaves: list[bytes] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    note: str = ""
    beside: list[bytes] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    manifest: Any = None

    def read(self, file: IO[bytes]) -> None:
        """Read all parts. Raises Wrong with the name of the part that is wrong."""
        while (part := read_header(file, len(self.parts) + 1)) is not None:
            try:
                require(self.manifest is None, "it comes after the manifest")
                self.read_part(part, file)
            except Wrong as error:
                raise Wrong(f"{part.name}: {error}", error.position) from error
            self.times.add(part.modified_at)
        require(file.read(BLOCK) == bytes(BLOCK) and not file.read(1), "the archive does not end where it should")
        require(self.manifest is not None, "the archive has no manifest: it was cut off")

    def read_part(self, part: PartHeader, file: IO[bytes]) -> None:
        """Read one part by its kind, and hash it."""
        content = Content(file, part.size)
        kind = part.name.partition("/")[0]
        if kind == "events":
            self.read_events(content)
        elif part.name == "checkpoint":
            self.read_note(content.whole())
        elif part.name.startswith("proofs/tree/"):
            self.read_hashes(content)
        elif kind == "proofs":
            self.read_run(content.whole())
        elif part.name == MANIFEST_NAME:
            self.read_manifest(content.whole())
        content.skip()
        require(file.read(-part.size % BLOCK) == bytes(-part.size % BLOCK), "it is cut off, or followed by more")
        if self.manifest is None:
            found = {"name": part.name, "sha256": content.hash.hexdigest(), "bytes": part.size, "lines": content.lines}
            self.parts.append(found)

    def read_events(self, content: Content) -> None:
        """Read events in the form of exports, of one project."""
        for line in lines_of(content):
            if self.export is None:
                self.export = Export(project_of(line), withholds=WITHHELD)
            position, leaf = self.export.read(line)
            self.places.append(position - 1)
            self.leaves.append(leaf)

    def read_note(self, data: bytes) -> None:
        """Read the checkpoint. Without keys it only states."""
        require(self.checkpoint is None, "there are two checkpoints")
        what = "the checkpoint of the archive"
        self.note = data.decode("utf-8", "replace")
        self.checkpoint = read_checkpoint(data, self.policy, what) if self.policy else read_statement(data, what)[1]

    def read_hashes(self, content: Content) -> None:
        """Read hashes of the tree, one a line."""
        for line in lines_of(content):
            hash_ = from_base64(line.decode("ascii", "replace"), "a hash")
            require(len(hash_) == 32, "a hash has another length")
            self.beside.append(hash_)

    def read_run(self, data: bytes) -> None:
        """Check the proof of a run."""
        document = load(data)
        check(document)
        require(document.get("checkpoint") == (self.note or None), "the proof has another checkpoint than the archive")
        if self.policy is not None:
            check_covered(document, self.policy)
        self.runs.append(document)

    def read_manifest(self, data: bytes) -> None:
        """Read the manifest, which proves itself alone."""
        manifest = load(data)
        require(isinstance(manifest, dict) and canonical(manifest) == data, "it is not in canonical form")
        has_members(manifest, MANIFEST, "it", *(MANIFEST - {"format", "project_id", "manifest_sha256"}))
        require(manifest["format"] in ARCHIVES, f"the format is none of {', '.join(ARCHIVES)}")
        rest = {name: value for name, value in manifest.items() if name != "manifest_sha256"}
        require(manifest["manifest_sha256"] == sha256(canonical(rest)).hex(), "manifest_sha256 is not that of the rest")
        require(isinstance(manifest["parts"], list), "parts is no list")
        require(isinstance(manifest["left_out"], list), "left_out is no list")
        for left in manifest["left_out"]:
            has_members(left, {"what", "why"}, "what is left out")
        self.manifest = manifest

    def withheld_topics(self) -> tuple[str, ...]:
        """The topics without payloads in archives of this form."""
        return WITHHELD_BEFORE if self.manifest["format"] == ARCHIVES[0] else WITHHELD

    def end(self) -> Findings:
        """Compare the parts with the manifest, and the events with the tree."""
        self.compare_parts()
        export = self.export or Export(self.manifest["project_id"])
        said = export.end()
        told = [self.manifest[name] for name in ("project_id", "events", "first_position", "last_position")]
        ends = [self.places[0] + 1, self.places[-1] + 1] if self.places else [None, None]
        require(told == [export.project, export.count, *ends], "manifest.json: the events are not those that it tells")
        withheld = {"payloads": export.withheld, "topics": list(self.withheld_topics())}
        require(self.manifest["withheld"] == withheld, "manifest.json: withheld is not what is withheld")
        for document in self.runs:
            require(document["project_id"] == export.project, f"{document['run_id']}: this run is of another project")
        if export.withheld:
            said.append(f"Withheld: {export.withheld} payloads with hashes of secrets. Their own hashes hold.")
        return Findings(export.count, export.last, self.prove(), said)

    def compare_parts(self) -> None:
        """Require the parts that the manifest lists, in their order, all of one time."""
        listed = self.manifest["parts"]
        for told, found in zip(listed, self.parts, strict=False):
            require(told == found, f"{found['name']}: the part is not as the manifest tells it")
        names = [part["name"] for part in self.parts]
        require(len(listed) == len(names) == len(set(names)), "manifest.json: parts are missing, or there are others")
        require([*self.times] == [self.manifest["made_at"]], "manifest.json: the parts are of another time")

    def prove(self) -> int:
        """Prove all events to be in the tree of the checkpoint; returns its size, or 0 without one."""
        stated = self.manifest["checkpoint"]
        if self.checkpoint is None:
            require(stated is None and not self.beside, "manifest.json: the checkpoint is missing")
            return 0
        checkpoint = self.checkpoint
        told = {"origin": checkpoint.origin, "size": checkpoint.size, "root": checkpoint.root.hex()}
        require(stated == told, "manifest.json: it tells of another checkpoint")
        size = self.manifest["log_size"]
        least = max([checkpoint.size, *(place + 1 for place in self.places[-1:])])
        require(type(size) is int and size >= least, "manifest.json: log_size is odd")
        covered = bisect.bisect_left(self.places, checkpoint.size)
        hashes = iter(self.beside)
        root = root_with(0, checkpoint.size, self.places[:covered], self.leaves, hashes)
        require(root == checkpoint.root, "proofs/tree: the events are not in the tree of the checkpoint")
        require(next(hashes, None) is None, "proofs/tree: there are more hashes than the proof needs")
        return checkpoint.size


def root_with(low: int, high: int, places: list[int], leaves: list[bytes], beside: Iterator[bytes]) -> bytes:
    """The root over a part of the tree: of the leaves at these places, and of hashes of all that is beside them."""
    first = bisect.bisect_left(places, low)
    if high == 0:
        return sha256()
    if first == len(places) or places[first] >= high:
        hash_ = next(beside, None)
        require(hash_ is not None, "proofs/tree: hashes are missing")
        return hash_ or b""
    if high - low == 1:
        return leaves[first]
    middle = low + (1 << (high - low - 1).bit_length() - 1)
    left = root_with(low, middle, places, leaves, beside)
    return join(left, root_with(middle, high, places, leaves, beside))


class Content:
    """The content of one part, which ends where the part ends, and is hashed as it is read."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file = file
        self.left = size
        self.hash = hashlib.sha256()
        self.lines = 0

    def readline(self, most: int) -> bytes:
        """Read up to the end of a line."""
        return self.note(self.file.readline(min(most, self.left)))

    def whole(self) -> bytes:
        """Read all of it, up to a bound."""
        require(self.left <= MAX_DOCUMENT, "it is too long")
        return self.note(self.file.read(self.left))

    def skip(self) -> None:
        """Read what is left, for its hash alone."""
        while self.left and self.note(self.file.read(min(self.left, 1 << 20))):
            pass
        require(self.left == 0, "it is cut off")

    def note(self, data: bytes) -> bytes:
        """Take in what was read."""
        self.left -= len(data)
        self.hash.update(data)
        self.lines += data.count(b"\n")
        return data


def read_header(file: IO[bytes], number: int) -> PartHeader | None:
    """Read the header of a part; None at the end. A part has one possible header (POSIX ustar)."""
    data = file.read(BLOCK)
    require(len(data) == BLOCK, f"part {number} of the archive is missing: it is cut off")
    if data == bytes(BLOCK):
        return None
    name, size, moment = data[:100].rstrip(b"\0").decode("ascii", "replace"), data[124:135], data[136:147]
    good = PART_NAME(name) and re.fullmatch(b"[0-7]{11}", size) and re.fullmatch(b"[0-7]{11}", moment)
    require(good, f"part {number} of the archive has an odd header")
    part = PartHeader(name, int(size, 8), int(moment, 8))
    require(data == header_of(part), f"part {number} of the archive has an odd header: {name}")
    return part


def header_of(part: PartHeader) -> bytes:
    """The header of a part."""
    start = part.name.encode().ljust(100, b"\0") + b"0000644\x000000000\x000000000\0"
    start += b"%011o\0%011o\0" % (part.size, part.modified_at)
    rest = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
    return start + b"%06o\0 " % sum(start + b" " * 8 + rest) + rest


def project_of(line: bytes) -> str:
    """The project of the first event."""
    event = load_line(line)
    project_id = event.get("project_id") if isinstance(event, dict) else None
    require(isinstance(project_id, str), "the first event is none")
    return str(project_id)


# ---- the command --------------------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    told = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=told[0], epilog=told[2], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file", nargs="?", type=Path, help="export, archive, run proof, .tlog-proof or sums; default: stdin"
    )
    parser.add_argument("--key", action="append", default=[], metavar="VKEY", help="the log's key, or @FILE")
    parser.add_argument("--policy", type=Path, help="a C2SP tlog-policy: logs, witnesses and the quorum")
    parser.add_argument("--checkpoint", action="append", default=[], type=Path, metavar="FILE", help="one you kept")
    parser.add_argument("--tiles", type=Path, metavar="DIR", help="saved tiles, by which a changed position is found")
    parser.add_argument("--older", type=Path, metavar="FILE", help="an older export of the whole log, for the same")
    parser.add_argument("--consistency", type=Path, metavar="FILE", help="proof between two checkpoints")
    parser.add_argument("--compare", action="store_true", help="compare the checkpoints alone; no FILE is read")
    parser.add_argument("--project", help="the export is of this project alone")
    parser.add_argument("--after", type=int, default=0, help="the export begins after this position")
    given = sys.argv[1:] if arguments is None else arguments
    word = given[0] if given and given[0] in {"archive", "sums"} else ""
    asked = parser.parse_args(given[1:] if word else given)
    asked.archive, asked.sums = word == "archive", word == "sums"
    return asked


def policy_of(asked: argparse.Namespace) -> Policy | None:
    """The policy from the options; None without a key."""
    if asked.policy is not None and asked.key:
        raise Misuse("give --key or --policy, not both")
    if asked.policy is not None:
        return read_policy(asked.policy.read_bytes())
    policy = Policy(every=True)
    for text in asked.key:
        words = Path(text[1:]).read_text().split("\n") if text.startswith("@") else [text]
        for word in words:
            if word.strip():
                add_key(policy.logs, read_key(word), {ED25519, ML_DSA})
    return policy if policy.logs else None


def kept_of(asked: argparse.Namespace) -> KeptLeaves | None:
    """The kept leaf hashes."""
    if asked.tiles is not None and asked.older is not None:
        raise Misuse("give --tiles or --older, not both")
    if asked.tiles is not None:
        return KeptLeaves(read_tiles(asked.tiles), "the tiles")
    return None if asked.older is None else KeptLeaves(read_older(asked.older), "the older export")


def run(asked: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Do the command; returns the exit code."""
    policy = policy_of(asked)
    if policy is None and (asked.checkpoint or asked.consistency):
        raise Misuse("checkpoints need the key that must have signed them: --key or --policy")
    checkpoints = [read_checkpoint(path.read_bytes(), policy, str(path)) for path in asked.checkpoint] if policy else []
    if asked.consistency is not None:
        return check_growth(asked, checkpoints, say)
    if asked.compare:
        return check_checkpoints(checkpoints, kept_of(asked), say)
    with sys.stdin.buffer if asked.file is None else asked.file.open("rb") as file:
        reader: Any = file
        first = reader.peek(512)
        if asked.archive or first[257:262] == b"ustar":
            return tell_archive(reader, checkpoints, policy, say)
        if re.match(rb'\s*\{\s*"(format|document_sha256|checkpoint)"', first):
            return tell_run_proof(reader, checkpoints, policy, say)
        if first.startswith(b"c2sp.org/tlog-proof"):
            return tell_tlog_proof(reader, checkpoints, policy, say)
        found = check_export(reader, checkpoints, kept_of(asked), project=asked.project, after=asked.after)
    return tell(found, "the log" if asked.project is None else asked.project, bool(checkpoints), say)


def check_checkpoints(checkpoints: list[Checkpoint], kept: KeptLeaves | None, say: Callable[[str], None]) -> int:
    """Compare checkpoints with one another, and with kept hashes."""
    checkpoints, kept = settle(checkpoints, kept)
    for checkpoint in checkpoints:
        say(f"signed: size {checkpoint.size}, root {checkpoint.root.hex()}  {checkpoint.told}")
    if kept is None and len({checkpoint.size for checkpoint in checkpoints}) > 1:
        say("NOT COMPARED: that the smaller are beginnings of the larger, tiles, an export or a proof can show")
        return 3
    say("OK: the checkpoints agree")
    return 0


def check_growth(asked: argparse.Namespace, checkpoints: list[Checkpoint], say: Callable[[str], None]) -> int:
    """Check a consistency proof between two checkpoints."""
    ordered = compare(checkpoints)
    if len(ordered) != 2:
        raise Misuse("a consistency proof is between two checkpoints")
    proof = load(asked.consistency.read_bytes())
    path = proof.get("hashes") if isinstance(proof, dict) else None
    require(isinstance(path, list) and len(path) <= 64 and all(type(text) is str for text in path), "this is no proof")
    hashes = [from_base64(text, "a hash of the proof") for text in path or ()]
    older, newer = ordered
    roots = roots_of_growth(older.size, newer.size, older.root, hashes) if older.size else (older.root, newer.root)
    require(roots == (older.root, newer.root), f"the proof does not show that {newer.told} continues {older.told}")
    say(f"OK: {newer.told} (size {newer.size}) continues {older.told} (size {older.size})")
    return 0


def read_all(file: IO[bytes]) -> bytes:
    """Read a document of bounded length."""
    data = file.read(MAX_DOCUMENT + 1)
    require(len(data) <= MAX_DOCUMENT, f"the document is longer than {MAX_DOCUMENT} bytes")
    return data


def tell_run_proof(file: IO[bytes], kept: list[Checkpoint], policy: Policy | None, say: Callable[[str], None]) -> int:
    """Check the proof of a run, and tell its streams."""
    document = load(read_all(file))
    check(document)
    checkpoint, left = (None, []) if policy is None else check_covered(document, policy)
    return tell_run(document, checkpoint, left, kept, say)


def tell_tlog_proof(file: IO[bytes], kept: list[Checkpoint], policy: Policy | None, say: Callable[[str], None]) -> int:
    """Check a `.tlog-proof` of a run, and tell its streams."""
    if policy is None:
        raise Misuse("a .tlog-proof is checked with the key of its log: --key or --policy")
    return tell_run(*check_tlog_proof(read_all(file), policy), kept, say)


def tell_run(
    document: dict[str, Any],
    checkpoint: Checkpoint | None,
    left: list[int | None],
    kept: list[Checkpoint],
    say: Callable[[str], None],
) -> int:
    """Tell the streams of a run, and how far they are proven."""
    if checkpoint is not None:
        compare([checkpoint, *kept])
    for stream in document["streams"]:
        say(f"{stream['stream_id']}  revision {stream['head']['revision']}  chain {stream['head']['chain']}")
    streams = f"{document['run_id']}, {len(document['streams'])} streams that hang together"
    if checkpoint is None:
        say(f"HEADS NOT AUTHENTICATED: {streams}")
        return 3
    if left:
        say(f"NOT ALL AUTHENTICATED: {streams}; {len(left)} events are newer than the checkpoint")
        return 3
    say(f"OK: {streams}, all in the log of {checkpoint.origin} of size {checkpoint.size}")
    return 0


def tell_archive(file: IO[bytes], kept: list[Checkpoint], policy: Policy | None, say: Callable[[str], None]) -> int:
    """Check an archive, and tell its parts and how far they are proven."""
    archive = Archive(policy)
    archive.read(file)
    found = archive.end()
    if archive.checkpoint is not None:
        compare([archive.checkpoint, *kept])
    for part in archive.manifest["parts"]:
        say(f"{part['name']}  {part['lines']} lines  sha256 {part['sha256']}")
    for left in archive.manifest["left_out"]:
        say(f"Left out: {left['what']}. {left['why']}")
    say("Cases, reports and telemetry are not in the log. The manifest alone speaks for them.")
    return tell(found, f"project {archive.manifest['project_id']}", policy is not None and found.covered > 0, say)


def tell_sums(file: Path | None, policy: Policy | None, say: Callable[[str], None]) -> int:
    """Check the signed sums of a release, and those of its files that are in the same folder."""
    if file is None or policy is None or any(key.kind != ED25519 for key in policy.logs):
        raise Misuse("sums are a file, checked with the Ed25519 key of the release: sums SHA256SUMS --key VKEY")
    note = read_note(file.read_bytes(), str(file))
    nothing = Checkpoint("", 0, b"", str(file))
    require([key for key in policy.logs if has_signed(note, nothing, key)], f"{file} is not signed by the given key")
    listed = [re.fullmatch(r"([0-9a-f]{64}) [ *]([^/]+)", line) for line in note.text[:-1].split("\n")]
    require(all(listed), f"{file} has a line that is no sum of a file beside it")
    sums = {line[2]: line[1] for line in listed if line}
    require(len(sums) == len(listed), f"{file} names a file twice")
    here = {name: file.parent / name for name in sums if (file.parent / name).is_file()}
    for name, path in here.items():
        with path.open("rb") as content:
            require(hashlib.file_digest(content, "sha256").hexdigest() == sums[name], f"{name} differs from its sum")
        say(f"{sums[name]}  {name}")
    if not here:
        say(f"NOTHING COMPARED: {file} is signed, and none of its {len(sums)} files is in its folder")
        return 3
    say(f"OK: {len(here)} of {len(sums)} files are those of the release")
    return 0


def tell(found: Findings, what: str, signed: bool, say: Callable[[str], None]) -> int:
    """Tell the result of a good file."""
    for line in found.said:
        say(line)
    events = f"{found.events} events of {what}, up to position {found.last}"
    if not signed or (found.covered == 0 and found.events):
        say(f"HEADS NOT AUTHENTICATED: {events}, hang together; nothing signed speaks for them")
        return 3
    if found.last > found.covered:
        say(f"NOT PROVEN: the part above position {found.covered} hangs together, and no checkpoint covers it")
    say(f"OK: {events}, as signed up to position {min(found.last, found.covered)}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Read, check and report; returns the exit code."""
    asked = parse(arguments)
    try:
        return tell_sums(asked.file, policy_of(asked), print) if asked.sums else run(asked, print)
    except Fork as error:
        print(f"FORK: {where(error)}{error}")
        return 5
    except (OSError, Wrong, RecursionError) as error:
        print(f"WRONG: {where(error)}{error}")
        return 1
    except Misuse as error:
        print(f"The call is wrong: {error}.", file=sys.stderr)
        return 2
    except CannotCheck as error:
        print(error, file=sys.stderr)
        return 4


def where(error: BaseException) -> str:
    """The position of what is wrong, if it has one."""
    position = getattr(error, "position", None)
    return "" if position is None else f"position {position}: "


if __name__ == "__main__":
    sys.exit(main())
