"""A transport that replaces the free texts in requests by naughty ones, as far as the doors take them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx2

from tests.support.naughty.words import BEGIN, spoilt
from tests.support.tenants.recording import Place, operation_of, texts

FREE = {
    "anchor",
    "argv",
    "branch",
    "business_question",
    "client_name",
    "closed_by",
    "code",
    "command",
    "context",
    "description",
    "destination",
    "diff",
    "environment_name",
    "expected_impact",
    "file",
    "function",
    "instructions",
    "job_id",
    "limitations",
    "meaning",
    "message",
    "name",
    "plan_markdown",
    "rationale",
    "reason",
    "sources",
    "suggested_human_next_step",
    "summary",
    "summary_md",
    "test_commands",
    "text",
    "title",
    "type",
    "url",
    "value",
    "workflow_file",
}
"""Members of bodies that hold a text of somebody's."""
NAMED = {
    ("add_notification_destination", "url"),
    ("authorize_device", "identity.email"),
    ("connect_provider", "name"),
    ("create_webhook", "url"),
    ("query_analytics", "value"),
    ("record_pr_proof", "name"),
    ("send_mcp_message", "name"),
    ("start_onboarding", "context"),
}
"""Those of them that name something else in the requests of the tour."""
ADDED: dict[str, dict[str, Any]] = {
    "authorize_draft_pr": {"title": "Save the order"},
    "create_alert": {"name": "Many events"},
    "create_case_run": {"summary_md": "What was tried."},
    "create_webhook": {"description": "Our pager"},
    "decide_automation_approval": {"reason": "It looks right."},
    "record_deploy": {"branch": "main", "message": "A release"},
    "put_implementation_report": {"tests": [{"command": "make test", "passed": True}]},
    "record_report": {"report": {"limitations": ["Nobody was asked."]}},
    "record_sentry_deploy": {"name": "A release", "url": "https://ci.example/1"},
    "request_automation_approval": {"evidence": {"diff": "-a\n+b", "reason": "It failed."}},
}
"""Members that the tour leaves out."""
LAST = 3
"""The level at which the text stays as it was."""


class Defacer(httpx2.BaseTransport):
    """Sends requests with their free texts replaced. `taken` holds the members by operation, with their texts."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.taken: dict[str, dict[str, str]] = defaultdict(dict)
        self._wire = httpx2.HTTPTransport()

    def close(self) -> None:
        """Close its connections."""
        self._wire.close()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Texts that are refused become shorter, and in the end what they were."""
        content = request.read()
        if not content or "json" not in request.headers.get("content-type", ""):
            return self._wire.handle_request(request)
        operation = operation_of(request.method, request.url.path)[0].operation_id
        body = _with(json.loads(content), ADDED.get(operation, {}))
        found = dict(self._free(operation, body))
        levels = dict.fromkeys(found, 0)
        while True:
            sent = {
                place: self._text(operation, place, found[place], level)
                for place, level in levels.items()
                if level < LAST
            }
            answer = self._send(request, body, sent)
            if answer.status_code not in {400, 413} or not sent:
                self._keep(operation, {_member(place): text for place, text in sent.items()})
                return answer
            self._give_in(answer, levels)

    def _keep(self, operation: str, taken: dict[str, str]) -> None:
        self.taken[operation] |= taken

    def _text(self, _: str, __: Place, text: str, level: int) -> str:
        return text if BEGIN in text else spoilt(text, self.seed, level)

    def _free(self, operation: str, body: Any) -> Iterator[tuple[Place, str]]:
        for place, text in texts(body):
            name = next((step for step in reversed(place) if isinstance(step, str)), "")
            full = _member(place)
            if name in FREE and not {(operation, name), (operation, full)} & NAMED and not _is_fixed(full):
                yield place, text

    def _send(self, request: httpx2.Request, body: Any, sent: dict[Place, str]) -> httpx2.Response:
        changed = json.loads(json.dumps(body))
        for place, text in sent.items():
            target = changed
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = text
        headers = [(name, value) for name, value in request.headers.multi_items() if name != "content-length"]
        answer = self._wire.handle_request(
            httpx2.Request(request.method, request.url, headers=headers, content=json.dumps(changed).encode())
        )
        answer.read()
        return answer

    def _give_in(self, answer: httpx2.Response, levels: dict[Place, int]) -> None:
        """Shorten what an answer names, or all where it names nothing of ours."""
        details = answer.json()["error"].get("details") or {}
        named = [_steps(one["field"]) for one in details.get("invalid_fields") or ()]
        refused = [place for place in levels if _steps(_member(place, numbers=True)) in named and levels[place] < LAST]
        for place in refused or [place for place in levels if levels[place] < LAST]:
            levels[place] += 1


def _with(body: Any, added: dict[str, Any]) -> Any:
    """A body with further members."""
    for name, value in added.items():
        body[name] = _with(body[name], value) if isinstance(value, dict) and name in body else value
    return body


def _member(place: Place, *, numbers: bool = False) -> str:
    """The path of a member, with or without its numbers in lists."""
    return ".".join(str(step) for step in place if numbers or isinstance(step, str))


def _steps(field: str) -> tuple[str, ...]:
    return tuple(step for step in re.split(r"[^A-Za-z0-9_]+", field) if step and step != "body")


def _is_fixed(member: str) -> bool:
    """Whether a member of a free name belongs to a catalogue."""
    return member.endswith(("runner.provider", "filters.value")) or member.startswith("identity.subject")
