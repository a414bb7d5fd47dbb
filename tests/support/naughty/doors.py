"""Naughty texts through the doors of telemetry, and into what people make in a project."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import httpx2

from tests.support.accounts import bearer, sign_in
from tests.support.naughty.words import MIDDLE, everything, marked
from tests.support.posthog import EXCEPTION, batch, event
from tests.support.sentry import PYTHON_EVENT, of_event
from tests.support.server import ServerHandle

KEPT = {
    "$lib",
    "debug_id",
    "event",
    "event_id",
    "ip_address",
    "level",
    "platform",
    "severityNumber",
    "time_unix_nano",
    "timestamp",
    "token",
}
"""Members by which a door understands a record."""
WINDOW = 24
"""Texts that go through the doors of errors and events."""
SHOWN = 6
MAILS = ('"\'><x-naughty>"@example.com', "<x-naughty>'{{7777*7777}}&@example.com", "x'&`{{7777*7777}}@example.com")


class Filler:
    """A person who fills a project of their own. `refused` tells which doors did not take a text at any length."""

    def __init__(self, server: ServerHandle, client: httpx2.Client, key: str, seed: int) -> None:
        self.client = client
        self.key = key
        self.refused: list[str] = []
        self._server = server
        self._all = everything()
        self._turn = seed * WINDOW

    def fill(self) -> list[str]:
        """Fill a project. Returns the places of the console to begin with."""
        project = self._make_project()
        self.path = f"/v1/projects/{project['id']}"
        dsn, place = project["dsn"], f"projects/{project['id']}"
        self._send_errors(project, dsn)
        self._send_events(project, dsn)
        person = self._told_of(dsn)
        self._make_things(project["id"])
        cases = self._get(f"{self.path}/cases?limit=100")["cases"]
        self._work_on(cases[0])
        self.invitation = self._be_invited()
        return [
            place,
            f"{place}/notifications",
            *(f"cases/{one['id']}" for one in cases[:SHOWN]),
            *(f"cases/{one['id']}/people" for one in cases[:2]),
            f"{place}/people/person?{urlencode({'id': person})}",
            f"{place}/cases?search={quote(marked(self._next(), 1))}&status=open",
            f"streams?stream_id={project['id']}",
        ]

    def _next(self) -> str:
        self._turn += 1
        return self._all[self._turn % len(self._all)]

    def _text(self, level: int = 0) -> str:
        return marked(self._next(), level)

    def _spoil(self, value: Any, level: int = 0) -> Any:
        """All texts of a record replaced, but those by which it is understood."""
        match value:
            case str():
                return self._text(level)
            case dict():
                return {name: one if name in KEPT else self._spoil(one, level) for name, one in value.items()}
            case list():
                return [self._spoil(one, level) for one in value]
        return value

    def _send(self, method: str, path: str, secret: str | None, body: Any = None, **more: Any) -> httpx2.Response:
        headers = {**(bearer(secret) if secret else {}), "idempotency-key": secrets.token_hex(8)}
        headers |= more.pop("headers", {})
        if body is not None:
            more["json"] = body
        return self.client.request(method, path, headers=headers, **more)

    def _get(self, path: str) -> Any:
        answer = self._send("GET", path, self.key)
        assert answer.is_success, answer.text
        return answer.json()

    def _take(self, door: str, write: Callable[[int], httpx2.Response]) -> Any:
        """Have a door take a text, a shorter one where the first is refused."""
        answers = []
        for level in range(3):
            answer = write(level)
            if answer.is_success:
                return answer.json() if answer.content else None
            answers.append(answer.text)
        self.refused.append(f"{door}: {answers[-1]}")
        return None

    def _make_project(self) -> dict[str, Any]:
        made = self._take(
            "project", lambda level: self._send("POST", "/v1/projects", self.key, {"name": self._text(level)})
        )
        assert made is not None, self.refused
        found: dict[str, Any] = made
        return found

    def _send_errors(self, project: Mapping[str, Any], dsn: str) -> None:
        for _ in range(WINDOW):
            self._take("log", lambda level: self._send("POST", "/v1/logs/", dsn, self._log(level)))
        sentry = {**PYTHON_EVENT, "event_id": secrets.token_hex(16)}
        for write in (
            lambda level: of_event(self._spoil(sentry, level)),
            lambda level: json.dumps(self._spoil(sentry, level)).encode(),
        ):
            route = "envelope" if write(0).startswith(b"{}") else "store"
            path = f"/api/{project['alias']}/{route}/"
            self._take(route, lambda level, path=path, write=write: self._send("POST", path, dsn, content=write(level)))
        key = project["sdks"]["posthog_key"]
        self._take(
            "posthog",
            lambda level: self._send(
                "POST",
                "/batch/",
                None,
                content=batch(key, self._spoil(EXCEPTION, level), self._spoil(event(), level)),
                headers={"content-type": "application/json"},
            ),
        )
        self._take("otlp", lambda level: self._send("POST", "/v1/logs", dsn, self._export(level)))

    def _log(self, level: int) -> dict[str, Any]:
        frames = [{"file": self._text(), "function": self._text(), "context_line": self._text(), "in_app": True}]
        return {
            "message": self._text(level),
            "level": "error",
            "environment": self._text(max(level, 1))[:100],
            "release": self._text(max(level, 1))[:200],
            "user": {"id": self._text(1), "email": self._text(max(level, 1))},
            "tags": {self._text(1): self._text(1), "plain": self._text(1)},
            "extra": {
                "exception": {"type": self._text(), "value": self._text(), "frames": frames},
                self._text(): {self._text(): [self._text()]},
                "breadcrumbs": [{"category": self._text(), "message": self._text(), "type": self._text()}],
            },
        }

    def _export(self, level: int) -> dict[str, Any]:
        def attribute(key: str) -> dict[str, Any]:
            return {"key": key, "value": {"stringValue": self._text(level)}}

        keys = ("exception.type", "exception.message", "exception.stacktrace", "user.id", self._text(level))
        record = {
            "body": {"stringValue": self._text(level)},
            "severityNumber": 17,
            "attributes": [*map(attribute, keys)],
        }
        resource = {"attributes": [attribute("service.name"), attribute("service.version")]}
        scope = {"scope": {"name": self._text(level)}, "logRecords": [record]}
        return {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}

    def _send_events(self, project: Mapping[str, Any], dsn: str) -> None:
        for _ in range(WINDOW):
            self._take(
                "analytics",
                lambda level: self._send(
                    "POST",
                    "/v1/analytics/",
                    dsn,
                    {
                        "event": self._text(level),
                        "distinct_id": self._text(max(level, 1)),
                        "properties": {self._text(level): self._text()},
                    },
                ),
            )
        members = ("version", "environment", "branch", "message")
        for _ in range(3):
            self._take(
                "deploy",
                lambda level: self._send(
                    "POST", "/v1/deploys/", dsn, {name: self._text(max(level, 1)) for name in members}
                ),
            )

    def _told_of(self, dsn: str) -> str:
        """The id of a person of the telemetry, whom the project knows."""
        found = self._get(f"{self.path}/users")["users"]
        assert found, "nobody is known"
        return str(found[0].get("user_id") or found[0].get("id"))

    def _make_things(self, project_id: str) -> None:
        make = (
            ("webhooks", {"url": self._webhook_url, "events": lambda _: ["*"], "description": self._text}),
            ("credentials", {"kind": lambda _: "ci_deploy", "name": self._text}),
            (
                "notifications/destinations",
                {
                    "kind": lambda _: "slack",
                    "url": self._webhook_url,
                    "name": lambda level: self._text(level) if level < 2 else "A chat",
                },
            ),
            (
                "alerts",
                {
                    "name": self._text,
                    "blueprint_id": lambda _: "top-events",
                    "threshold_column": lambda _: "row_count",
                    "threshold_op": lambda _: "gte",
                    "threshold_value": lambda _: 1,
                },
            ),
            ("public-queries", {"blueprint_id": lambda _: "top-events", "title": self._text}),
            ("case-views", {"name": self._text, "filter": lambda _: {}}),
            ("suppressions", {"fingerprint_pattern": self._text, "action": lambda _: "auto_ignore"}),
            ("members", {"email": lambda level: MAILS[level], "role": lambda _: "member"}),
        )
        for what, members in make:
            self._take(
                what,
                lambda level, what=what, members=members: self._send(
                    "POST", f"{self.path}/{what}", self.key, {name: value(level) for name, value in members.items()}
                ),
            )
        for _ in range(2):
            self._take("source map", lambda level: self._send("PUT", self._map_path(level), self.key, self._map(level)))
        feedback = {"kind": "bug", "fingerprint": secrets.token_hex(4), "project_id": project_id}
        self._take(
            "feedback",
            lambda level: self._send("POST", "/v1/feedback", self.key, feedback | {"title": self._text(level)}),
        )

    def _webhook_url(self, level: int) -> str:
        text = quote(self._text(), safe="<>{}'\"()$*") if level == 0 else quote(self._text(1)) if level == 1 else "x"
        return f"https://127.0.0.1:9/{text}?q={quote(self._text(1))}"

    def _map_path(self, level: int) -> str:
        told = {"release": self._text(max(level, 1)), "source_url": f"~/{self._text(max(level, 1))}"}
        return f"{self.path}/source-maps?{urlencode(told)}"

    def _map(self, level: int) -> dict[str, Any]:
        return {
            "version": 3,
            "file": self._text(level),
            "sources": [self._text(level)],
            "sourcesContent": [self._text()],
            "names": [self._text(level)],
            "mappings": "AAAAA",
        }

    def _work_on(self, case: Mapping[str, Any]) -> None:
        path, revision = f"/v1/cases/{case['id']}", self._get(f"/v1/cases/{case['id']}")["revision"]
        for _ in range(8):
            wish = {"case_revision": revision}
            self._take(
                "comment",
                lambda level, wish=wish: self._send(
                    "POST", f"{path}/comments", self.key, wish | {"text": self._text(level)}
                ),
            )
            revision = self._get(path)["revision"]
        for summary in self._markdown():
            body = {"status": "escalated", "summary_md": summary, "pr_url": "https://evil.example/'\"><x-naughty>"}
            answer = self._send("POST", f"{path}/runs", self.key, body)
            if not answer.is_success:
                self._send("POST", f"{path}/runs", self.key, {"status": "escalated", "summary_md": summary})
        self._send("POST", f"{path}/unmangle", self.key, {})

    def _markdown(self) -> Iterator[str]:
        """The texts that Markdown would make something of."""
        yield "\n\n".join(one for one in self._all if len(one) < MIDDLE * 8 and set(one) & set("[<*_`|#>&"))[:19_000]
        yield from (self._text() for _ in range(2))

    def _be_invited(self) -> str:
        """Another person's naughty project invites this one."""
        me = f"invited-{secrets.token_hex(4)}"
        self.guest_key = sign_in(self.client, self._server.internal_token, me, email_verified=True)
        mail = f"{me}@example.com"
        wish = {"email": mail, "role": "member"}
        made = self._take("invitation", lambda _: self._send("POST", f"{self.path}/members", self.key, wish))
        return str(made["invitation_id"])
