"""The keys that sign: those of a log for its checkpoints, and those of a witness for its cosignatures."""

from __future__ import annotations

from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from service.tlog.notes import (
    COSIGNED_ED25519,
    COSIGNED_ML_DSA_44,
    ED25519,
    TIME_BYTES,
    Checkpoint,
    Signature,
    VerifierKey,
    cosigned_message,
    timed_text,
)

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
