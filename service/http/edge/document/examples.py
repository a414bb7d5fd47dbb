"""The examples of the schema document: a body and the answers of each operation, as they were sent and received.

`schemas/examples/<area>.json` has them by operation id: `body`, and `answers` by status and media type. `make examples`
writes them. Only who builds the document reads them (G-166).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import schemas

PAGES = Path(schemas.__file__).parent / "examples"


class Examples:
    """All examples by operation id."""

    def __init__(self) -> None:
        self._shown: dict[str, dict[str, Any]] = {}
        for page in sorted(PAGES.glob("*.json")):
            self._shown |= msgspec.json.decode(page.read_bytes(), type=dict[str, dict[str, Any]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shown)

    def of(self, operation_id: str) -> dict[str, Any] | None:
        """The examples of an operation, None without any."""
        return self._shown.get(operation_id)

    def body(self, operation_id: str) -> dict[str, Any]:
        """The member `example` of a body, empty without one."""
        shown = self._shown.get(operation_id, {})
        return {"example": shown["body"]} if "body" in shown else {}

    def answer(self, operation_id: str, status: str, media: str) -> dict[str, Any]:
        """The member `example` of an answer, empty without one."""
        shown = self._shown.get(operation_id, {}).get("answers", {}).get(status, {})
        return {"example": shown[media]} if media in shown else {}
