"""The refusal of a rendered document or its bindings: every fault by its path, locked ones by name (R-ERR-16)."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from schemas.kernel.published import body_schema
from service.auth.refusals import InvalidPayload
from service.http.body.validation import MAX_FAULTS, refuse_all
from statemachines.contracts.documents import Document, check_contract, make_document
from statemachines.kernel.shapes import Problem


def read_document(entries: list[Any], body: type[msgspec.Struct]) -> Document:
    """Read a contract that the server could have rendered, in a body of this type. Raises InvalidPayload."""
    checked = check_contract(entries)
    if checked.errors:
        message = "The contract differs from the one the server renders."
        raise refuse_document(message, checked.errors, body_schema(body), checked.locked_paths)
    return make_document(entries, checked)


def refuse_document(
    message: str, problems: Sequence[Problem], schema: dict[str, Any], locked: Iterable[str]
) -> InvalidPayload:
    """Make the refusal; `locked` are the paths at which the document tries to decide what the playbook decides."""
    refusal = refuse_all(message, problems, schema)
    refusal.details["locked_paths"] = list(locked)[:MAX_FAULTS]
    return refusal
