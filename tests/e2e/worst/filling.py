"""Every text field of the interface at its longest: requests get such texts where the schemas let them."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import httpx2
from msgspec import inspect

from service.http.edge.routes import all_endpoints
from tests.support.naughty.defacing import LAST, Defacer
from tests.support.naughty.doors import Filler
from tests.support.tenants.recording import Exchange, Got, Place, Sent, operation_of, texts
from tests.support.worst.texts import UNITS, worst

SHORTEST = 200
"""Characters from which on a field may be dear."""
MOST = 100_000
ANYTHING: Mapping[str, int] = {
    "request_automation_approval evidence.diff": 3_000,
    "request_automation_approval evidence.reason": 700,
}
"""Texts within members that may hold anything, with a length that is taken."""
ADDED = frozenset(
    {
        "change_webhook description",
        "create_suppression hint_text",
        "create_suppression reason",
        "disable_automation reason",
        "open_billing_portal return_url",
        "plan_install notes",
        "preview_alert name",
        "put_implementation_report summary_md",
        "record_automation_usage label",
        "send_feedback body_md",
        "start_billing_checkout cancel_url",
        "start_billing_checkout success_url",
    }
)
"""Texts that the requests of the tour leave out, and might have."""
ADDRESSES = frozenset(
    {"open_billing_portal return_url", "start_billing_checkout cancel_url", "start_billing_checkout success_url"}
)
"""Addresses: such a text stands after their host."""
PLAIN = UNITS.index("[")
HOST = "https://shop.example/?"
NAMED = frozenset(
    {
        "add_notification_destination member_id",
        "add_notification_destination url",
        "authorize_draft_pr base_branch",
        "authorize_draft_pr files_changed",
        "authorize_draft_pr head_branch",
        "authorize_draft_pr repository",
        "authorize_draft_pr tests.command",
        "connect_provider name",
        "create_alert blueprint_id",
        "create_alert threshold_column",
        "create_suppression fingerprint_pattern",
        "create_webhook url",
        "change_webhook url",
        "poll_device device_code",
        "preview_alert blueprint_id",
        "preview_alert threshold_column",
        "preview_suppression fingerprint_pattern",
        "query_analytics query",
        "record_analytics_event distinct_id",
        "record_analytics_event event",
        "record_deploy version",
        "record_log release",
        "record_log user.email",
        "record_log user.id",
        "record_pr_proof base_branch",
        "record_pr_proof files_changed",
        "record_pr_proof head_branch",
        "record_pr_proof repository",
        "record_pr_proof required_status_checks.name",
        "send_feedback fingerprint",
        "send_feedback operation",
        "send_feedback request_id",
        "split_case fingerprint",
        "verify_dsn dsn",
        *(
            f"{operation} filter.{member}"
            for operation in ("save_case_view", "change_case_view", "preview_case_batch")
            for member in ("path", "person", "release")
        ),
        *(
            f"{operation} identity.{member}"
            for operation in ("authorize_device", "resolve_identity")
            for member in ("email", "name", "subject")
        ),
        *(
            f"record_report report.findings.{member}"
            for member in ("metric", "unit", "source_columns", "evidence_columns", "code")
        ),
        *(
            f"{operation}{member}"
            for operation in ("start_onboarding plan.", "put_signal_map ", "review_onboarding replacement_plan.")
            for member in ("milestones.event", "failures.marker", "historical_evidence.observations.event")
        ),
    }
)
"""Members that name something, for which the service looks: another text would be another request."""


@cache
def limits() -> Mapping[str, int]:
    """Every free text of every body, as "operation member", with its longest length."""
    found: dict[str, int] = {}
    for operation in (endpoint.operation for endpoint in all_endpoints()):
        if operation.takes is None or operation.takes is bytes:
            continue
        for member, most in _texts_of(inspect.type_info(operation.takes), (), ()):
            name = f"{operation.operation_id} {'.'.join(member)}"
            if most >= SHORTEST and name not in NAMED:
                found[name] = min(most, MOST)
    return {**found, **ANYTHING}


def _texts_of(kind: Any, at: tuple[str, ...], inside: tuple[Any, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    match kind:
        case inspect.StrType(max_length=int(most), pattern=None):
            yield at, most
        case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            yield from _texts_of(inner, at, inside)
        case inspect.UnionType(types=several):
            for one in several:
                yield from _texts_of(one, at, inside)
        case inspect.StructType(cls=cls, fields=fields) if cls not in inside:
            for field in fields:
                yield from _texts_of(field.type, (*at, field.encode_name), (*inside, cls))


class Stretcher(Defacer):
    """Sends requests with their free texts at their longest, and records them.

    The kind of a text depends on its member and on how often that was sent, and never on the other members. A member
    that refuses it gets one of brackets, and at last a short one.
    `stretched` holds the members that were taken at their longest.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self.exchanges: list[Exchange] = []
        self.stretched: set[str] = set()
        self._turns = Counter[str]()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = super().handle_request(_with_every_text(request))
        answer.read()
        if "multipart" not in request.headers.get("content-type", ""):
            self.exchanges.append(Exchange(Sent.of(request), Got.of(answer)))
        return answer

    def _free(self, operation: str, body: Any) -> Iterator[tuple[Place, str]]:
        for place, text in texts(body):
            if _named(operation, place) in limits():
                yield place, text

    def _text(self, operation: str, place: Place, _: str, level: int) -> str:
        name = _named(operation, place)
        self._turns[name] += level == 0
        kind, length = zlib.crc32(name.encode()) + self._turns[name], limits()[name]
        if level == LAST - 2:
            kind = PLAIN
        elif level == LAST - 1:
            length = max(1, length >> 4)
        return _address(kind, length) if name in ADDRESSES else worst(kind, length)

    def _keep(self, operation: str, taken: dict[str, str]) -> None:
        super()._keep(operation, taken)
        names = {f"{operation} {member}": text for member, text in taken.items()}
        self.stretched |= {name for name, text in names.items() if len(text) == limits()[name]}


def _address(kind: int, length: int) -> str:
    text = "".join(one for one in worst(kind, length) if one.isprintable() and one != " ")
    return (HOST + text)[:length].ljust(length, "x")


def _named(operation: str, place: Place) -> str:
    return f"{operation} {'.'.join(step for step in place if isinstance(step, str))}"


def _with_every_text(request: httpx2.Request) -> httpx2.Request:
    """The same request with every optional text that it leaves out."""
    content = request.read()
    if not content or "json" not in request.headers.get("content-type", ""):
        return request
    operation = operation_of(request.method, request.url.path)[0]
    if operation.takes is None or operation.takes is bytes:
        return request
    body = json.loads(content)
    _add(inspect.type_info(operation.takes), body, operation.operation_id, ())
    headers = [(name, value) for name, value in request.headers.multi_items() if name != "content-length"]
    return httpx2.Request(request.method, request.url, headers=headers, content=json.dumps(body).encode())


def _add(kind: Any, value: Any, operation: str, at: tuple[str, ...]) -> None:
    match kind:
        case inspect.Metadata(type=inner):
            _add(inner, value, operation, at)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner) if isinstance(value, list):
            for one in value:
                _add(inner, one, operation, at)
        case inspect.UnionType(types=several):
            for one in several:
                if not isinstance(one, inspect.StructType) or one.tag is None or one.tag == value.get(one.tag_field):
                    _add(one, value, operation, at)
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            for field in fields:
                path = (*at, field.encode_name)
                if field.encode_name in value:
                    _add(field.type, value[field.encode_name], operation, path)
                elif f"{operation} {'.'.join(path)}" in ADDED:
                    value[field.encode_name] = "Some text."


class Stuffer(Filler):
    """Fills a project by the doors of telemetry with the longest texts that they take."""

    def _text(self, level: int = 0) -> str:
        self._turn += 1
        return worst(self._turn, (8_000, 60, 18)[level])
