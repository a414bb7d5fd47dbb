"""Registers over HTTP: the onboarding of a project is a value that `If-Match` guards, one revision a write."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.support.api import World, ok
from tests.support.history import Journal, Op
from tests.support.plans import plan_body

MARKER = "e.payload->'plan'->>'business_question'"
PERSISTENCE = 40.0  # seconds within which a client that repeats its request must have a definite answer
_keys = itertools.count(1)


@dataclass
class Register:
    """One project's onboarding as a client knows it; this may be out of date."""

    project_id: str
    stream: str
    secret: str
    principal: str
    revision: int
    plan_sha256: str

    @property
    def path(self) -> str:
        return f"/v1/projects/{self.project_id}/onboarding"

    def etag(self, revision: int | None = None) -> str:
        return f'"onb:{self.stream}:{self.revision if revision is None else revision}"'

    def learn(self, state: dict[str, Any]) -> None:
        """Store a state if it is newer than the known one."""
        if state["revision"] > self.revision:
            self.revision, self.plan_sha256 = state["revision"], state["plan_sha256"]


async def make_registers(world: World, number: int, *, owners: int = 4) -> list[Register]:
    """Sign some owners in, and start the onboarding of as many projects as requested."""
    people = [await world.sign_in() for _ in range(min(owners, number))]

    async def make(turn: int) -> Register:
        person = people[turn % len(people)]
        project = await person.create_project(f"register {turn}")
        body = {"intent": "start", "plan": plan_body(f"start {turn}")}
        state = ok(await person.post(f"/v1/projects/{project['id']}/onboarding", body), 201)
        [[key_id]] = await world.sql("select id from api_keys where project_id = %s", person.user_id)
        return Register(
            project["id"],
            state["onboarding_id"],
            person.secret or "",
            f"key:{key_id}",
            state["revision"],
            state["plan_sha256"],
        )

    return [await make(turn) for turn in range(number)]


class Writer:
    """A client that writes registers and keeps the journal."""

    def __init__(self, client: httpx2.AsyncClient, journal: Journal, on_answer: Callable[[float], None]) -> None:
        self._client = client
        self._journal = journal
        self._on_answer = on_answer

    async def read(self, register: Register) -> dict[str, Any] | None:
        """Read the current state; None when that fails."""
        sent = time.monotonic()
        try:
            answer = await self._client.get(register.path, headers={"authorization": f"Bearer {register.secret}"})
        except httpx2.TransportError:
            return None
        if answer.status_code != 200:
            assert answer.status_code == 503, answer.text
            return None
        self._on_answer(sent)
        state: dict[str, Any] = answer.json()
        register.learn(state)
        return state

    async def write(
        self, register: Register, *, expected: int | None = None, tag: str | None = None, persist: bool = True
    ) -> Op:
        """Replace the plan at the revision that is known, or at another one, or under a tag that fits nothing.

        `persist` repeats the request with its key until the answer is definite.
        """
        revision = register.revision if expected is None else expected
        key = f"key-{next(_keys)}"
        op = self._journal.invoke(
            register.stream, expected=None if tag else revision, key=key, principal=register.principal
        )
        body = {
            "decision": "replace",
            "plan_sha256": register.plan_sha256,
            "replacement_plan": plan_body(op.id),
        }
        await self.ask(op, register, body, tag or register.etag(revision), persist=persist)
        return op

    async def ask(self, op: Op, register: Register, body: Any, tag: str, *, persist: bool) -> None:
        """Send a write until its answer is definite (or once), and enter the result in the journal."""
        give_up = asyncio.get_running_loop().time() + PERSISTENCE
        while True:
            answer = await self._send(op, register, body, tag)
            if answer is not None:
                self._enter(op, register, answer)
                return
            op.doubts += 1
            if not persist or asyncio.get_running_loop().time() > give_up:
                self._journal.end(op, "info")
                return
            await asyncio.sleep(random.uniform(0.01, 0.1))

    async def _send(self, op: Op, register: Register, body: Any, tag: str) -> httpx2.Response | None:
        """Send it once; None when the answer is not definite."""
        headers = {"authorization": f"Bearer {register.secret}", "if-match": tag, "idempotency-key": op.key or ""}
        sent = time.monotonic()
        try:
            answer = await self._client.post(f"{register.path}/review", json=body, headers=headers)
        except httpx2.TransportError:
            return None
        if answer.is_success:
            self._on_answer(sent)
        if answer.status_code == 409 and answer.json()["error"]["code"] == "idempotency_in_progress":
            return None
        if answer.status_code >= 500:
            assert answer.status_code == 503, f"{op.id}: {answer.status_code} {answer.text}"
            return None
        return answer

    def _enter(self, op: Op, register: Register, answer: httpx2.Response) -> None:
        replayed = "idempotent-replayed" in answer.headers
        if answer.status_code == 200:
            state = answer.json()
            told = {"revision": state["revision"], "answer": answer.content, "replayed": replayed}
            self._journal.end(op, "ok", 200, **told)
            register.learn(state)
        else:
            self._journal.end(op, "fail", answer.status_code)
