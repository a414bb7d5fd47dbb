"""The refusal of a rendered document or its bindings: every fault by its path, locked ones by name (R-ERR-16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from service.auth.refusals import InvalidPayload
from service.http.edge.validation import MAX_FAULTS, refuse_all
from statemachines.kernel.shapes import Problem


def refuse_document(
    message: str, problems: Sequence[Problem], schema: dict[str, Any], locked: Iterable[str]
) -> InvalidPayload:
    """Make the refusal; `locked` are the paths at which the document tries to decide what the playbook decides."""
    refusal = refuse_all(message, problems, schema)
    refusal.details["locked_paths"] = list(locked)[:MAX_FAULTS]
    return refusal
