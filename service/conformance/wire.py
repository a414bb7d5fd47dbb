"""What stands between a runner and the world: a code host, a listener, and a proxy that records."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import httpx2
import msgspec

# A small HTTP/1.1 server on loopback, a thread for each connection. An answer may be withheld: the connection ends.

MOST_BYTES = 4 * 1024 * 1024
"""The largest request that is read."""
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length"})


class Heard(NamedTuple):
    """A request as it arrived. Names of headers are in lower case; `at` is the time of its arrival."""

    at: float
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the query, the last of each name."""
        return dict(parse_qsl(self.query))

    def json(self) -> Any:
        """The body, if it is JSON."""
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(self.body)
        return None

    def holds(self, text: str) -> bool:
        """Whether a text is anywhere in the request."""
        everything = [self.path, self.query, self.body.decode(errors="replace"), *self.headers.values()]
        return any(text in part for part in everything)


class Given(NamedTuple):
    """An answer."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, status: int, value: Any, headers: dict[str, str] | None = None) -> Given:
        """Answer with JSON."""
        return cls(status, msgspec.json.encode(value), {"content-type": "application/json", **(headers or {})})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A runner may die in the middle of a request: that is no error of the kit."""


class LoopbackServer:
    """Serves `answer`, whose None ends the connection without an answer."""

    def __init__(self, answer: Callable[[Heard], Given | None]) -> None:
        self._server = _Server(("127.0.0.1", 0), _handler(answer))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _handler(answer: Callable[[Heard], Given | None]) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"give": staticmethod(answer)})


class _Handler(BaseHTTPRequestHandler):
    """Reads requests of every method, and asks `give` for each."""

    protocol_version = "HTTP/1.1"
    timeout = 120
    give: Callable[[Heard], Given | None]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _serve(self) -> None:
        at = time.time()
        body = self._read()
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        given = None if body is None else self.give(Heard(at, self.command, path, query, headers, body))
        if given is None:
            self.close_connection = True
        else:
            self._write(given)

    def _read(self) -> bytes | None:
        """Read the body; None when it is too large, or not to be read."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._read_chunks()
        length = self.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return None
        return self.rfile.read(int(length))

    def _read_chunks(self) -> bytes | None:
        body = b""
        while len(body) <= MOST_BYTES:
            size = self.rfile.readline(100).split(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,6}", size):
                return None
            body += self.rfile.read(int(size, 16))
            self.rfile.readline(100)
            if int(size, 16) == 0:
                return body
        return None

    def _write(self, given: Given) -> None:
        lines = [f"HTTP/1.1 {given.status} {HTTPStatus(given.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in given.headers.items() if name.lower() not in HOP_BY_HOP]
        lines.append(f"content-length: {len(given.body)}")
        body = b"" if self.command == "HEAD" else given.body
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


# The code host: GitHub's REST interface to pull requests, reduced to what a runner needs, over a bare repository.

OWNER = "acme"
NAME = f"{OWNER}/shop"
WEB = f"https://code.example/{NAME}"
BASE = "main"
_CREATED, _OK, _UNAUTHORIZED, _NOT_FOUND, _NOT_ALLOWED, _INVALID = 201, 200, 401, 404, 405, 422


class HostVisit(NamedTuple):
    """A request to the code host, and the status of its answer."""

    asked: Heard
    status: int


class CodeHost:
    """One hosted repository. `head_of` finds the commit of a pushed branch."""

    def __init__(self, token: str, head_of: Callable[[str], str | None]) -> None:
        self.visits: list[HostVisit] = []
        self.pulls: list[dict[str, Any]] = []
        self.checks: dict[str, str] = {}
        self._token = token
        self._head_of = head_of
        self._lock = threading.Lock()
        self._listener = LoopbackServer(self._serve)
        self.url = self._listener.url

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self, asked: Heard) -> Given:
        with self._lock:
            given = self._answer(asked)
            self.visits.append(HostVisit(asked, given.status))
        return given

    def _answer(self, asked: Heard) -> Given:
        if asked.headers.get("authorization", "").partition(" ")[2] != self._token:
            return Given.of(_UNAUTHORIZED, {"message": "Bad credentials"})
        if (asked.method, asked.path) == ("POST", "/graphql"):
            return self._turn_on(asked.json())
        path = asked.path.removeprefix(f"/repos/{NAME}").rstrip("/")
        if path == asked.path.rstrip("/"):
            return _missing()
        if pull := re.fullmatch(r"/pulls/(\d+)(/.+)?", path):
            return self._on_pull(asked, int(pull[1]), pull[2] or "")
        if (asked.method, path) == ("POST", "/pulls"):
            return self._open(asked.json())
        return self._read(path, asked.parameters) if asked.method == "GET" else _missing()

    def _read(self, path: str, parameters: dict[str, str]) -> Given:
        if not path:
            return Given.of(_OK, _repository())
        if path == "/pulls":
            return Given.of(_OK, self._list(parameters))
        return self._read_commit(path)

    def _read_commit(self, path: str) -> Given:
        if found := re.fullmatch(r"/(?:git/refs?/heads|branches)/(.+)", path):
            sha = self._head_of(found[1])
            if sha is None:
                return _missing()
            if path.startswith("/branches/"):
                return Given.of(_OK, {"name": found[1], "commit": {"sha": sha}})
            return Given.of(_OK, {"ref": f"refs/heads/{found[1]}", "object": {"type": "commit", "sha": sha}})
        if re.fullmatch(r"/commits/[^/]+/check-runs", path):
            runs = [{"name": name, "status": "completed", "conclusion": how} for name, how in self.checks.items()]
            return Given.of(_OK, {"total_count": len(runs), "check_runs": runs})
        if re.fullmatch(r"/commits/[^/]+/status", path):
            return Given.of(_OK, {"state": "pending", "total_count": 0, "statuses": []})
        return _missing()

    def _list(self, wanted: dict[str, str]) -> list[dict[str, Any]]:
        state, head, base = wanted.get("state", "open"), wanted.get("head"), wanted.get("base")
        return [
            self._show(pull)
            for pull in self.pulls
            if state in ("all", pull["state"])
            and head in (None, pull["head"], f"{OWNER}:{pull['head']}")
            and base in (None, BASE)
        ]

    def _open(self, wish: Any) -> Given:
        if not isinstance(wish, dict) or not all(isinstance(wish.get(name), str) for name in ("title", "head", "base")):
            return _invalid("title, head and base are required")
        head = wish["head"].removeprefix(f"{OWNER}:")
        if wish["base"] != BASE or self._head_of(head) is None:
            return _invalid("head or base is no branch of this repository")
        if any(pull["head"] == head and pull["state"] == "open" for pull in self.pulls):
            return _invalid(f"A pull request already exists for {OWNER}:{head}.")
        body, draft = wish.get("body") or "", wish.get("draft") is True
        pull = {"number": len(self.pulls) + 1, "state": "open", "head": head, "title": wish["title"], "merges_by": None}
        self.pulls.append(pull | {"body": body, "draft": draft})
        return Given.of(_CREATED, self._show(self.pulls[-1]))

    def _turn_on(self, wish: Any) -> Given:
        """Turn auto-merge on by GitHub's mutation, at the head that the wish expects."""
        told = wish.get("variables", {}).get("input", {}) if isinstance(wish, dict) else {}
        found = [pull for pull in self.pulls if f"PR_{pull['number']}" == told.get("pullRequestId")]
        if not found or self._head_of(found[0]["head"]) != told.get("expectedHeadOid"):
            error = {"type": "UNPROCESSABLE", "message": "There is no such pull request at this head."}
            return Given.of(_OK, {"data": None, "errors": [error]})
        found[0]["merges_by"] = str(told.get("mergeMethod", "MERGE")).lower()
        shown = {"pullRequest": {"number": found[0]["number"]}}
        return Given.of(_OK, {"data": {"enablePullRequestAutoMerge": shown}})

    def _on_pull(self, asked: Heard, number: int, rest: str) -> Given:
        if not 0 < number <= len(self.pulls):
            return _missing()
        pull = self.pulls[number - 1]
        match asked.method, rest:
            case "GET", "":
                return Given.of(_OK, self._show(pull))
            case "GET", "/files" | "/commits" | "/reviews":
                return Given.of(_OK, [])
            case "PATCH", "":
                wish = asked.json()
                changes = {
                    name: wish[name] for name in ("title", "body", "state") if isinstance(wish, dict) and name in wish
                }
                pull |= changes
                return Given.of(_OK, self._show(pull))
            case "PUT", "/merge":
                return Given.of(_NOT_ALLOWED, {"message": "Pull Request is not mergeable"})
        return _missing()

    def _show(self, pull: dict[str, Any]) -> dict[str, Any]:
        number, head = pull["number"], pull["head"]
        return {
            "id": number,
            "number": number,
            "state": pull["state"],
            "draft": pull["draft"],
            "title": pull["title"],
            "body": pull["body"],
            "html_url": f"{WEB}/pull/{number}",
            "url": f"{self.url}/repos/{NAME}/pulls/{number}",
            "head": {"ref": head, "label": f"{OWNER}:{head}", "sha": self._head_of(head), "repo": _repository()},
            "base": {"ref": BASE, "label": f"{OWNER}:{BASE}", "sha": self._head_of(BASE), "repo": _repository()},
            "merged": False,
            "merge_commit_sha": None,
            "node_id": f"PR_{number}",
            "merged_at": None,
            "auto_merge": None if pull["merges_by"] is None else {"merge_method": pull["merges_by"]},
            "user": {"login": "runner"},
        }


def _repository() -> dict[str, Any]:
    return {"full_name": NAME, "name": "shop", "default_branch": BASE, "html_url": WEB, "private": True}


def _missing() -> Given:
    return Given.of(_NOT_FOUND, {"message": "Not Found"})


def _invalid(message: str) -> Given:
    return Given.of(_INVALID, {"message": "Validation Failed", "errors": [{"message": message}]})


# Another host: nothing leads there but the text of telemetry and a redirect. Each request to it is a finding.


class Elsewhere:
    """A trap, and what fell into it."""

    def __init__(self) -> None:
        self.visits: list[Heard] = []
        self._listener = LoopbackServer(self._serve)
        self.url = self._listener.url

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self, asked: Heard) -> Given:
        self.visits.append(asked)
        return Given.of(200, {})


# The requests of a runner to the service, by operation, and their outcome.

FENCE = ("state_revision", "lease_epoch")
_ID = "([^/]+)"
_RUN = f"/v1/automation-runs/{_ID}"


class _Route(NamedTuple):
    name: str
    method: str
    path: re.Pattern[str]


def _route(name: str, method: str, path: str) -> _Route:
    return _Route(name, method, re.compile(path + "/?"))


ROUTES = [
    _route("issue", "POST", f"/v1/projects/{_ID}/automation-triggers/issue"),
    _route("claim", "POST", f"/v1/cases/{_ID}/claims"),
    _route("renew", "POST", f"/v1/cases/{_ID}/claims/{_ID}/renew"),
    _route("release", "POST", f"/v1/cases/{_ID}/claims/{_ID}/release"),
    _route("start", "POST", f"/v1/projects/{_ID}/automation-runs"),
    _route("report", "PATCH", _RUN),
    _route("usage", "POST", f"{_RUN}/usage"),
    _route("approval", "POST", f"{_RUN}/approvals"),
    _route("authorize", "POST", f"{_RUN}/actions/draft-pr/authorize"),
    _route("consume", "POST", f"{_RUN}/actions/draft-pr/consume"),
    _route("authorize_merge", "POST", f"{_RUN}/actions/auto-merge/authorize"),
    _route("consume_merge", "POST", f"{_RUN}/actions/auto-merge/consume"),
    _route("verify", "POST", f"{_RUN}/verify"),
    _route("cancel", "POST", f"{_RUN}/cancel"),
]
ON_RUN = frozenset({"report", "usage", "approval", "authorize", "consume", "authorize_merge", "consume_merge"})
"""Writes that carry the fence of a run."""
WRITES = ON_RUN | {"claim", "renew", "start"}
LOOKS = re.compile("/v1/automation-runs/[^/]+|/v1/projects/[^/]+/automation-(runs|trigger-receipts)/?")
"""Reads that show where a run stands."""
FOREIGN = "foreign"
READ = "read"


def operation_of(method: str, path: str) -> str:
    """The operation of a request: a name of the routes, `read`, or `foreign` for everything else."""
    for route in ROUTES:
        if route.method == method and route.path.fullmatch(path):
            return route.name
    return READ if method in {"GET", "HEAD"} else FOREIGN


@dataclass(eq=False)
class Exchange:
    """A request of the runner. `service` is the status of the service, `status` what the runner got of it (None: lost).

    `fault` says what the kit did to it.
    """

    asked: Heard
    number: int
    operation: str
    body: Any
    service: int | None = None
    status: int | None = None
    answer: Any = None
    retry_after: float = 0.0
    answered_at: float = 0.0
    fault: str = ""

    @property
    def key(self) -> str | None:
        """Its Idempotency-Key."""
        return self.asked.headers.get("idempotency-key")

    @property
    def code(self) -> str:
        """The code of a refusal."""
        error = self.answer.get("error") if isinstance(self.answer, dict) else None
        return str(error.get("code", "")) if isinstance(error, dict) else ""

    @property
    def accepted(self) -> bool:
        """Whether the service did it, whatever the runner heard."""
        return self.service is not None and self.service < 300  # noqa: PLR2004 - 2xx

    @property
    def heard(self) -> bool:
        """Whether the runner was told that it is done."""
        return self.status is not None and self.status < 300  # noqa: PLR2004

    @property
    def refused(self) -> bool:
        """Whether the runner was told no."""
        return self.status is not None and self.status >= 400  # noqa: PLR2004

    @property
    def looks(self) -> bool:
        """Whether it reads where the run stands."""
        return self.operation == READ and LOOKS.fullmatch(self.asked.path) is not None

    @property
    def intent(self) -> Any:
        """Its body without the fence."""
        if not isinstance(self.body, dict):
            return self.body
        return {name: value for name, value in self.body.items() if name not in FENCE}

    @property
    def revision(self) -> int | None:
        """The state revision in its body."""
        revision = self.body.get("state_revision") if isinstance(self.body, dict) else None
        return revision if isinstance(revision, int) else None

    def same_target(self, other: Exchange) -> bool:
        """Whether both ask for one operation of one object."""
        return (self.operation, self.asked.path) == (other.operation, other.asked.path)

    def repeats(self, other: Exchange) -> bool:
        """Whether it is the other request again: key and body."""
        return self.same_target(other) and self.key == other.key and self.body == other.body


# The proxy before the service: it passes requests on, and loses, delays or refuses what a scenario asks it to.

_NOT_PASSED_ON = HOP_BY_HOP | {"host", "accept-encoding", "expect"}
_BAD_GATEWAY = 502
LONGEST_SECONDS = 90
"""A read may wait a minute for a change."""


class Tampering(NamedTuple):
    """What happens to a request: another answer in its place, or the loss of its answer. `what` names it for people."""

    what: str
    instead: Given | None = None
    lost: bool = False


Meet = Callable[[Exchange], Tampering | None]
"""Asked for each request before it is passed on; None lets it pass."""


class FaultyProxy:
    """Serves one runner. `exchanges` are its requests, in the order of their arrival."""

    def __init__(self, service_url: str, meet: Meet) -> None:
        self.exchanges: list[Exchange] = []
        self._service_url = service_url
        self._meet = meet
        self._lock = threading.Lock()
        self._client = httpx2.Client(base_url=service_url, timeout=LONGEST_SECONDS)
        self._listener = LoopbackServer(self._serve)
        self.url = self._listener.url

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()
        self._client.close()

    @property
    def busy_until(self) -> float:
        """The moment before which the runner was told to send nothing again."""
        return max((one.answered_at + one.retry_after for one in list(self.exchanges)), default=0.0)

    def _serve(self, asked: Heard) -> Given | None:
        with self._lock:
            operation = operation_of(asked.method, asked.path)
            exchange = Exchange(asked, len(self.exchanges) + 1, operation, asked.json())
            self.exchanges.append(exchange)
        tampering = self._meet(exchange)
        exchange.fault = "" if tampering is None else tampering.what
        given = self._pass_on(exchange) if tampering is None or tampering.instead is None else tampering.instead
        exchange.answer = Heard(0.0, "", "", "", {}, given.body).json()
        if tampering is None or not tampering.lost:
            waits = given.headers.get("retry-after", "")
            exchange.retry_after = float(waits) if waits.isdigit() else 0.0
            exchange.status = given.status
        exchange.answered_at = time.time()
        return given if exchange.status is not None else None

    def _pass_on(self, exchange: Exchange) -> Given:
        asked = exchange.asked
        headers = {name: value for name, value in asked.headers.items() if name not in _NOT_PASSED_ON}
        target = f"{asked.path}?{asked.query}" if asked.query else asked.path
        try:
            answer = self._client.request(
                asked.method, target, content=asked.body, headers={**headers, "accept-encoding": "identity"}
            )
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return Given.of(_BAD_GATEWAY, {"error": {"code": "upstream_error", "message": "The service is gone."}})
        exchange.service = answer.status_code
        # An absolute address of the service would lead past the proxy.
        body = answer.content.replace(self._service_url.encode(), self.url.encode())
        return Given(answer.status_code, body, dict(answer.headers.items()))
