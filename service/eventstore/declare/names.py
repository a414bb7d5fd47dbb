"""Names locked in PostgreSQL.

All of them share one 64-bit space of advisory locks; the prefix keeps the classes apart.
"""

from __future__ import annotations

import hashlib

# Names that are locked in PostgreSQL: gates, idempotency keys, and ids of streams to create.

# Held shared by every round, and exclusively by a rebuild while it swaps a read model's table.
READ_MODELS = "read-models"


def lock_number(name: str) -> int:
    """Map a name to the signed 64-bit number of an advisory lock."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def gate(scope: str) -> str:
    """Name the gate of a project or of a person's account."""
    return f"gate:{scope}"


def new_stream(project_id: str, stream_id: str) -> str:
    """Name a stream before it exists: rivals to create it take this lock."""
    return f"new:{project_id}/{stream_id}"


def key(scope: str, principal: str, operation: str, idempotency_key: str) -> str:
    """Name an idempotency key in its scope: twins take this lock."""
    return f"key:{scope}/{principal}/{operation}/{idempotency_key}"
