"""Wire contract of the answers to an OpenTelemetry exporter. In protobuf the messages are the same (G-142)."""

from __future__ import annotations

import msgspec


class ExportLogsPartialSuccess(msgspec.Struct, frozen=True, rename="camel"):
    """The number of log records of an export that were rejected, as text, and the reason.

    With none rejected, a warning: it names unread members, and those of an older form (G-206).
    """

    rejected_log_records: str
    error_message: str


class ExportLogsAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer to an export. Without `partialSuccess` every record is stored whole."""

    partial_success: ExportLogsPartialSuccess | msgspec.UnsetType = msgspec.UNSET


class ExportStatus(msgspec.Struct, frozen=True):
    """An error as google.rpc.Status: the gRPC code, and a message that begins with this service's error code."""

    code: int
    message: str
