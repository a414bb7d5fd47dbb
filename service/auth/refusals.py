"""The refusals that a caller may meet at any door, before or beside those of the machines (G-006, G-027, R-ERR-*).

Codes and default texts come from schemas/kernel/errors.py; a door renders them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from schemas.kernel.errors import CATALOGUE, InvalidField, InvalidPayloadDetails
from service.release import missing
from statemachines.kernel.machine import Rejection


class Refusal(Rejection):
    """A refusal whose message may be that of its code; `headers` are added to the answer.

    `final`: a repeat meets it again, although others of its code may pass.
    """

    final = False

    def __init__(
        self,
        message: str = "",
        *,
        next_action: str | None = None,
        headers: Mapping[str, str] | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, next_action=next_action, **details)
        self.headers: Mapping[str, str] = headers or {}


class Unauthenticated(Refusal):
    """No credential, or one that is unknown, expired or revoked: these look alike (G-027)."""

    code = "unauthenticated"


class PrincipalNotAllowed(Refusal):
    """A live credential of a kind that the route does not take (R-AUTH-12)."""

    code = "principal_not_allowed"


class ScopeMissing(Refusal):
    """The credential was created without the route's scope, which the details name."""

    code = "scope_missing"


class OwnerRequired(Refusal):
    """A member on a route of owners, or an auditor on one that does more than read."""

    code = "owner_required"


class ReauthenticationRequired(Refusal):
    """A session whose person has not signed in lately, at an operation that asks for it."""

    code = "reauthentication_required"


class NotFound(Refusal):
    """An unknown route, or a path in a form that no route has."""

    code = "not_found"


class IdempotencyKeyRequired(Refusal):
    """The operation needs an Idempotency-Key and has none."""

    code = "idempotency_key_required"


class QuotaExceeded(Refusal):
    """A read of raw data by an account that has used its quota up (R-ERR-07, R-BILL-14, G-072)."""

    code = "quota_exceeded"


class ServiceUnavailable(Refusal):
    """The process has as many requests as it can hold."""

    code = "service_unavailable"


class ExtraMissing(ServiceUnavailable):
    """An operation whose extra is not installed. A repeat meets it again."""

    final = True


def require_extra(extra: str) -> None:
    """Raise ExtraMissing with the line to install an extra, where it is not installed."""
    if (line := missing(extra)) is not None:
        raise ExtraMissing(f"This needs the extra `{extra}`, and it is not installed.", next_action=line)


class InvalidPayload(Refusal):
    """A body, parameter or header that does not have the operation's form (R-ERR-06, R-ERR-16)."""

    code = "invalid_payload"

    def __init__(
        self,
        message: str = "",
        *,
        missing: Sequence[str] = (),
        invalid: Sequence[tuple[str, str]] = (),
        unknown: Sequence[str] = (),
        schema: dict[str, Any] | None = None,
        expected: str | None = None,
    ) -> None:
        details = InvalidPayloadDetails(
            missing_fields=list(missing),
            invalid_fields=[InvalidField(field, reason) for field, reason in invalid],
            unknown_fields=list(unknown),
            request_body_schema=schema,
        )
        super().__init__(
            message, **(msgspec.to_builtins(details) | ({} if expected is None else {"expected_confirm": expected}))
        )


@cache
def _refusal_class(code: str) -> type[Refusal]:
    return type("Refused", (Refusal,), {"code": code})


def refusal(code: str) -> Refusal:
    """A refusal with a code that is only known from a declaration, such as the `…_not_found` of a subject."""
    assert code in CATALOGUE, code
    return _refusal_class(code)()
