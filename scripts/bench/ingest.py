"""The rows of small errors, one by one and many in a request."""

from __future__ import annotations

import json
from functools import partial
from itertools import count
from statistics import median

from scripts.bench import large
from scripts.bench.figures import Figures, console
from scripts.load import loadgen, worlds
from scripts.load.loadgen import Client

INGEST_TURNS = 16
LEFT_BY_GROUPING = 0.87  # of the rate, so that it adds at most 15 % to what a record takes


def measure_ingest(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store error events with grouping, beside an echo of the same validated body.

    The two take short turns, and the median turn of each counts: other load on the machine affects both alike,
    and a disk that stalls for a moment costs a turn and not the figure. Processor time is that of the API process and
    the database, so the rate includes the load generator and what stands still, and this does not.
    """
    project = world.create_project("ingest")
    sides = {"echo": ("/v1/bench-echo", "error"), "grouped": ("/v1/logs/", "error"), "plain": ("/v1/logs/", "info")}
    turns: dict[str, list[loadgen.Stats]] = {side: [] for side in sides}
    processor: dict[str, list[float]] = {side: [] for side in sides}  # microseconds of a request
    for _ in range(1 + INGEST_TURNS):
        for side, (path, level) in sides.items():
            make = partial(worlds.posting_logs, project["dsn"], path, level=level)
            before = sum(large.spent(world))
            turns[side].append(world.load(make, 64, 2 * seconds / INGEST_TURNS))
            used = sum(large.spent(world)) - before
            processor[side].append(1e6 * used / len(turns[side][-1].latencies))
    stored = turns["grouped"]
    rates = [f"{more.rate:,.0f} to {less.rate:,.0f}" for less, more in zip(turns["echo"], stored, strict=True)]
    console.print(f"  {', '.join(rates)}; p99 {median(turn.percentile(0.99) for turn in stored):.1f} ms")
    acknowledged = sum(len(turn.latencies) for turn in (*stored, *turns["plain"]))
    [[kept]] = world.query("select count(*) from log_events where project_id = %s", project["id"])
    assert kept >= acknowledged, f"{acknowledged} acknowledged, {kept} stored"
    # The first turn warms up.
    echo, grouped, plain = (median(turn.rate for turn in turns[side][1:]) for side in ("echo", "grouped", "plain"))
    figures.add("errors of 300 B, durable and in their cases, to an echo", grouped, "/s", yardstick=echo, promised=0.5)
    stored_us, echo_us = (median(processor[side][1:]) for side in ("grouped", "echo"))
    name = "processor time of an error of 300 B, to an echo"
    figures.add(name, stored_us, "us", yardstick=echo_us, promised=2.5, most=True)
    figures.add(
        "what grouping leaves: the same to records of no case",
        grouped,
        "/s",
        yardstick=plain,
        promised=LEFT_BY_GROUPING,
    )


# Many records in one request, for `make bench`: NDJSON of 300-byte errors, and exports of OpenTelemetry (G-143).

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


BATCHERS = 8  # connections that send batches
LEAST_BATCHED = 15_000.0  # records a second


def measure_batches(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store records that come many in a request; each that was acknowledged is there."""
    for name, client in (
        ("batched records, durable and in their cases", posting_lines),
        ("OpenTelemetry records, durable and in their cases", exporting),
    ):
        project = world.create_project("batches")
        load = partial(client, project["dsn"])
        world.load(load, BATCHERS, seconds / 4)  # to warm up
        stats = world.load(lambda n, load=load: load(n + BATCHERS), BATCHERS, seconds)
        console.print(f"  {dict(stats.statuses)}, p99 {stats.percentile(0.99):.0f} ms a request")
        acknowledged = len(stats.latencies) * SIZE
        [[kept]] = world.query("select count(*) from log_events where project_id = %s", project["id"])
        assert kept >= acknowledged, f"{acknowledged} acknowledged, {kept} stored"
        figures.add(name, stats.rate * SIZE, "/s", yardstick=LEAST_BATCHED, promised=1)
