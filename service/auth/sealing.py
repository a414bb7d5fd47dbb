"""Sealing what must be readable again: authenticated encryption with a key that is not in the database.

Each purpose has a key of its own, derived from the one setting, and each text is bound to its scope (the project):
a ciphertext moved to another row, or to another purpose, does not open.
"""

from __future__ import annotations

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12
DSN_COPY = "dsn-copy"
PUBLIC_DSN_COPY = "public-dsn-copy"


def _cipher(key: bytes, purpose: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=f"service/{purpose}/v1".encode()).derive(key))


def seal(key: bytes | None, purpose: str, scope: str, text: str) -> str | None:
    """Encrypt a text for a purpose and scope. None when no key is configured."""
    if key is None:
        return None
    nonce = os.urandom(NONCE_BYTES)
    return base64.b64encode(nonce + _cipher(key, purpose).encrypt(nonce, text.encode(), scope.encode())).decode()


def unseal(key: bytes | None, purpose: str, scope: str, sealed: str | None) -> str | None:
    """Decrypt what `seal` made; None when there is nothing, no key, or it was sealed under another key or scope."""
    if key is None or sealed is None:
        return None
    raw = base64.b64decode(sealed)
    try:
        return _cipher(key, purpose).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], scope.encode()).decode()
    except InvalidTag:
        return None
