"""The port over HTTP: the same actors against a real server, its database and its clock.

A request runs in a thread of its own, so that an interleaved one is really concurrent. Lost
answers and duplicates are simulated: the game drops an answer, or sends a request again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psycopg

from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.cases import case
from statemachines.kernel.topics import decode_event
from tests.support.loop.http_scene import HttpScene
from tests.support.loop.port import Entry, Reply, Request

LONGEST = 40 * 86400  # by how much the clock advances in one game: credentials live longer
BUSY_SECONDS = 30.0
NUMBERED_SECONDS = 20.0
WORDS = ("anvil", "bolt", "crank", "drill", "engine", "flange", "gear", "hinge")
_LOG = (
    "select i.position, e.stream_id, e.revision, e.topic, e.payload::text, e.actor_kind, "
    "floor(extract(epoch from e.recorded_at))::bigint from log_index i join events e on e.seq = i.seq "
    "where i.position > %s and e.project_id = %s order by i.position"
)
WHO = {
    "owner": "owner",
    "pauser": "owner",
    "canceller": "owner",
    "ci": "ci",
    "sweep": "owner",
    "telemetry": "dsn",
    "heal/runner_1": "heal",
    "heal/runner_2": "rival",
}
"""Which secret an actor presents."""


class HttpPort:
    """Carries requests out against a prepared scene."""

    def __init__(self, scene: HttpScene) -> None:
        self.scene = scene
        self.entries: list[Entry] = []
        self._position = 0
        self._ahead = 0
        self._cases: dict[str, str] = {}  # of claims
        self._runners: dict[str, str] = {}  # names in the game, by the credential's
        self._pool = ThreadPoolExecutor(4)
        self._database = psycopg.connect(scene.world.url, autocommit=True)

    def close(self) -> None:
        self._pool.shutdown()
        self._database.close()

    # ---- the protocol

    def advance(self, seconds: int) -> None:
        """Advance the clock, not beyond the lifetime of the credentials."""
        if seconds > 0 and self._ahead + seconds <= LONGEST:
            self._ahead += seconds
            self.scene.server.advance(seconds)

    def log(self) -> Sequence[Entry]:
        """Every event of the project that has a position."""
        rows = self._database.execute(_LOG, (self._position, self.scene.world.project_id)).fetchall()
        for position, stream, revision, topic, payload, kind, at in rows:
            self._position = position
            self.entries.append(Entry(stream, revision, decode_event(topic, payload), kind, at))
        return self.entries

    def settled_log(self) -> Sequence[Entry]:
        """The whole log, after everything got its position."""
        give_up = time.monotonic() + NUMBERED_SECONDS
        while self._database.execute("select 1 from unsequenced limit 1").fetchall():
            assert time.monotonic() < give_up, "the log was not numbered to its end"
            time.sleep(0.02)
        return self.log()

    def send(self, request: Request, interleave: Callable[[], None]) -> Reply:
        """Send a request; another may be sent while it is in flight."""
        under_way = self._pool.submit(getattr(self, "_" + request.operation, self._plain), request)
        interleave()
        reply: Reply = under_way.result()
        return self._learned(request, reply)

    def _learned(self, request: Request, reply: Reply) -> Reply:
        """Note the cases of claims, and map runners to their names in the game."""
        body = reply.body
        if request.operation == "claim" and reply.ok:
            self._cases[body["claim_id"]] = body["case_id"]
            self._runners.setdefault(body["runner_id"], request.actor.partition("/")[2])
        if "runner_id" in body:
            body = body | {"runner_id": self._runners.get(body["runner_id"], body["runner_id"])}
        return Reply(reply.status, body, reply.code, reply.words)

    # ---- requests on the wire

    def _ask(self, request: Request, method: str, path: str, body: Any = None) -> Reply:
        """Send it until the server accepts it or refuses it definitely."""
        give_up = time.monotonic() + BUSY_SECONDS
        while True:
            answer = self.scene.world.call(
                method, path, body, who=WHO[request.actor], key=request.key, etag=request.if_match
            )
            reply = _reply(answer)
            if reply.status != 503 and reply.code != "idempotency_in_progress":
                return reply
            assert time.monotonic() < give_up, f"busy: {request}"
            time.sleep(0.05)

    def _plain(self, request: Request) -> Reply:
        method, path = ROUTES[request.operation]
        named = {"project": self.scene.project, "contract": self.scene.world.contract} | request.path
        kind = named.get("kind")
        if kind is not None:
            named["kind"] = kind.replace("_", "-")
        body = dict(request.body)
        for name in ("binding", "document"):
            body |= body.pop(name, {})
        if "cost_usd" in body:
            body["cost_usd"] = float(body["cost_usd"])
        if body.get("title", "") is None:
            del body["title"]
        return self._ask(request, method, path.format_map(named), None if method == "GET" else body)

    def _request_approval(self, request: Request) -> Reply:
        path = f"/v1/automation-runs/{request.path['run_id']}/approvals"
        return self._ask(request, "POST", path, request.body | {"summary": "May I?"})

    def _disable(self, request: Request) -> Reply:
        path = f"{self.scene.world.contract}/automations/{request.path['automation_id']}"
        return self._ask(request, "PATCH", path, {"enabled": False})

    def _renew(self, request: Request) -> Reply:
        return self._on_claim(request)

    def _release(self, request: Request) -> Reply:
        return self._on_claim(request)

    def _on_claim(self, request: Request) -> Reply:
        claim_id = request.path["claim_id"]
        path = f"/v1/cases/{self._cases[claim_id]}/claims/{claim_id}/{request.operation}"
        return self._ask(request, "POST", path, request.body)

    def _receipts(self, request: Request) -> Reply:
        reply = self._plain(request)
        # The actors look at the end of the list for what is new.
        return Reply(reply.status, {"trigger_receipts": reply.body["trigger_receipts"][::-1]})

    def _deploy(self, request: Request) -> Reply:
        return self._ask(request, "POST", "/v1/deploys/", request.body | {"version": "v1"})

    def _sweep(self, _: Request) -> Reply:
        """Run the minute sweep."""
        self.advance(1)
        return Reply(200, {})

    # ---- telemetry

    def _error(self, request: Request) -> Reply:
        word = WORDS[int(request.body["fingerprint"][0])]
        return self._ask(request, "POST", "/v1/logs/", {"message": f"The {word} has failed", "level": "error"})

    def _traffic(self, request: Request) -> Reply:
        for _ in range(request.body["count"]):
            reply = self._ask(request, "POST", "/v1/analytics/", {"event": "checkout_completed", "distinct_id": "u1"})
        return reply

    def _suppress(self, request: Request) -> Reply:
        """Resolve a case past automation, from a process that is not the server."""
        project_id = self.scene.world.project_id
        stream = case.stream(project_id, request.path["case_id"])

        def decide(unit: Unit) -> Answer:
            unit.append(stream, case.decide_resolve(unit.state(stream), "elsewhere", unit.now))
            return Answer(204, None)

        async def resolve(store: EventStore) -> None:
            origin = Origin("system", "test", "resolve", new_id("req"))
            await store.execute(Command(origin=origin, decide=decide, streams=[stream]))

        self.scene.world.run(resolve)
        return Reply(200, {})


def _reply(answer: httpx2.Response) -> Reply:
    """What an actor sees of an answer: the body, or details and texts of a refusal."""
    body = answer.json()
    if answer.is_success:
        return Reply(answer.status_code, body)
    error = body["error"]
    words = f"{error['message']} {error['next_action']}"
    return Reply(answer.status_code, error.get("details", {}), error["code"], words)


ROUTES = {
    "put": ("PUT", "{contract}"),
    "read_contract": ("GET", "{contract}"),
    "enable": ("POST", "{contract}/enable"),
    "pause": ("POST", "{contract}/pause"),
    "approvals": ("GET", "{project}/automation-approvals?limit=200"),
    "decide": ("POST", "/v1/automation-approvals/{approval_id}/decide"),
    "issue": ("POST", "{project}/automation-triggers/issue"),
    "receipts": ("GET", "{project}/automation-trigger-receipts?limit=20"),
    "claim": ("POST", "/v1/cases/{case_id}/claims"),
    "start": ("POST", "{project}/automation-runs"),
    "run": ("GET", "/v1/automation-runs/{run_id}"),
    "patch": ("PATCH", "/v1/automation-runs/{run_id}"),
    "usage": ("POST", "/v1/automation-runs/{run_id}/usage"),
    "authorize": ("POST", "/v1/automation-runs/{run_id}/actions/{kind}/authorize"),
    "consume": ("POST", "/v1/automation-runs/{run_id}/actions/{kind}/consume"),
    "pr_proof": ("POST", "/v1/automation-runs/{run_id}/pr-proof"),
    "verify": ("POST", "/v1/automation-runs/{run_id}/verify"),
    "cancel": ("POST", "/v1/automation-runs/{run_id}/cancel"),
}
