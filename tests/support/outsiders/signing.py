"""Keys that sign notes as C2SP says, written from the specification: nothing is shared with service or verifier."""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

ORIGIN = "service.invalid/log/0123456789abcdef0123456789abcdef"


class Signer(NamedTuple):
    """A private key with its name and its type: 1 Ed25519, 4 a witness's Ed25519, 6 ML-DSA-44."""

    name: str
    kind: int
    key: Any

    @property
    def material(self) -> bytes:
        public: bytes = self.key.public_key().public_bytes_raw()
        return bytes([self.kind]) + public

    @property
    def id(self) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + self.material).digest()[:4]

    @property
    def vkey(self) -> str:
        return f"{self.name}+{self.id.hex()}+{base64.b64encode(self.material).decode()}"

    def line(self, text: str, time: int = 1_700_000_000) -> str:
        """The signature line under a checkpoint's text."""
        origin, size, root = text.split("\n")[:3]
        if self.kind == 6:
            message = b"subtree/v1\n\0" + bytes([len(self.name.encode())]) + self.name.encode()
            message += struct.pack(">Q", time) + bytes([len(origin.encode())]) + origin.encode()
            message += struct.pack(">QQ", 0, int(size)) + base64.b64decode(root)
            signature = struct.pack(">Q", time) + self.key.sign(message)
        elif self.kind == 4:
            signature = struct.pack(">Q", time) + self.key.sign(f"cosignature/v1\ntime {time}\n{text}".encode())
        else:
            signature = self.key.sign(text.encode())
        return f"— {self.name} {base64.b64encode(self.id + signature).decode()}\n"


def signer(kind: int, name: str = ORIGIN, seed: int = 0) -> Signer:
    """A key that is always the same."""
    secret = hashlib.sha256(f"{name} {kind} {seed}".encode()).digest()
    private: Any = MLDSA44PrivateKey if kind == 6 else Ed25519PrivateKey
    made = private.from_seed_bytes(secret) if kind == 6 else private.from_private_bytes(secret)
    return Signer(name, kind, made)


def signed(text: str, *signers: Signer) -> bytes:
    """A signed note."""
    return (text + "\n" + "".join(one.line(text) for one in signers)).encode()
