"""The rows of errors: small ones, one by one and many in a request, and large ones, beside an echo."""

from __future__ import annotations

import json
from functools import partial
from itertools import count
from statistics import median
from typing import Any, NamedTuple

import psutil

from scripts.bench.figures import Figures, console, seconds_of, seconds_of_api
from scripts.load import loadgen, worlds
from scripts.load.loadgen import Client
from service.ingest.items import LOGS

# The row of large errors, beside an echo of the same validated body. An event is what an SDK sends of an exception
# in a web product: a stack of 30 to 60 frames with source lines and some local variables, breadcrumbs, tags, the
# request. Stacks come again, values do not: each event has numbers of its own in its message, its variables and its
# breadcrumbs. Bodies are laid out before anything is timed and only their numbers change then, so that the generator
# of the load takes as little of the machine for a large event as for a small one.

# What a large error costs, beside an echo of the same validated body: its rate, and the processor time of each side.

CLIENTS = 64
STACKS = 40  # of different stacks: errors come again
NUMBER = "0123456789"  # stands in a body where each event has a number of its own
_WORDS = ("orders", "billing", "accounts", "search", "reports", "webhooks", "sessions", "exports")


class RequestCost(NamedTuple):
    """Answers per second, and microseconds of processor time of each: of the API process and of the database's."""

    rate: float
    api: float
    database: float

    @property
    def processor(self) -> float:
        """Microseconds of both."""
        return self.api + self.database


def event(stack: int) -> dict[str, Any]:
    """One error of about 15 kB, of one of STACKS stacks; the placeholder stands where events differ."""
    return {
        "level": "error",
        "message": f"Order {NUMBER} failed: the provider answered 402 after {NUMBER} ms",
        "environment": "production",
        "release": "shop@2026.11.2",
        "user": {"id": f"user-{NUMBER}", "email": f"u{NUMBER}@shop.example", "plan": "pro"},
        "tags": {"region": "eu-west", "service": "checkout", "server": f"web-{stack % 7}", "runtime": "python 3.12.4"},
        "extra": {
            "exception": {
                "type": f"PaymentDeclined{stack}",
                "value": f"card declined for order {NUMBER}",
                "frames": [_frame(stack, depth) for depth in range(30 + stack * 30 // (STACKS - 1))],
            },
            "breadcrumbs": [_breadcrumb(stack, n) for n in range(54 - stack * 30 // (STACKS - 1))],
            "request": {
                "method": "POST",
                "url": f"https://shop.example/orders/{NUMBER}/pay?attempt=2",
                "headers": {
                    "accept": "application/json",
                    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101",
                },
            },
            "contexts": {"os": {"name": "Linux", "version": "6.8.0"}, "process": {"pid": 41, "threads": 12}},
        },
    }


def _frame(stack: int, depth: int) -> dict[str, Any]:
    word = _WORDS[(stack + depth) % len(_WORDS)]
    ours = depth % 3 == 0
    frame: dict[str, Any] = {
        "file": f"app/{word}/step_{(stack * depth) % 97}.py" if ours else f"site-packages/web/{word}/layer_{depth}.py",
        "line": 10 + (7 * stack + 13 * depth) % 900,
        "function": f"handle_{word}_{(stack * depth) % 61}",
        "in_app": ours,
        "code": f"    result = await self.{word}.charge(order, amounts[{depth % 13}], order.currency)",
    }
    if ours:
        frame["vars"] = {"order": f"<Order {NUMBER}>", "amount": f"{NUMBER} EUR", "retries": str(depth % 4)}
    return frame


def _breadcrumb(stack: int, n: int) -> dict[str, Any]:
    word = _WORDS[(stack + n) % len(_WORDS)]
    return {
        "category": ("http", "query", "navigation")[n % 3],
        "message": f"{word}: GET /api/v1/{word}/{NUMBER} answered 200",
        "level": "info",
        "milliseconds": n * 37 % 411,
    }


def bodies() -> list[bytes]:
    """The event of each stack as JSON, with the placeholder in it."""
    return [json.dumps(event(stack), separators=(",", ":")).encode() for stack in range(STACKS)]


def sending(dsn: str, path: str, number: int, texts: list[bytes]) -> loadgen.Client:
    """Report errors of all stacks in turn; `number` keeps apart what clients send."""
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    count = number * 10_000_000
    while True:
        count += 1
        yield ("POST", path, headers, texts[count % len(texts)].replace(NUMBER.encode(), b"%010d" % count))


def spent(world: worlds.World) -> tuple[float, float]:
    """Seconds of processor time that the API processes have used so far, and those of their database."""
    pid_file = world.data_dir / "postgres" / "postmaster.pid"
    postmaster = psutil.Process(int(pid_file.read_text().splitlines()[0]))
    return seconds_of_api(), seconds_of(postmaster.children())


def measure(world: worlds.World, turns: int, seconds: float) -> dict[str, RequestCost]:
    """Let the echo and the intake take so many short turns after one to warm up; returns the medians of each."""
    dsn = world.create_project("large events")["dsn"]
    texts = bodies()
    found: dict[str, list[RequestCost]] = {"/v1/bench-echo": [], LOGS.split()[1]: []}
    for _ in range(1 + turns):
        for path, costs in found.items():
            costs.append(_turn(world, dsn, path, texts, seconds))
    return {path: RequestCost(*map(median, zip(*costs[1:], strict=True))) for path, costs in found.items()}


def _turn(world: worlds.World, dsn: str, path: str, texts: list[bytes], seconds: float) -> RequestCost:
    before = spent(world)
    stats = world.load(lambda n: sending(dsn, path, n, texts), CLIENTS, seconds)
    assert set(stats.statuses) == {202}, stats.statuses
    used = (1e6 * (after - was) / len(stats.latencies) for after, was in zip(spent(world), before, strict=True))
    return RequestCost(stats.rate, *used)


TURNS = 8


def measure_large_events(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store errors of 15 kB, beside an echo of the same validated body; and what each costs of processor time."""
    found = measure(world, TURNS, seconds / TURNS)
    echo, stored = found.values()
    for path, cost in found.items():
        console.print(
            f"  {path}: processor time of the API process {cost.api:.0f} us, of the database {cost.database:.0f}"
        )
    name = "errors of 15 kB, durable and in their cases, to an echo"
    figures.add(name, stored.rate, "/s", yardstick=echo.rate, promised=0.4)
    name = "processor time of an error of 15 kB, to an echo"
    figures.add(name, stored.processor, "us", yardstick=echo.processor, promised=2.5, most=True)


# The rows of small errors, one by one and many in a request.

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
            before = sum(spent(world))
            turns[side].append(world.load(make, 64, 2 * seconds / INGEST_TURNS))
            used = sum(spent(world)) - before
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
