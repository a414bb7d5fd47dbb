"""The keyed hash of a name, for the log and the ledger (G-197). Pure functions.

The key is derived from a secret of the installation outside the database. Without it, nobody learns from a dump or from
the ledger whether a person is in it. The installation learns it also after a restore.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from service.settings import Settings

_PURPOSE = b"service/person-erasure/v1"


def keys_of(settings: Settings) -> Sequence[bytes]:
    """The keys of hashes: that of new ones first, then the possible keys of older ones."""
    secrets = (settings.encryption_key, settings.signing_key, settings.signing_key_before)
    return [hmac.digest(secret, _PURPOSE, "sha256") for secret in secrets if secret is not None]


def person_hash(key: bytes, project_id: str, name: str) -> str:
    """Hash a name within its project: 64 hexadecimal digits."""
    return hmac.digest(key, f"{project_id}\0{name}".encode("utf-8", "surrogatepass"), "sha256").hex()
