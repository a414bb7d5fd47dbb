"""Signed notes and checkpoints as C2SP signed-note and tlog-checkpoint define them, and the keys that verify them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey, MLDSA44PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from service.tlog.hashing import HASH_BYTES

ED25519: Final = 0x01
"""A signature over the text of a note."""
COSIGNED_ED25519: Final = 0x04
"""A cosignature: over the text of a checkpoint and a time."""
COSIGNED_ML_DSA_44: Final = 0x06
"""A cosignature: over origin, size and root of a checkpoint, a time, and the name of the cosigner."""
KEY_BYTES: Final = {ED25519: 32, COSIGNED_ED25519: 32, COSIGNED_ML_DSA_44: 1312}
SIGNATURE_BYTES: Final = {ED25519: 64, COSIGNED_ED25519: 8 + 64, COSIGNED_ML_DSA_44: 8 + 2420}

ID_BYTES: Final = 4
TIME_BYTES: Final = 8
MOST_SIGNATURES: Final = 64
MOST_BYTES: Final = 256 * 1024
LARGEST: Final = 2**63 - 1

_DASH = "— "
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_VKEY = re.compile(r"(?P<name>[^+]+)\+(?P<id>[0-9a-f]{8})\+(?P<key>[A-Za-z0-9+/]+={0,2})")


class MalformedNote(Exception):
    """A text is no signed note, no checkpoint or no key. The message says why."""


class BadSignature(Exception):
    """A known key is named by a signature which is not its own, or no known key has signed."""


class Signature(NamedTuple):
    """A signature line: the name of the key, its id, and what follows the id."""

    name: str
    key_id: bytes
    value: bytes

    @property
    def line(self) -> str:
        """The line with its end."""
        return f"{_DASH}{self.name} {base64.b64encode(self.key_id + self.value).decode()}\n"


class SignedNote(NamedTuple):
    """A signed text, which ends with a line feed, and its signatures."""

    text: str
    signatures: tuple[Signature, ...]


class Checkpoint(NamedTuple):
    """What the text of a checkpoint says. `extensions` are the lines after the root."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of its note."""
        lines = [self.origin, str(self.size), base64.b64encode(self.root).decode(), *self.extensions]
        return "".join(f"{line}\n" for line in lines)


class VerifierKey(NamedTuple):
    """A public key with its name and the type of its signatures, as a vkey writes them."""

    name: str
    kind: int
    public_key: bytes

    @property
    def key_id(self) -> bytes:
        """The id in its signatures."""
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public_key).digest()[:ID_BYTES]

    @property
    def vkey(self) -> str:
        """The key as text."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(bytes([self.kind]) + self.public_key).decode()}"

    def check(self, text: str, value: bytes) -> int:
        """Check a signature over the text of a note; returns its time in epoch seconds, 0 without one.

        Raises BadSignature, and MalformedNote where a cosignature needs a checkpoint and the text is none.
        """
        if len(value) != SIGNATURE_BYTES[self.kind]:
            raise BadSignature("The signature has another length than its type.")
        at = 0 if self.kind == ED25519 else int.from_bytes(value[:TIME_BYTES])
        match self.kind:
            case 0x01:
                message = text.encode()
            case 0x04:
                message = timed_text(text, at)
            case _:
                message = cosigned_message(self.name, at, parse_checkpoint(text))
        if not verifies(self.kind, self.public_key, value if self.kind == ED25519 else value[TIME_BYTES:], message):
            raise BadSignature(f"A signature of {self.name} is not its own.")
        return at


def verifies(kind: int, public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether a signature over a message is that of a key. False for whatever is no key and no signature."""
    try:
        if kind == COSIGNED_ML_DSA_44:
            MLDSA44PublicKey.from_public_bytes(public_key).verify(signature, message)
        else:
            Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def timed_text(text: str, at: int) -> bytes:
    """Lay out what an Ed25519 cosignature is made over."""
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def cosigned_message(name: str, at: int, checkpoint: Checkpoint) -> bytes:
    """Lay out what an ML-DSA-44 cosignature is made over. Raises MalformedNote for a name that does not fit."""
    parts = [b"subtree/v1\n\0", _short(name), at.to_bytes(8), _short(checkpoint.origin)]
    return b"".join([*parts, (0).to_bytes(8), checkpoint.size.to_bytes(8), checkpoint.root])


def _short(text: str) -> bytes:
    encoded = text.encode()
    if not 0 < len(encoded) < 1 << 8:
        raise MalformedNote("A name in a cosignature has 1 to 255 bytes.")
    return bytes([len(encoded)]) + encoded


def parse_note(raw: bytes) -> SignedNote:
    """Read a signed note, known signatures or not. Raises MalformedNote."""
    if len(raw) > MOST_BYTES:
        raise MalformedNote("The note is too long.")
    try:
        whole = raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedNote("The note is no UTF-8.") from error
    if any(character < " " and character != "\n" for character in whole):
        raise MalformedNote("The note has control characters.")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not text or not lines.endswith("\n"):
        raise MalformedNote("The note has no signatures after an empty line.")
    found = lines[:-1].split("\n")
    if len(found) > MOST_SIGNATURES:
        raise MalformedNote("The note has too many signatures.")
    return SignedNote(text + "\n", tuple(_signature(line) for line in found))


def parse_signatures(text: str) -> tuple[Signature, ...]:
    """Read signature lines, as a witness answers them. Raises MalformedNote."""
    lines = text.removesuffix("\n").split("\n")
    if not text.endswith("\n") or len(lines) > MOST_SIGNATURES:
        raise MalformedNote("These are no signature lines.")
    return tuple(_signature(line) for line in lines)


def _signature(line: str) -> Signature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space or not is_name(name):
        raise MalformedNote("A signature line is malformed.")
    decoded = _decode(encoded, strict=False)
    if len(decoded) <= ID_BYTES:
        raise MalformedNote("A signature is too short.")
    return Signature(name, decoded[:ID_BYTES], decoded[ID_BYTES:])


def is_name(name: str) -> bool:
    """Whether a text can name a key: not empty, without spaces and plus signs."""
    return bool(name) and "+" not in name and not any(character.isspace() or character < " " for character in name)


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the text of a checkpoint. Raises MalformedNote."""
    lines = text.split("\n")
    if lines.pop() or len(lines) < 3 or not all(lines):  # noqa: PLR2004 - origin, size and root
        raise MalformedNote("A checkpoint has three lines or more, none of them empty.")
    origin, size, root, *extensions = lines
    if not _NUMBER.fullmatch(size) or int(size) > LARGEST:
        raise MalformedNote("The second line of a checkpoint is its size.")
    decoded = _decode(root)
    if len(decoded) != HASH_BYTES:
        raise MalformedNote("The third line of a checkpoint is its root, 32 bytes in base64.")
    return Checkpoint(origin, int(size), decoded, tuple(extensions))


def parse_vkey(text: str) -> VerifierKey:
    """Read a key of one of the three types. Raises MalformedNote."""
    found = _VKEY.fullmatch(text)
    if found is None or not is_name(found["name"]):
        raise MalformedNote("A key is written as name, id and key, joined by plus signs.")
    material = _decode(found["key"])
    kind = material[0] if material else 0
    if len(material) - 1 != KEY_BYTES.get(kind, -1):
        raise MalformedNote("The key is of no type that is known here.")
    key = VerifierKey(found["name"], kind, material[1:])
    if key.key_id.hex() != found["id"]:
        raise MalformedNote("The id of the key is not that of its name and key.")
    return key


def verify_note(note: SignedNote, keys: Sequence[VerifierKey]) -> list[tuple[VerifierKey, int]]:
    """Check all signatures of known keys; returns these keys, each once, with the times of their signatures.

    Raises BadSignature for a bad one of a known key, and when no known key has signed.
    """
    known = {(key.name, key.key_id): key for key in keys}
    found: dict[VerifierKey, int] = {}
    for signature in note.signatures:
        key = known.get((signature.name, signature.key_id))
        if key is not None:
            found.setdefault(key, key.check(note.text, signature.value))
    if not found:
        raise BadSignature("No known key has signed.")
    return list(found.items())


def parse_number(text: str) -> int:
    """Read a decimal number without leading zeros. Raises MalformedNote."""
    if not _NUMBER.fullmatch(text) or int(text) > LARGEST:
        raise MalformedNote("A number is malformed.")
    return int(text)


def parse_hash(text: str) -> bytes:
    """Read a hash in base64. Raises MalformedNote."""
    decoded = _decode(text)
    if len(decoded) != HASH_BYTES:
        raise MalformedNote("A hash has 32 bytes.")
    return decoded


def _decode(text: str, *, strict: bool = True) -> bytes:
    """Read base64, in its one spelling unless in a signature. Others let that pass there. Raises MalformedNote."""
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedNote("The base64 is malformed.") from error
    if strict and base64.b64encode(decoded).decode() != text:
        raise MalformedNote("The base64 is malformed.")
    return decoded


# The keys that sign: those of a log for its checkpoints, and those of a witness for its cosignatures.

SEED_BYTES = 32


class KeyPair(NamedTuple):
    """An Ed25519 and an ML-DSA-44 key that sign side by side."""

    ed25519: Ed25519PrivateKey
    ml_dsa_44: MLDSA44PrivateKey

    @classmethod
    def derive(cls, secret: bytes, domain: str) -> KeyPair:
        """Derive both from a secret by HKDF-SHA256 without salt, as `service/<domain>/<algorithm>/v1`."""
        return cls(
            Ed25519PrivateKey.from_private_bytes(_expand(secret, f"service/{domain}/ed25519/v1")),
            MLDSA44PrivateKey.from_seed_bytes(_expand(secret, f"service/{domain}/ml-dsa-44/v1")),
        )

    def as_log(self, name: str) -> tuple[VerifierKey, VerifierKey]:
        """Return the public keys of a log: the first signs the text itself."""
        return self._public(name, ED25519)

    def as_witness(self, name: str) -> tuple[VerifierKey, VerifierKey]:
        """Return the public keys of a witness: both sign a time."""
        return self._public(name, COSIGNED_ED25519)

    def sign(self, checkpoint: Checkpoint, at: int) -> tuple[Signature, Signature]:
        """Sign a checkpoint as its log, at a time in epoch seconds."""
        first, second = self.as_log(checkpoint.origin)
        value = self.ed25519.sign(checkpoint.text.encode())
        return Signature(first.name, first.key_id, value), self._with_ml_dsa(second, checkpoint, at)

    def cosign(self, name: str, checkpoint: Checkpoint, at: int) -> tuple[Signature, Signature]:
        """Cosign a checkpoint as the witness of a name, at a time in epoch seconds."""
        first, second = self.as_witness(name)
        value = at.to_bytes(TIME_BYTES) + self.ed25519.sign(timed_text(checkpoint.text, at))
        return Signature(name, first.key_id, value), self._with_ml_dsa(second, checkpoint, at)

    def _public(self, name: str, first: int) -> tuple[VerifierKey, VerifierKey]:
        return (
            VerifierKey(name, first, self.ed25519.public_key().public_bytes_raw()),
            VerifierKey(name, COSIGNED_ML_DSA_44, self.ml_dsa_44.public_key().public_bytes_raw()),
        )

    def _with_ml_dsa(self, key: VerifierKey, checkpoint: Checkpoint, at: int) -> Signature:
        message = cosigned_message(key.name, at, checkpoint)
        return Signature(key.name, key.key_id, at.to_bytes(TIME_BYTES) + self.ml_dsa_44.sign(message))


def _expand(secret: bytes, info: str) -> bytes:
    return HKDF(SHA256(), SEED_BYTES, salt=None, info=info.encode()).derive(secret)


# Policies of C2SP tlog-policy: known logs, known witnesses, and how many of these make a quorum.

NONE: Final = "none"
MOST_POLICY_BYTES = 1024 * 1024
MOST_NAMES = 256
_SPACE = re.compile("[ \t]+")
_COUNT = re.compile("[1-9][0-9]{0,5}")
_LOG_KINDS = {ED25519, COSIGNED_ML_DSA_44}
_WITNESS_KINDS = {COSIGNED_ED25519, COSIGNED_ML_DSA_44}


class BadPolicy(Exception):
    """A text is no policy. The message names the line."""


class Party(NamedTuple):
    """A log or a witness: its key, and its address where the policy has one."""

    key: VerifierKey
    url: str


class WitnessGroup(NamedTuple):
    """Witnesses or groups, of which so many have to cosign."""

    needed: int
    members: Sequence[str]


class TlogPolicy(NamedTuple):
    """A policy as it was read. `quorum` is the name of a witness or a group, or `none`."""

    logs: Sequence[Party]
    witnesses: Mapping[str, Party]
    groups: Mapping[str, WitnessGroup]
    quorum: str

    def satisfied(self, cosigned: Collection[str]) -> bool:
        """Whether these witnesses are a quorum."""
        return self.quorum == NONE or self._has(self.quorum, cosigned)

    def accepts(self, note: SignedNote) -> bool:
        """Whether a checkpoint is signed by one of the logs under its own origin, and cosigned by a quorum.

        Raises MalformedNote and BadSignature.
        """
        origin = parse_checkpoint(note.text).origin
        logs = [party.key for party in self.logs if party.key.name == origin]
        verify_note(note, logs)
        known = {party.key: name for name, party in self.witnesses.items()}
        found = {key for key, _ in verify_note(note, [*logs, *known])}
        return self.satisfied({name for key, name in known.items() if key in found})

    def _has(self, name: str, cosigned: Collection[str]) -> bool:
        group = self.groups.get(name)
        if group is None:
            return name in cosigned
        return sum(self._has(member, cosigned) for member in group.members) >= group.needed


def parse_policy(raw: bytes) -> TlogPolicy:
    """Read a policy. Its names are octets, which stand here as text of as many characters. Raises BadPolicy."""
    if len(raw) > MOST_POLICY_BYTES:
        raise BadPolicy("The policy is too long.")
    if any((octet < 0x20 and octet not in b"\t\n") or octet == 0x7F for octet in raw):  # noqa: PLR2004 - as the document has it
        raise BadPolicy("The policy has control characters.")
    reader = _Reader()
    for number, line in enumerate(raw.decode("utf-8", "surrogateescape").split("\n"), 1):
        words = _SPACE.split(line.strip(" \t"))
        if not words[0] or words[0].startswith("#"):
            continue
        try:
            reader.take(words)
        except (BadPolicy, MalformedNote) as error:
            raise BadPolicy(f"Line {number}: {error}") from error
    if reader.quorum is None:
        raise BadPolicy("The policy has no quorum.")
    return TlogPolicy(reader.logs, reader.witnesses, reader.groups, reader.quorum)


class _Reader:
    """What the lines so far have said."""

    def __init__(self) -> None:
        self.logs: list[Party] = []
        self.witnesses: dict[str, Party] = {}
        self.groups: dict[str, WitnessGroup] = {}
        self.quorum: str | None = None
        self._listed: set[str] = set()

    def take(self, words: Sequence[str]) -> None:
        """Read a line. Raises BadPolicy and MalformedNote."""
        match words:
            case ["log", vkey, *url] if len(url) <= 1:
                party = self._party(vkey, url, _LOG_KINDS, [log.key for log in self.logs])
                self.logs.append(party)
            case ["witness", name, vkey, *url] if len(url) <= 1:
                party = self._party(vkey, url, _WITNESS_KINDS, [known.key for known in self.witnesses.values()])
                self._check_new(name)
                self.witnesses[name] = party
            case ["group", name, count, *members] if members:
                self._check_members(members)
                self._check_new(name)
                self.groups[name] = WitnessGroup(_needed(count, len(members)), members)
            case ["quorum", name]:
                if self.quorum is not None:
                    raise BadPolicy("There is a quorum already.")
                if name != NONE and not self._is_known(name):
                    raise BadPolicy("The quorum is defined nowhere above.")
                self.quorum = name
            case _:
                raise BadPolicy("This is no line of a policy.")

    def _party(self, vkey: str, url: Sequence[str], kinds: set[int], others: Sequence[VerifierKey]) -> Party:
        key = parse_vkey(vkey)
        if key.kind not in kinds:
            raise BadPolicy("The key is of another type.")
        if any(other.public_key == key.public_key for other in others):
            raise BadPolicy("The key is there twice.")
        if len(others) >= MOST_NAMES:
            raise BadPolicy("The policy has too many keys.")
        return Party(key, "".join(url))

    def _check_new(self, name: str) -> None:
        if name == NONE or self._is_known(name):
            raise BadPolicy("The name is taken.")
        if len(self.groups) >= MOST_NAMES:
            raise BadPolicy("The policy has too many groups.")

    def _check_members(self, members: Sequence[str]) -> None:
        for member in members:
            if not self._is_known(member):
                raise BadPolicy("A member is defined nowhere above.")
            if member in self._listed:
                raise BadPolicy("A member belongs to a group already.")
            self._listed.add(member)

    def _is_known(self, name: str) -> bool:
        return name in self.witnesses or name in self.groups


def _needed(count: str, members: int) -> int:
    if count in {"any", "all"}:
        return 1 if count == "any" else members
    if not _COUNT.fullmatch(count) or int(count) > members:
        raise BadPolicy("The number is not one from 1 to that of the members.")
    return int(count)
