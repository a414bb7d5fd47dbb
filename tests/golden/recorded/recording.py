"""The answers of every operation to bad requests and to one in order, without what differs each time."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import NamedTuple

import msgspec

from service.http.declare.bound import Bound
from service.http.edge.routes import all_endpoints, bind
from tests.golden.recorded.kinds import Ask, Secrets, bad_requests
from tests.support import accounts
from tests.support.cluster import TestCluster
from tests.support.server import ServerHandle
from tests.support.shown.collecting import Camera, body_of
from tests.support.shown.plain import Plain
from tests.support.shown.walk import Walker, walking
from tests.support.tenants.recording import operation_of

IN_ORDER = "in order"
WAYS = {"content-length", "date", "server", "connection", "transfer-encoding", "keep-alive"}
"""Headers that say how an answer is carried. The length of a body is looked at where it is read."""
LONGEST = 4000
"""Characters of a kept success. Of a longer one only that it was one."""
NEW = frozenset(
    {
        "connect_provider",  # a state that is drawn
        "get_consistency_proof",  # hashes of a log
        "get_inclusion_proof",
        "get_log_checkpoint",
        "get_log_tile",
        "get_project_archive",
        "backtest_automation_contract",  # what background work has done by then
        "change_webhook",
        "get_automation_control",
        "get_case_event",
        "get_user_summary",
        "list_case_events",
        "get_webhook",
        "list_automation_decisions",
        "list_credentials",
        "list_webhook_deliveries",
        "list_webhooks",
        "resend_webhook_delivery",
        "rotate_webhook_secret",
        "verify_automation_run",  # a sum over whole hours, and the hour may turn meanwhile
    }
)
"""Operations whose answers in order are new each time: only status and headers are kept."""
UNMADE = frozenset({"advance_test_clock", "delete_account", "delete_project", "find_change_password"})
"""Operations without an answer in order here: what they end or move, and where they lead, is looked at elsewhere."""
_CHANGING = (
    (re.compile(r"\b([a-z]+)_[0-9a-z]{26}\b"), r"\1_<id>"),
    (re.compile(r"\b(bps|cs|evt|price)_[0-9]+\b"), r"\1_<id>"),  # of payments, which count all that a process has made
    (re.compile(r"\b[0-9a-f]{32,64}\b"), "<hash>"),
    (re.compile(r"\b1[0-9]{9}(?:[0-9]{6})?\b"), "<time>"),
    (re.compile(r'(?<="renewed_at": )null\b'), "<time>"),  # A lease that is renewed within its second stays as it is.
    (re.compile(r"127\.0\.0\.1:\d+"), "<here>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-9:.]+(?:Z|\+00:00)"), "<time>"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<hash>"),
    (re.compile(r"(?<=dur=)[0-9.]+"), "<milliseconds>"),
)
SCHEMA, OTHER_SCHEMA = '"<of its body>"', '"<another>"'
_NUMBER = re.compile(r"(?<=[:\[,] )-?[0-9]+(?:\.[0-9]+)?(?=[,}\]])")
"""Of a success: it counts seconds, or what others have sent."""


class Answer(NamedTuple):
    """An answer as it is kept."""

    status: int
    headers: tuple[str, ...]
    body: str

    @property
    def text(self) -> str:
        return "\n".join([str(self.status), *self.headers, *([self.body] if self.body else [])])

    @property
    def name(self) -> str:
        """What the tables call it: it follows from the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:8]


Answers = dict[str, dict[str, Answer]]
"""By operation and kind of request."""


def record(cluster: TestCluster, directory: Path) -> Answers:
    """Take the tour of the interface, and send every bad request to what it has made."""
    camera = Camera()
    with walking(cluster, directory, camera, SERVICE_TRUSTED_PROXIES="127.0.0.0/8") as (tenant, server):
        secrets = _secrets(tenant, server)
        bound = {one.name: one for one in bind(all_endpoints())}
        good = _in_order(camera)
        found: Answers = {name: {IN_ORDER: _success(camera, name, server)} for name in good}
        with closing(Sender(server.port)) as sender:
            for number, (name, one) in enumerate(sorted(bound.items())):
                sender.address = f"10.0.{number >> 8}.{number & 255}"
                sent = good.get(name) or _made_up(one, secrets)
                for kind, ask in bad_requests(one, sent, secrets):
                    found.setdefault(name, {})[kind] = sender.send(ask, one)
    return found


def _secrets(tenant: Walker, server: ServerHandle) -> Secrets:
    """Credentials of the tour, those of a stranger, and those of a member of its project."""
    client, internal = tenant.client, tenant.internal_token
    [shop] = [
        one for one in tenant.call("GET", "/v1/projects", None, tenant.owner_key)["projects"] if one["name"] == "shop"
    ]
    member = accounts.sign_in(client, internal, "recorded-member", email_verified=True)
    offer = {"email": "recorded-member@example.com", "role": "member"}
    made = tenant.call("POST", f"/v1/projects/{shop['id']}/members", offer, tenant.owner_key)["invitation_id"]
    tenant.call("POST", f"/v1/members/invitations/{made}/accept", {}, member)
    return Secrets(
        owner=tenant.owner_key,
        member=member,
        stranger=accounts.sign_in(client, internal, "recorded-stranger"),
        ended=tenant.secrets["spare key"],
        runner=tenant.secrets["runner"],
        ci=tenant.secrets["ci"],
        dsn=tenant.secrets["dsn"],
        internal=internal,
        test=server.test_token,
    )


def _in_order(camera: Camera) -> Mapping[str, Ask]:
    """The latest request of each operation that succeeded."""
    found = {}
    for request, response in camera.seen:
        if response.is_success:
            found[operation_of(request.method, request.url.path)[0].operation_id] = Ask.of(request)
    return found


def _made_up(bound: Bound, secrets: Secrets) -> Ask:
    """A request of an operation that the tour leaves out, for things of nobody."""
    path = re.sub(r"\{[a-z_]+\}", "proj_0000000000000000000000none", bound.operation.path)
    return Ask(bound.operation.method, path, (("authorization", f"Bearer {secrets.owner}"),))


def _success(camera: Camera, name: str, server: ServerHandle) -> Answer:
    """The first answer in order of an operation."""
    for request, response in camera.seen:
        operation = operation_of(request.method, request.url.path)[0]
        if response.is_success and operation.operation_id == name:
            media = response.headers.get("content-type", "").partition(";")[0]
            plain = Plain(server.base_url)
            body = body_of(response.content, media, None)
            plain.see(body)
            text = (
                ""
                if body is None
                else _NUMBER.sub("<number>", _plain(json.dumps(plain.value(body), ensure_ascii=False)))
            )
            headers = [(key, plain.text(value)) for key, value in response.headers.items()]
            kept = text if len(text) <= LONGEST and name not in NEW else "<another each time>"
            return Answer(response.status_code, _shown(headers), kept)
    raise AssertionError(name)


def _shown(headers: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(sorted(f"{name.lower()}: {_plain(value)}" for name, value in headers if name.lower() not in WAYS))


def _plain(text: str) -> str:
    for changing, instead in _CHANGING:
        text = changing.sub(instead, text)
    return text


class Sender:
    """Sends requests as they stand, over one connection while it lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: HTTPConnection | None = None
        self.address = ""

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, ask: Ask, bound: Bound) -> Answer:
        """Send a request; returns its answer as it is kept."""
        try:
            response, body = self._send(ask)
        except (HTTPException, ConnectionError):  # It was closed after the answer before.
            self.close()
            response, body = self._send(ask)
        if ask.announced is not None or response.will_close:
            self.close()
        length = response.headers.get("content-length")
        assert length is None or ask.method == "HEAD" or int(length) == len(body), "the length is that of the body"
        text = "" if response.status < 400 else body.decode()  # what successes say is looked at elsewhere
        if '"request_body_schema"' in text:
            schema = msgspec.json.decode(body)["error"]["details"]["request_body_schema"]
            shown = SCHEMA if schema == bound.body_schema else OTHER_SCHEMA
            text = text.replace(msgspec.json.encode(schema).decode(), shown)
        return Answer(response.status, _shown(response.getheaders()), _plain(text))

    def _send(self, ask: Ask) -> tuple[HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = HTTPConnection("127.0.0.1", self._port, timeout=20)
        wire = self._connection
        given = {name for name, _ in ask.headers}
        wire.putrequest(ask.method, ask.target, skip_host="host" in given, skip_accept_encoding=True)
        wire.putheader("x-forwarded-for", self.address)
        for name, value in ask.headers:
            wire.putheader(name, value.encode("utf-8"))
        length = len(ask.body) if ask.announced is None else ask.announced
        if length or ask.method not in {"GET", "HEAD", "OPTIONS"}:
            wire.putheader("content-length", str(length))
        wire.endheaders(ask.body or None)
        response = wire.getresponse()
        return response, response.read()
