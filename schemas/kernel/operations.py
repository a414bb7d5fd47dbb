"""The documented operations as facts: who may call what, its limits, fences and success statuses.

The table stands in operations.json beside this file. Code declares its own operations; a test holds the two equal, and
whatever the code does not have answers 501 from this table.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

Auth = Literal[
    "none",
    "key",
    "owner",
    "runner",
    "key_or_runner",
    "owner_or_runner",
    "dsn",
    "dsn_or_ci",
    "ci",
    "internal",
    "test",
    "signature",
]


class DocumentedOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row. None means that the general rule applies: size by G-004, strictness by G-003, no such header."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    group: str
    auth: Auth
    max_body_bytes: int | None
    strict_body: bool | None
    if_match: Literal["required", "optional_first_only"] | None
    idempotency_key: Literal["required", "optional"] | None
    success_status: tuple[int, ...]

    @property
    def closed_errors(self) -> bool:
        """Whether its errors have the closed envelope (G-018)."""
        project_deletion = self.method == "DELETE" and self.group == "deletion"
        return project_deletion or self.group in {"onboarding", "credentials", "automation"}


@cache
def documented_operations() -> tuple[DocumentedOperation, ...]:
    """Read the table."""
    text = Path(__file__).with_suffix(".json").read_bytes()
    return msgspec.json.decode(text, type=tuple[DocumentedOperation, ...])
