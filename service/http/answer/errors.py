"""The refusals of HTTP alone, and the one place where an exception becomes an error answer (G-006, G-018, R-ERR-*).

Codes and default texts come from schemas/kernel/errors.py. Whatever is not an expected refusal is logged and answered
as `internal_error`: no exception text, SQL or stack ever leaves the process.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog

from schemas.kernel.errors import (
    CATALOGUE,
    ClosedErrorBody,
    ClosedErrorEnvelope,
    ErrorBody,
    ErrorEnvelope,
)
from service.auth.refusals import InvalidPayload, Refusal
from service.eventstore.connect.connection import FULL_DISK, OUTAGE
from service.eventstore.declare.commands import CommandFailed, KeyInProgress, KeyReused, OutcomeUnknown
from service.eventstore.declare.faults import StreamFault
from service.eventstore.state.cache import TooManyDocuments
from service.fairness.turns import CommandNotDone, ReadNotDone
from statemachines.kernel.machine import Rejection

log = structlog.get_logger(__name__)

RETRY_AFTER_SECONDS = 1
TRANSIENT_STATUSES = frozenset({429, 500, 502, 503, 504})


class MethodNotAllowed(Refusal):
    """A known path with another method. The Allow header lists those it has."""

    code = "method_not_allowed"


class InvalidIfMatch(Refusal):
    """If-Match is not exactly one quoted tag (G-009)."""

    code = "invalid_if_match"


class PayloadTooLarge(Refusal):
    """More bytes than the operation takes. The details give the limit (R-LIM-02)."""

    code = "payload_too_large"


class TooManyItems(PayloadTooLarge):
    """More items in one body than the operation takes, of however many bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(
            "The body holds more items than this operation accepts.",
            next_action="Send at most details.max_items items in one request.",
            max_items=most,
        )


class ItemIdReused(KeyReused):
    """An item has the id of a different one; the request has no key that could be meant."""


class UnsupportedMediaType(Refusal):
    """A body that is not plain JSON."""

    code = "unsupported_media_type"


class RateLimited(Refusal):
    """The principal's bucket is empty (G-012)."""

    code = "rate_limited"


class Failure(NamedTuple):
    """An error answer without its envelope: what both variants are made of."""

    code: str
    message: str
    next_action: str
    details: Mapping[str, Any]
    headers: Mapping[str, str]
    retryable: bool

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return CATALOGUE[self.code].status


def _failure(
    code: str,
    message: str = "",
    next_action: str | None = None,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    final: bool = False,
) -> Failure:
    known = CATALOGUE[code]
    retryable = known.retryable and not final
    added: dict[str, str] = {}
    if known.status == HTTPStatus.UNAUTHORIZED:
        added["www-authenticate"] = "Bearer"
    if retryable and (known.status in TRANSIENT_STATUSES or code == "idempotency_in_progress"):
        added["retry-after"] = str(RETRY_AFTER_SECONDS)
    return Failure(
        code,
        message or known.message,
        next_action or known.next_action,
        details or {},
        {**added, **(headers or {})},
        retryable,
    )


def _unacceptable(message: str) -> Failure:
    return _failure("invalid_payload", message, None, InvalidPayload().details)


# The first row that fits an exception is its answer.
_TRANSLATIONS: tuple[tuple[tuple[type[Exception], ...], Failure], ...] = (
    (
        (ReadNotDone,),
        _failure(
            "service_unavailable",
            "This could not be read in time.",
            "Retry later with a smaller limit or a narrower filter, and with fewer requests at a time.",
        ),
    ),
    ((CommandNotDone,), _failure("service_unavailable", "The service is busy and did not carry this out.")),
    (
        (OutcomeUnknown,),
        _failure(
            "service_unavailable",
            "The service could not tell in time whether it carried this out.",
            "Retry with the same Idempotency-Key. Without a key, read the resource first.",
        ),
    ),
    ((KeyInProgress,), _failure("idempotency_in_progress")),
    (
        (ItemIdReused,),
        _failure(
            "idempotency_key_reused",
            "The id of this item was used for a different item.",
            "Send a different item with an id of its own.",
        ),
    ),
    ((KeyReused,), _failure("idempotency_key_reused")),
    (
        (
            CommandFailed,
            psycopg.DataError,  # SQLSTATE class 22, and the four of class 54
            psycopg.errors.ProgramLimitExceeded,
            psycopg.errors.StatementTooComplex,
            psycopg.errors.TooManyArguments,
            psycopg.errors.TooManyColumns,
        ),
        _unacceptable("The database cannot store a value of this request."),
    ),
    ((UnicodeError, RecursionError), _unacceptable("A value of this request cannot be processed.")),
    (
        (psycopg.errors.DiskFull,),
        _failure("service_unavailable", "The database disk is full. Nothing was stored."),
    ),
    (
        (psycopg.errors.ReadOnlySqlTransaction,),
        _failure("service_unavailable", "The database takes no writes: its disk is almost full. Nothing was stored."),
    ),
    (
        # A pool that is exhausted or closed raises a subclass of this one too.
        (psycopg.OperationalError,),
        _failure("service_unavailable", "The database is not available at this moment."),
    ),
    ((Exception,), _failure("internal_error")),
)


def failure_of(error: Exception) -> Failure:
    """Translate an exception. Anything unexpected, a refusal with an unlisted code included, is `internal_error`."""
    if isinstance(error, Rejection) and error.code in CATALOGUE:
        final = isinstance(error, Refusal) and error.final
        return _failure(error.code, str(error), error.next_action, error.details, _headers(error), final=final)
    if isinstance(error, StreamFault):
        return _failure(error.code)
    return next(failure for kinds, failure in _TRANSLATIONS if isinstance(error, kinds))


def _headers(error: Rejection) -> Mapping[str, str]:
    match error:
        case Refusal():
            return error.headers
        case TooManyDocuments():
            return {"retry-after": str(error.retry_after)}
    return {}


def encode_failure(failure: Failure, request_id: str, *, closed: bool) -> bytes:
    """Encode the envelope of the route: the standard one, or the closed one without the request id (G-018)."""
    if closed:
        body = ClosedErrorBody(
            failure.code, failure.message, failure.next_action, dict(failure.details) or msgspec.UNSET
        )
        return msgspec.json.encode(ClosedErrorEnvelope(body))
    return msgspec.json.encode(
        ErrorEnvelope(
            ErrorBody(
                failure.code,
                failure.message,
                failure.next_action,
                request_id,
                failure.retryable,
                dict(failure.details),
            )
        )
    )


def log_failure(error: Exception, failure: Failure, operation: str) -> None:
    """Log what a person has to look at: bugs with their stack, unavailability without. The request id is bound."""
    if failure.code == "internal_error":
        log.error("request_failed", operation=operation, exc_info=error)
    elif failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, Rejection):
        say = log.debug if OUTAGE.lasts or FULL_DISK.lasts else log.warning  # one line tells of that already
        say("request_not_served", operation=operation, cause=type(error).__name__)


def let_go(error: BaseException) -> None:
    """Part an exception that was answered, and those behind it, from where they were raised.

    A frame that holds the exception that went through it is held by it in turn, with all of the request, its body
    first of all, until the collector of cycles comes by, which may be minutes later.
    """
    left: list[BaseException | None] = [error]
    while left:
        told = left.pop()
        if told is not None and told.__traceback__ is not None:
            told.__traceback__ = None
            left += [told.__cause__, told.__context__]
