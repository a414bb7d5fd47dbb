"""A project with what automation needs: people, a verified signal map, credentials; and requests as each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx2
import msgspec

from schemas.kernel.shape import EvidenceSource
from service.accounts.membership import set_member
from service.auth.secrets import digest
from service.eventstore.declare.commands import Answer, Command, Origin, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from service.registry import registry
from statemachines.accounts.membership import Role
from statemachines.kernel.machine import Event, Stream
from statemachines.onboarding import signal_map
from statemachines.onboarding.plan import Plan, Receipt
from statemachines.projects import project
from statemachines.projects.project import ProjectFenced
from tests.support.accounts import create_project, sign_in
from tests.support.plans import make_plan, snapshot_body, target
from tests.support.server import ServerHandle

EVENTS = ("signed_up", "project_created", "checkout_completed")
_keys = count(1)


class StoreAside:
    """A store with an event loop and a thread of its own: a browser may hold those of the test."""

    def __init__(self, url: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._runner = self._thread.submit(asyncio.Runner).result()
        self._store = EventStore(url, registry())
        self._await(self._store.start())

    def run(self, work: Callable[[EventStore], Awaitable[Any]]) -> Any:
        """Carry out something with the store."""

        async def carry_out() -> Any:
            return await work(self._store)

        return self._await(carry_out())

    def close(self) -> None:
        """Close the store."""
        self._await(self._store.stop())
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def _await(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return self._thread.submit(self._runner.run, doing).result()


@dataclass
class World:
    """A project with an owner, a member and a stranger; `secrets` holds the secret of each."""

    url: str
    client: httpx2.Client
    project_id: str = ""
    other_project_id: str = ""
    secrets: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    _store: StoreAside | None = None

    @property
    def contract(self) -> str:
        """Path of the contract."""
        return f"/v1/projects/{self.project_id}/automation-contract"

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        who: str | None = "owner",
        key: str | None = None,
        etag: str | None = None,
        client: httpx2.Client | None = None,
    ) -> httpx2.Response:
        """Send a request as somebody (None: nobody); `etag` goes out as If-Match, `key` as Idempotency-Key."""
        headers = {}
        if who is not None:
            headers["authorization"] = f"Bearer {self.secrets[who]}"
        if key is not None:
            headers["idempotency-key"] = key
        if etag is not None:
            headers["if-match"] = etag
        content = None
        if body is not None:
            headers["content-type"] = "application/json"
            content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return (client or self.client).request(method, path, headers=headers, content=content)

    def mint(self, kind: str, automation_id: str | None = None) -> dict[str, Any]:
        """Have the owner make a credential; its secret is kept under the automation's id, or `ci`."""
        body = {"kind": kind, "name": kind} | ({} if automation_id is None else {"automation_id": automation_id})
        answer = self.call("POST", f"/v1/projects/{self.project_id}/credentials", body, key=f"mint-{next(_keys)}")
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()
        self.secrets[automation_id or "ci"] = made["credential"]
        return made

    def record(self, stream: Stream, *events: Event) -> None:
        """Append events directly to the store."""

        def decide(unit: Unit) -> Answer:
            unit.append(stream, events)
            return Answer(204, None)

        self.run(lambda store: _execute(store, decide, stream))

    def map_signals(self, *events: str, verified: bool = True, source: EvidenceSource = "local") -> None:
        """Approve a plan with these events, and verify it by the evidence of a source."""
        plan = make_plan(
            milestones=[
                {
                    "event": event,
                    "meaning": "It happened.",
                    "provider_boundary": "server_provider",
                    "properties": [],
                    "targets": [target()],
                }
                for event in events
            ]
        )
        stream = signal_map.stream(self.project_id)
        recorded = signal_map.SignalMapRecorded(plan=plan, plan_sha256="d" * 64, recorded_at=1)
        proven = [signal_map.SignalMapVerified(_receipt(plan), source)] if verified else []
        self.record(stream, recorded, *proven)

    def fence(self) -> None:
        """Accept a deletion of the project, directly in the store."""
        self.record(project.stream(self.project_id), ProjectFenced("del_test", 1))

    def run(self, work: Callable[[EventStore], Awaitable[Any]]) -> Any:
        """Run something with the store of this world."""
        if self._store is None:
            self._store = StoreAside(self.url)
        return self._store.run(work)

    def close(self) -> None:
        """Close the store, if there is one."""
        if self._store is not None:
            self._store.close()
            self._store = None


def _receipt(plan: Plan) -> Receipt:
    body = {
        "evidence_status": "source_verified",
        "source_verified_at": 2,
        "analytics": [
            {
                "event": milestone.event,
                "provider_boundary": "server_provider",
                "required_properties": [],
                "observed_properties": [],
                "row_count": 1,
            }
            for milestone in plan.milestones
        ],
        "error": {
            "marker": "payment_declined",
            "provider_boundary": "server_provider",
            "required_context": [],
            "observed_context": [],
            "row_count": 1,
        },
        "deploy": {"environment": "production", "source_snapshot": snapshot_body(), "row_count": 1},
    }
    return msgspec.convert(body, Receipt)


async def _execute(store: EventStore, decide: Callable[[Unit], Answer], *streams: Stream) -> None:
    origin = Origin("system", "test", "seed", new_id("req"))
    await store.execute(Command(origin=origin, decide=decide, streams=streams))


async def user_of(store: EventStore, secret: str) -> str:
    [[user_id]] = await store.fetch("select project_id from api_keys where key_hash = %s", digest(secret))
    return str(user_id)


@contextmanager
def open_world(server: ServerHandle) -> Iterator[World]:
    """Make a project with its people on a running service."""
    assert server.database_url is not None
    with server.client() as client:
        world = World(server.database_url, client)
        for name in ("owner", "member", "stranger"):
            world.secrets[name] = sign_in(client, server.internal_token)
        world.project_id = create_project(client, world.secrets["owner"])["id"]
        world.other_project_id = create_project(client, world.secrets["stranger"])["id"]

        async def settle(store: EventStore) -> None:
            for name, secret in world.secrets.items():
                world.users[name] = await user_of(store, secret)
            await set_member(store, world.project_id, world.users["member"], Role.MEMBER)

        world.run(settle)
        try:
            yield world
        finally:  # a project that nobody looks at any more takes no turn in the sweep of a server that others use
            with suppress(httpx2.TransportError):
                world.call("POST", f"{world.contract}/pause", who="member")
            world.close()


def closed(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error object of a refusal, which has the closed form (G-018)."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == code
    assert set(error) <= {"code", "message", "next_action", "details"}
    assert answer.headers["x-service-request-id"]
    return error
