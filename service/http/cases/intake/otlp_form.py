"""The forms and answers of OTLP over HTTP: in the encoding of the request, and errors as its Status (G-142)."""

import re
from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from schemas.cases.foreign import ExportLogsAnswer, ExportLogsPartialSuccess, ExportStatus
from service.eventstore.declare.commands import Outcome
from service.http.answer.errors import Failure
from service.http.declare.forms import Export, Form

MAX_BYTES = 4 * 1024 * 1024
PROTOBUF = "application/x-protobuf"
JSON = "application/json"

_INVALID_ARGUMENT, _RESOURCE_EXHAUSTED, _INTERNAL, _UNAVAILABLE = 3, 8, 13, 14
_CODES: Mapping[int, int] = {
    401: 16,  # unauthenticated
    403: 7,  # permission denied
    404: 5,  # not found
    409: 9,  # failed precondition
    413: _RESOURCE_EXHAUSTED,
    429: _RESOURCE_EXHAUSTED,
    503: _UNAVAILABLE,
}
"""Codes of gRPC, in which a Status speaks, by statuses of ours; others by their class."""


def _write_failure(failure: Failure, media: str) -> tuple[bytes, str]:
    """An error as google.rpc.Status, and the content type it is written in."""
    status = failure.status
    code = _CODES.get(status, _INTERNAL if status >= HTTPStatus.INTERNAL_SERVER_ERROR else _INVALID_ARGUMENT)
    message = f"{failure.code}: {failure.message} {failure.next_action}"
    if media == PROTOBUF:
        return _number(1, code) + _part(2, message.encode()), PROTOBUF
    return msgspec.json.encode(ExportStatus(code, message)), JSON


OTLP_PROTOBUF = Form(
    "otlp_protobuf",
    MAX_BYTES,
    frozenset({PROTOBUF}),
    write_failure=_write_failure,
    export=Export((JSON, PROTOBUF), ExportLogsAnswer, ExportStatus),
)
OTLP_JSON = Form(
    "otlp_json",
    MAX_BYTES,
    begins=re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"resource(?:L|_l)ogs"'),
    write_failure=_write_failure,
)


def export_answer(form: Form, refused: int, reason: str) -> Outcome:
    """The answer to an export, stored but for `refused` records. A reason alone is a warning."""
    if form is OTLP_PROTOBUF:
        partial = (_number(1, refused) if refused else b"") + _part(2, reason.encode())
        return Outcome(HTTPStatus.OK, _part(1, partial) if reason else b"", {"content-type": PROTOBUF})
    partly = ExportLogsPartialSuccess(str(refused), reason) if reason else msgspec.UNSET
    return Outcome(HTTPStatus.OK, msgspec.json.encode(ExportLogsAnswer(partly)), {})


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - what a byte holds
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _part(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value
