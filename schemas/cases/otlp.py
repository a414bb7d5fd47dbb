"""Wire contract of what an OpenTelemetry exporter is answered; in protobuf the messages are the same (G-142)."""

from __future__ import annotations

import msgspec


class ExportLogsPartialSuccess(msgspec.Struct, frozen=True, rename="camel"):
    """How many log records of an export were not stored, and why; a whole number as text, as its mapping has it."""

    rejected_log_records: str
    error_message: str


class ExportLogsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to an export. Without `partialSuccess` every record is stored."""

    partial_success: ExportLogsPartialSuccess | msgspec.UnsetType = msgspec.UNSET


class ExportStatus(msgspec.Struct, frozen=True):
    """An error as google.rpc.Status: a code of gRPC, and a message that begins with the code of the error here."""

    code: int
    message: str
