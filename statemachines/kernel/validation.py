"""The refusal of a body whose form is right and whose content is not (R-ERR-06, G-006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from statemachines.kernel.machine import Rejection


class FieldIssue(NamedTuple):
    """A field by its path, and the rule it breaks. The reason never repeats what the caller sent."""

    field: str
    reason: str


class InvalidPayload(Rejection):
    """A body or parameter breaks the rules of its operation."""

    code = "invalid_payload"

    def __init__(
        self,
        *,
        invalid: Sequence[FieldIssue] = (),
        missing: Sequence[str] = (),
        unknown: Sequence[str] = (),
    ) -> None:
        super().__init__(
            "The request body breaks the rules of this operation.",
            next_action="Correct the fields named in details and send the request again.",
            missing_fields=list(missing),
            invalid_fields=[{"field": issue.field, "reason": issue.reason} for issue in invalid],
            unknown_fields=list(unknown),
        )
