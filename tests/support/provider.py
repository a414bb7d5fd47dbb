"""A small analytics provider on loopback: the OAuth device flow with rotating refresh tokens, and a query endpoint.

It is written from the standards and the documented query form, independently of the adapter. Tests set what
the person decides, what its telemetry holds, and how it fails.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass
class FakeProvider:
    """The provider's state. `fail` holds, by path, what to answer instead: a status, or a callable on the handler."""

    url: str = ""
    client_id: str = "client-1"
    scope: str | None = "project:read query:read"
    teams: list[int] | None = None
    token_seconds: int = 3600
    events: list[dict[str, Any]] = field(default_factory=list)
    fail: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[Any]] = field(default_factory=dict)  # rows by a part of the query that they answer
    columns: dict[str, list[str]] = field(default_factory=dict)  # their names, for those that are not known
    devices: dict[str, str] = field(default_factory=dict)  # device code -> pending, granted, denied, used
    access_tokens: set[str] = field(default_factory=set)
    refresh_tokens: set[str] = field(default_factory=set)
    issued: list[str] = field(default_factory=list)
    requests: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def decide(self, answer: str) -> None:
        """Decide every pending request: `granted` or `denied`."""
        for code, state in self.devices.items():
            if state == "pending":
                self.devices[code] = answer

    def capture(self, event: str, at: float | None = None, **properties: Any) -> None:
        """Store an event as received at a time (now without one)."""
        self.events.append({"event": event, "created_at": at or time.time(), "properties": properties})

    def revoke_access(self) -> None:
        """End every access token; refresh tokens stay good."""
        self.access_tokens.clear()

    def calls(self, path: str) -> list[Any]:
        """Bodies of the requests to a path."""
        return [body for where, body, _ in self.requests if where == path]

    def answer(self, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        """Answer one request."""
        with self.lock:
            self.requests.append((path, body, headers))
            if path == "/oauth/device_authorization/":
                return self._device(body)
            if path == "/oauth/token/":
                return self._token(body)
            if path.startswith("/api/projects/") and path.endswith("/query/"):
                return self._query(body, headers)
            return 404, {"detail": "not found"}

    def _device(self, form: dict[str, str]) -> tuple[int, Any]:
        if form.get("client_id") != self.client_id:
            return 401, {"error": "invalid_client"}
        code = secrets.token_urlsafe(24)
        self.devices[code] = "pending"
        return 200, {
            "device_code": code,
            "user_code": "WXYZ-1234",
            "verification_uri": f"{self.url}/device",
            "verification_uri_complete": f"{self.url}/device?user_code=WXYZ-1234",
            "expires_in": 1800,
            "interval": 5,
        }

    def _token(self, form: dict[str, str]) -> tuple[int, Any]:  # noqa: PLR0911 - one return for each answer of OAuth
        if form.get("grant_type") == "refresh_token":
            if form["refresh_token"] not in self.refresh_tokens:
                return 400, {"error": "invalid_grant"}
            self.refresh_tokens.discard(form["refresh_token"])
            return 200, self._issue()
        if form.get("grant_type") != DEVICE_GRANT:
            return 400, {"error": "unsupported_grant_type"}
        match self.devices.get(form.get("device_code", "")):
            case "pending":
                return 400, {"error": "authorization_pending"}
            case "denied":
                return 400, {"error": "access_denied"}
            case "granted":
                self.devices[form["device_code"]] = "used"
                return 200, self._issue()
            case _:
                return 400, {"error": "invalid_grant"}

    def _issue(self) -> dict[str, Any]:
        access, refresh = f"pa_{secrets.token_hex(16)}", f"pr_{secrets.token_hex(16)}"
        self.access_tokens.add(access)
        self.refresh_tokens.add(refresh)
        self.issued += [access, refresh]
        answer = {"access_token": access, "refresh_token": refresh, "token_type": "Bearer"}
        answer |= {"expires_in": self.token_seconds}  # type: ignore[dict-item]
        if self.scope is not None:
            answer["scope"] = self.scope
        if self.teams is not None:
            answer["scoped_teams"] = self.teams  # type: ignore[assignment]
        return answer

    def _query(self, body: Any, headers: dict[str, str]) -> tuple[int, Any]:  # noqa: PLR0911 - one for each query
        if headers.get("authorization", "").removeprefix("Bearer ") not in self.access_tokens:
            return 401, {"detail": "invalid token"}
        query, values = body["query"]["query"], body["query"]["values"]
        assert body["query"]["kind"] == "HogQLQuery"
        assert all(f"{{{name}}}" in query for name in values), "every value is a parameter of the query"
        assert "limit" in query, "every query is bounded"
        for part, rows in self.tables.items():
            if part in query:
                return 200, {"columns": self.columns.get(part, []), "results": rows, "hasMore": False}
        if "limit" in values:
            return 200, {"results": self._keys(values) if "hidden" in values else self._names(values)}
        if "toUnixTimestamp(max(created_at)) from" in query:
            newest = max((int(event["created_at"]) for event in self.events), default=0)
            return 200, {"columns": ["max"], "results": [[newest]], "hasMore": False}
        if "window" in values:
            return 200, {"columns": ["level", "count()"], "results": self._levels(values), "hasMore": False}
        if "event" in values:
            count = sum(
                event["event"] == values["event"] and values["since"] < event["created_at"] <= values["until"]
                for event in self.events
            )
            return 200, {"columns": ["count()"], "results": [[count]], "hasMore": False}
        rows = [
            [event["event"], int(event["created_at"]), json.dumps(event["properties"])]
            for event in self.events
            if event["event"] in values["events"]
            and values["since"] <= event["created_at"] < values["until"]
            and event["properties"].get("service_onboarding_proof") is not None
        ]
        return 200, {"columns": ["event", "created_at", "properties"], "results": rows, "hasMore": False}

    def _within(self, values: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for event in self.events:
            named = "events" not in values or event["event"] in values["events"]
            if named and values["since"] <= event["created_at"] < values["until"]:
                yield event

    def _names(self, values: dict[str, Any]) -> list[list[Any]]:
        """Rows, people, first and last time of each name, by hand."""
        found: dict[str, list[dict[str, Any]]] = {}
        for event in self._within(values):
            found.setdefault(event["event"], []).append(event)
        rows = []
        for name, events in found.items():
            people = {event["properties"].get("distinct_id", "") for event in events}
            times = [int(event["created_at"]) for event in events]
            rows.append([name, len(events), len(people), min(times), max(times)])
        return sorted(rows, key=lambda row: (-row[1], row[0]))[: values["limit"]]

    def _keys(self, values: dict[str, Any]) -> list[list[Any]]:
        """Rows of each key, and the types of its values as the server calls them, by hand."""
        kinds = {str: "String", int: "Int64", float: "Double", bool: "Bool", type(None): "Null", list: "Array"}
        found: dict[tuple[str, str], list[str]] = {}
        for event in self._within(values):
            for key, value in event["properties"].items():
                if key != values["hidden"]:
                    found.setdefault((event["event"], key), []).append(kinds.get(type(value), "Object"))
        rows = [[event, key, len(types), sorted(set(types))] for (event, key), types in found.items()]
        return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))[: values["limit"]]

    def _levels(self, values: dict[str, Any]) -> list[list[int]]:
        """How many people came to each level of an ordered funnel, and not further: windowFunnel, by hand."""
        people: dict[str, list[tuple[int, str]]] = {}
        for event in self.events:
            if event["event"] in values["events"] and values["since"] <= event["created_at"] < values["until"]:
                person = event["properties"].get("distinct_id", "")
                people.setdefault(person, []).append((int(event["created_at"]), event["event"]))
        levels: dict[int, int] = {}
        for seen in people.values():
            reached, since = 0, 0
            for step in values["events"]:
                after = [at for at, event in seen if event == step and at >= since]
                if not after:
                    break
                reached, since = reached + 1, min(after)
            if reached:
                levels[reached] = levels.get(reached, 0) + 1
        return [[level, count] for level, count in sorted(levels.items())]


@contextmanager
def running_provider() -> Iterator[FakeProvider]:
    """Run a provider on loopback for a block."""
    provider = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            is_json = self.headers.get("content-type", "").startswith("application/json")
            form = {name: values[0] for name, values in parse_qs(raw.decode()).items()} if not is_json else {}
            misbehave = next((do for path, do in provider.fail.items() if self.path.startswith(path)), None)
            if callable(misbehave):
                misbehave(self)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = provider.answer(self.path, json.loads(raw) if is_json else form, headers)
            if misbehave is not None:
                status, answer = misbehave, {"detail": "as the test wishes"}
            self.reply(status, json.dumps(answer).encode())

        def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
