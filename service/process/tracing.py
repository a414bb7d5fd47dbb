"""Traces of the service itself, for your own OpenTelemetry: spans of requests, commands, flushes, jobs and deliveries.

A process imports this module, and with it the library, only with SERVICE_TRACES_URL. The parts here replace those of
the same name without traces. A `traceparent` of a request is continued, and outgoing calls carry one.

A span names methods, routes, streams, revisions and numbers. It has no address, no body and no message of an error.
The library bounds its queue, drops spans beyond, and exports in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AnyValue

from service.egress.exchange import NotReceived, Received, Request
from service.egress.guard import Guard
from service.eventstore.connect.connection import Connection
from service.eventstore.declare.commands import Command, Outcome
from service.eventstore.state.cache import Entry, StateCache
from service.eventstore.state.unit import Batch, NewEvent, Registry
from service.eventstore.store import EventStore
from service.eventstore.write.round import Round, RoundResult
from service.http.declare.bound import Bound
from service.http.declare.headers import HEAD_KEY
from service.http.edge.framework import BOUND
from service.ingest.flushing import Settlement
from service.ingest.intake import Intake
from service.ingest.items import Item, Result
from service.release import VERSION
from service.services import Services, Task
from service.webhooks.delivering import AttemptPlace, Deliverer, TakenDelivery
from service.webhooks.sending import AttemptOutcome

CONTEXT_HEADERS = frozenset({b"traceparent", b"tracestate"})
EXPORT_SECONDS = 2.0  # of one export
STOP_SECONDS = 0.5  # for the last export of a process
SERVER_ERROR = 500
MOST_LISTED = 64  # streams that a flush names

_tracer = trace.get_tracer("service", VERSION)
_context = TraceContextTextMapPropagator()
# Nothing of an exception but its type: its message may quote what a client sent.
_quiet: Mapping[str, Any] = {"record_exception": False, "set_status_on_exception": False}


@asynccontextmanager
async def tracing(url: str, process: str) -> AsyncIterator[None]:
    """Export the spans of a process (its role: api, worker) to an address of OTLP over HTTP, until the block ends.

    The library's variables keep their meaning: OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES and those of exporters.
    """
    named = {"service.name": "service", "service.version": VERSION, "service.process": process}
    provider = TracerProvider(resource=Resource(named).merge(Resource.create()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url, timeout=EXPORT_SECONDS)))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        ending = threading.Thread(target=provider.shutdown, daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, STOP_SECONDS)


class TracedApp:
    """The application of an API process: each request is a span, below the caller's if it names one."""

    def __init__(self, app: ASGIApp, url: str) -> None:
        self._app = app
        self._url = url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the life of the process."""
        if scope["type"] != ScopeType.HTTP:
            async with tracing(self._url, "api"):
                await self._app(scope, receive, send)
            return
        sent = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in CONTEXT_HEADERS}
        method = scope["method"]
        with _tracer.start_as_current_span(
            method, _context.extract(sent), SpanKind.SERVER, {"http.request.method": method}, **_quiet
        ) as span:
            try:
                await self._app(scope, receive, partial(_send, span, send))
            finally:
                _name_request(span, scope, method)


async def _send(span: Span, send: Send, message: Any) -> None:
    if message["type"] == "http.response.start":
        status = message["status"]
        span.set_attribute("http.response.status_code", status)
        if status >= SERVER_ERROR:
            span.set_status(StatusCode.ERROR)
    await send(message)


def _name_request(span: Span, scope: Any, method: str) -> None:
    """Name a span by the route, never by the path: that holds ids of people."""
    if (head := scope.get(HEAD_KEY)) is not None:
        span.set_attribute("service.request_id", head.request_id)
    bound: Bound | None = getattr(scope.get("route_handler"), "opt", {}).get(BOUND)
    if bound is not None:
        span.update_name(f"{method} {bound.operation.path}")
        span.set_attributes({"http.route": bound.operation.path, "service.operation": bound.name})


# Commands, and the rounds that commit them.

_of_commands: dict[int, Span] = {}  # by the identity of a command under way


class TracedStore(EventStore):
    """A store with a span for each command, and one for each round."""

    def __init__(self, conninfo: str, registry: Registry) -> None:
        super().__init__(conninfo, registry, make_round=TracedRound)

    async def execute(self, command: Command) -> Outcome:
        """Carry out a command. Raises as EventStore.execute."""
        attributes = {"service.request_id": command.origin.request_id, "service.actor": command.origin.actor_kind}
        with _tracer.start_as_current_span(_named(command), attributes=attributes, **_quiet) as span:
            _of_commands[id(command)] = span
            try:
                outcome = await super().execute(command)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                raise
            finally:
                del _of_commands[id(command)]
            span.set_attribute("service.replayed", outcome.replayed)
            return outcome


def _named(command: Command) -> str:
    """The name of the span of a command: the kinds of the streams that it writes."""
    return " ".join(["command", *sorted({stream.machine.kind for stream in command.streams})])


class TracedRound(Round):
    """A round as a span below its first command. It links the others, and tells each where its streams are now."""

    def __init__(self, registry: Registry, cache: StateCache) -> None:
        super().__init__(registry, cache)
        self._written: list[NewEvent] = []

    def run(
        self, connection: Connection, entries: Sequence[Entry], *, wait_ms: int | None, exclusive: Sequence[str] = ()
    ) -> RoundResult:
        """Carry out a batch. Raises as Round.run."""
        spans = [span for one in entries if (span := _of_commands.get(id(one.command))) is not None]
        parent = set_span_in_context(spans[0]) if spans else None
        links = [Link(span.get_span_context()) for span in spans[1:]]
        attributes = {"service.commands": len(entries), "service.fence": bool(exclusive)}
        self._written = []
        with _tracer.start_as_current_span("flush", parent, attributes=attributes, links=links, **_quiet) as span:
            result = super().run(connection, entries, wait_ms=wait_ms, exclusive=exclusive)
            span.set_attribute("service.busy", len(result.busy))
            _name_streams(span, self._written)
        for entry in entries:
            own = _of_commands.get(id(entry.command))
            if own is not None and own.is_recording():
                _name_streams(own, [event for event in self._written if event.command is entry.command])
        self._written = []
        return result

    def write_more(self, connection: Connection, batch: Batch) -> None:
        """Note what is about to be committed."""
        self._written = batch.events
        super().write_more(connection, batch)


def _name_streams(span: Span, written: Sequence[NewEvent]) -> None:
    """Name the streams of new events, each with its last revision."""
    if written:
        revisions = {"/".join(new.stream.name): new.recorded.originator_version for new in written}
        span.set_attribute("service.events", len(written))
        span.set_attribute("service.stream", list(revisions)[:MOST_LISTED])
        span.set_attribute("service.revision", list(revisions.values())[:MOST_LISTED])


class TracedIntake(Intake):
    """An intake with a span for each flush of records, below the first of their requests and linked to the others."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._senders: dict[int, Span] = {}  # by the identity of a record that waits

    async def submit(self, item: Item) -> Outcome:
        """Wait until a record is stored. Raises as Intake.submit."""
        self._senders[id(item)] = trace.get_current_span()
        try:
            return await super().submit(item)
        finally:
            del self._senders[id(item)]

    async def submit_all(self, items: Sequence[Item]) -> list[Result]:
        """Wait until each of the records of one request is stored or refused."""
        self._senders.update((id(item), trace.get_current_span()) for item in items)
        try:
            return await super().submit_all(items)
        finally:
            for item in items:
                self._senders.pop(id(item), None)

    async def _survive(self, batch: Sequence[Item]) -> Settlement:
        spans = list(dict.fromkeys(span for item in batch if (span := self._senders.get(id(item))) is not None))
        parent = set_span_in_context(spans[0]) if spans else None
        links = [Link(span.get_span_context()) for span in spans[1:]]
        attributes = {"service.records": len(batch)}
        with _tracer.start_as_current_span("flush records", parent, attributes=attributes, links=links) as span:
            settlement = await super()._survive(batch)
            span.set_attributes({"service.stored": settlement.stored, "service.held": len(settlement.held)})
            return settlement


# Jobs and deliveries of the worker, and calls to outside addresses.


def traced_task(task: Task) -> Task:
    """The same task, each run of which is a span."""

    async def run(services: Services, args: Mapping[str, Any]) -> None:
        with _tracer.start_as_current_span(f"job {task.name}", kind=SpanKind.CONSUMER, **_quiet) as span:
            try:
                await task.run(services, args)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise

    return task._replace(run=run)


class TracedDeliverer(Deliverer):
    """A deliverer with a span for each attempt."""

    async def _attempt(self, delivery: TakenDelivery, place: AttemptPlace) -> None:
        attributes: dict[str, AnyValue] = {
            "service.delivery": delivery.id,
            "service.webhook": delivery.webhook_id,
            "service.stream": [f"{delivery.project_id}/{delivery.subject_id}"],
            "service.revision": [delivery.revision],
            "service.attempt": delivery.step + 1,
        }
        name = f"delivery {delivery.event}"
        with _tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes, **_quiet):
            await super()._attempt(delivery, place)

    async def _settle(self, delivery: TakenDelivery, outcome: AttemptOutcome) -> None:
        if not outcome.delivered:
            trace.get_current_span().set_status(StatusCode.ERROR)
        await super()._settle(delivery, outcome)


class TracedGuard(Guard):
    """A client whose calls are spans, and carry `traceparent`. An address may be a secret, so none is named."""

    async def call(self, url: str, request: Request, **named: Any) -> Received | NotReceived:
        """Send a request to an address. Raises as Guard.call."""
        attributes = {"http.request.method": request.method}
        with _tracer.start_as_current_span(request.method, None, SpanKind.CLIENT, attributes, **_quiet) as span:
            carried: dict[str, str] = {}
            _context.inject(carried)
            answer = await super().call(url, request._replace(headers={**request.headers, **carried}), **named)
            if isinstance(answer, NotReceived):
                span.set_attribute("error.type", answer.reason)
            else:
                span.set_attribute("http.response.status_code", answer.status)
            return answer
