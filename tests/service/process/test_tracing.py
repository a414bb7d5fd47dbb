"""A service with traces sends spans of its work, in the trace of the caller, and one without loads nothing for them."""

from __future__ import annotations

import http.server
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service import release
from service.settings import SettingsError, load_settings
from tests.service.process.test_loading import SETTINGS
from tests.support.accounts import bearer, checked, create_project, sign_in
from tests.support.server import ServerFactory, clean_environment

CLIENT = "/hook"


class Seen(NamedTuple):
    """A span as it was exported."""

    name: str
    trace: str
    id: str
    parent: str
    process: str
    links: frozenset[str]
    attributes: dict[str, Any]


class Collector:
    """A receiver of OTLP over HTTP, and of webhooks, on loopback."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.hooks: list[dict[str, str]] = []
        self.raw = b""
        self.port = 0

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Note what arrives."""
        if path == CLIENT:
            self.hooks.append(headers)
            return
        self.raw += body
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = values(group.resource.attributes)["service.process"]
            for scope in group.scope_spans:
                self.spans += [seen(span, process) for span in scope.spans]

    def until(self, name: str, **wanted: Any) -> Seen:
        """Wait for a span of a name, of a trace or below a parent."""
        give_up = time.monotonic() + 30
        while True:
            for span in [*self.spans]:
                if span.name == name and all(getattr(span, key) == value for key, value in wanted.items()):
                    return span
            assert time.monotonic() < give_up, [(span.name, span.trace) for span in self.spans]
            time.sleep(0.02)


def values(attributes: Any) -> dict[str, Any]:
    """Attributes of OTLP as Python has them."""
    found: dict[str, Any] = {}
    for one in attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = (
            [getattr(part, part.WhichOneof("value")) for part in value.values] if kind == "array_value" else value
        )
    return found


def seen(span: Any, process: str) -> Seen:
    links = frozenset(link.span_id.hex() for link in span.links)
    ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
    return Seen(span.name, *ids, process, links, values(span.attributes))


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_work_is_traced_from_the_caller_to_the_commit(server_factory: ServerFactory) -> None:
    """A request continues the caller's trace; below it stand its command and flush, with stream and revision."""
    with collecting() as collector:
        address = f"http://127.0.0.1:{collector.port}"
        server = server_factory(
            env={"SERVICE_TRACES_URL": f"{address}/v1/traces", "OTEL_BSP_SCHEDULE_DELAY": "50"},
        )
        trace, parent = secrets.token_hex(16), secrets.token_hex(8)
        with server.client() as client:
            key = sign_in(client, server.internal_token)
            client.headers.update(bearer(key))
            body, headers = {"name": "Shop"}, {"traceparent": f"00-{trace}-{parent}-01"}
            made = client.post("/v1/projects", json=body, headers=headers)
            project, dsn = checked(made), bearer(made.json()["dsn"])
            request = collector.until("POST /v1/projects", trace=trace)
            assert request.parent == parent
            assert request.process == "api"
            assert request.attributes["http.response.status_code"] == 201
            assert request.attributes["service.request_id"] == made.headers["x-service-request-id"]
            command = next(one for one in collector.spans if one.name.startswith("command ") and one.trace == trace)
            assert command.parent == request.id
            assert {name.split("/")[0] for name in command.attributes["service.stream"]} == {project["id"]}
            assert set(command.attributes["service.revision"]) == {1}
            flush = collector.until("flush", trace=trace)
            assert flush.parent == command.id
            assert flush.attributes["service.stream"] == command.attributes["service.stream"]

            path = f"/v1/projects/{project['id']}"
            checked(client.post(f"{path}/webhooks", json={"url": f"{address}{CLIENT}", "events": ["case.created"]}))
            told = {"level": "error", "message": "one thing with words of a customer"}
            case = checked(client.post("/v1/logs/", json=told, headers=dsn))
            stored = collector.until("POST /v1/logs/")
            assert collector.until("flush records", trace=stored.trace).parent == stored.id

            delivery = collector.until("delivery case.created")
            assert delivery.process == "worker"
            assert delivery.attributes["service.stream"] == [f"{project['id']}/{case['case_id']}"]
            assert delivery.attributes["service.revision"] == [1]
            call = collector.until("POST", parent=delivery.id)
            [hook] = collector.hooks
            assert hook["traceparent"].split("-")[:3] == ["00", delivery.trace, call.id]

            rule = {"fingerprint_pattern": case["fingerprint"], "action": "auto_ignore"}
            checked(client.post(f"{path}/suppressions", json=rule))
            assert collector.until("job cases.apply_rules").process == "worker"

            assert client.get("/v1/projects", headers={"traceparent": "garbage"}).is_success
            refused = client.get(f"{path}/nothing")
            assert refused.status_code == 404
            for secret in (b"words of a customer", dsn["authorization"].encode(), key.encode(), CLIENT.encode()):
                assert secret not in collector.raw
        server.stop()


def test_a_collector_that_is_away_holds_nothing_up(server_factory: ServerFactory) -> None:
    """Requests are answered, and the processes end in time."""
    server = server_factory(env={"SERVICE_TRACES_URL": "http://127.0.0.1:9/v1/traces"})
    with server.client() as client:
        create_project(client, sign_in(client, server.internal_token))
    assert server.stop() < 5


def test_without_traces_nothing_of_them_is_loaded() -> None:
    """Neither the processes that serve nor the worker know the library."""
    code = "from service.process.apiserver import load; load(); from service.process.assembly import make_services"
    made = "from service.settings import load_settings; make_services(load_settings())"
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; {made}; import sys; print(*sys.modules)"],
        env=clean_environment(**SETTINGS),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "service.process.worker" in shown
    # Litestar looks for names of attributes where the extra is installed: constants, which nothing uses.
    named = {"opentelemetry"} | {name for name in shown if name.startswith("opentelemetry.semconv")}
    assert {name for name in shown if name.startswith("opentelemetry")} <= named
    assert "service.process.tracing" not in shown


def test_the_setting_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a start says the line to install it."""
    monkeypatch.setattr(release, "EXTRAS", {"tracing": "opentelemetry.nothing"})
    release.missing.cache_clear()
    with pytest.raises(SettingsError) as refused:
        load_settings({**SETTINGS, "SERVICE_TRACES_URL": "http://localhost:4318/v1/traces"})
    release.missing.cache_clear()
    assert refused.value.problems == [
        "SERVICE_TRACES_URL: needs an extra. Install it where the service runs: pip install 'fencework-core[tracing]'"
    ]
