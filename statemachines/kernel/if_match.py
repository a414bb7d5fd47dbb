"""If-Match: the tag that a caller has read is compared with the present one here, byte for byte, and nowhere else.

The edge reads the header and checks its form (service/http/edge/declare/headers.py); a machine says what its present
tag is, and what a caller whose tag is another one may do.
"""

from __future__ import annotations

from statemachines.kernel.machine import Rejection


class PreconditionFailed(Rejection):
    """The If-Match names another revision than the current one (R-ERR-11)."""

    code = "precondition_failed"


class IfMatchRequired(Rejection):
    """The request changes something that exists and names no revision of it."""

    code = "if_match_required"


def require_none(if_match: str | None, message: str, next_action: str) -> None:
    """Refuse a tag where nothing exists that it could match. Raises PreconditionFailed."""
    if if_match is not None:
        raise PreconditionFailed(message, next_action=next_action, current_etag=None)


def require_given(if_match: str | None, etag: str, message: str, next_action: str) -> str:
    """Return the tag. Raises IfMatchRequired when there is none."""
    if if_match is None:
        raise IfMatchRequired(message, next_action=next_action, current_etag=etag)
    return if_match


def require_same(if_match: str | None, etag: str, message: str, next_action: str) -> None:
    """Refuse a tag that is not the present one. Raises PreconditionFailed."""
    if if_match != etag:
        raise PreconditionFailed(message, next_action=next_action, current_etag=etag)
