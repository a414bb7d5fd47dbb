"""Many records in one request, for `make bench`: NDJSON of 300-byte errors, and exports of OpenTelemetry (G-143)."""

from __future__ import annotations

import json
from itertools import count

from scripts.load.loadgen import Client

SIZE = 512
"""Records of a request: what an exporter of OpenTelemetry sends at once."""

_STACK = 'Traceback (most recent call last):\n  File "/app/pay.py", line 3, in charge\n    raise PaymentError\n'


def posting_lines(dsn: str, number: int) -> Client:
    """Post NDJSON; its records are those of a shop whose payments fail, beside ordinary lines of its log."""
    headers = {"x-service-dsn": dsn, "content-type": "application/x-ndjson"}
    for turn in count():
        yield "POST", "/v1/logs/", headers, b"\n".join(_line(number, turn, index) for index in range(SIZE))


def _line(number: int, turn: int, index: int) -> bytes:
    record = {
        "message": f"Payment {number}{turn:06}{index:04} failed: the bank did not answer in time",
        "level": "error" if index % 4 == 0 else "info",
        "environment": "production",
        "release": "1.4.2",
        "user": {"id": f"user-{index % 50}"},
        "tags": {"region": "eu", "host": f"web-{number}"},
        "extra": {"order": index, "attempt": 2, "path": "/checkout/pay"},
    }
    return json.dumps(record).encode()


def exporting(dsn: str, number: int) -> Client:
    """Export log records in protobuf, of which one in four is an exception. What does not vary is written once."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
        ExportLogsServiceRequest,
    )

    request = ExportLogsServiceRequest()
    logs = request.resource_logs.add()
    for name, value in (("service.name", "shop"), ("service.version", "1.4.2"), ("host.name", f"web-{number}")):
        logs.resource.attributes.add(key=name).value.string_value = value
    records = logs.scope_logs.add().log_records
    for index in range(SIZE):
        record = records.add(severity_number=17 if index % 4 == 0 else 9, trace_id=bytes(16), span_id=bytes(8))
        record.body.string_value = "the bank did not answer in time"
        record.attributes.add(key="order").value.int_value = index
        record.attributes.add(key="http.route").value.string_value = "/checkout/pay"
        if index % 4 == 0:
            record.attributes.add(key="exception.type").value.string_value = "PaymentError"
            record.attributes.add(key="exception.message").value.string_value = f"Payment {index} failed"
            record.attributes.add(key="exception.stacktrace").value.string_value = _STACK
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/x-protobuf"}
    for turn in count():
        for index, record in enumerate(records):
            record.time_unix_nano = 1_800_000_000_000_000_000 + (number << 50) + turn * SIZE + index
        yield "POST", "/v1/logs", headers, request.SerializeToString()
