"""P6: one idempotency key, used by many at once: twins, mutants of their request, and other principals."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psycopg

from service.accounts import membership as admin
from statemachines.accounts.membership import Role
from tests.support import seen
from tests.support.api import Person
from tests.support.history import Op
from tests.support.plans import plan_body
from tests.torture.registers import Register, Writer
from tests.torture.stage import TIMEOUT, Stage


@dataclass
class Variant:
    """One request under a key: a principal and a body. Its twins are sent byte by byte alike."""

    op: Op
    secret: str
    body: Any
    answers: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass
class Verdicts:
    """The faults that the storm found, and counts by kind."""

    wrong: list[str] = field(default_factory=list)
    keys: int = 0
    replays: int = 0
    reused: int = 0
    strangers: int = 0


async def twins(stage: Stage, *, keys: int, gaps: tuple[float, float], kills: int, at_once: int = 6) -> Verdicts:
    """Send each key 1 to 8 times at once, sometimes with another body or principal, while processes are killed."""
    verdicts = Verdicts()
    second = await _second_owner(stage)
    free = list(stage.registers)
    started = 0

    async def work(writer: Writer, client: httpx2.AsyncClient) -> None:
        nonlocal started
        while started < keys or stage.fired["api killed"] < kills:
            started += 1
            register = free.pop(random.randrange(len(free)))
            try:
                await _one_key(stage, writer, client, register, f"twin-{started}", second, verdicts)
            finally:
                free.append(register)

    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    async with (
        seen.async_client(stage.base_url, timeout=TIMEOUT, limits=limits) as client,
        stage.struck(lambda: stage.kill_api(everyone=random.random() < 0.3), gaps),
    ):
        writer = stage.writer(client)
        await asyncio.gather(*(work(writer, client) for _ in range(at_once)))
    verdicts.keys = started
    return verdicts


async def _second_owner(stage: Stage) -> tuple[Person, str]:
    person = await stage.world.sign_in()
    for register in stage.registers:
        await stage.world.operate(
            lambda store, register=register: admin.set_member(store, register.project_id, person.user_id, Role.OWNER)
        )
    [[key_id]] = await stage.world.sql("select id from api_keys where project_id = %s", person.user_id)
    return person, f"key:{key_id}"


async def _one_key(
    stage: Stage,
    writer: Writer,
    client: httpx2.AsyncClient,
    register: Register,
    key: str,
    second: tuple[Person, str],
    verdicts: Verdicts,
) -> None:
    while await writer.read(register) is None:  # noqa: ASYNC110 - the service comes back by itself
        await asyncio.sleep(0.05)
    tag = register.etag()

    def variant(secret: str, principal: str) -> Variant:
        op = stage.journal.invoke(register.stream, expected=register.revision, key=key, principal=principal)
        body = {
            "decision": "replace",
            "plan_sha256": register.plan_sha256,
            "replacement_plan": plan_body(op.id),
        }
        return Variant(op, secret, body)

    original = variant(register.secret, register.principal)
    variants = [original] * random.randint(1, 8)
    if random.random() < 0.15:
        variants.append(variant(register.secret, register.principal))
    if random.random() < 0.15:
        variants.append(variant(second[0].secret or "", second[1]))
        verdicts.strangers += 1
    random.shuffle(variants)
    await asyncio.gather(*(_ask(client, register, one, tag, key) for one in variants))
    distinct = list({id(one): one for one in variants}.values())
    for one in distinct:
        _enter(stage, one, verdicts)
    done = [one for one in distinct if one.op.outcome == "ok"]
    for principal in {one.op.principal for one in done}:
        if sum(one.op.principal == principal for one in done) > 1:
            verdicts.wrong.append(f"{key}: two different requests of {principal} were done")


async def _ask(client: httpx2.AsyncClient, register: Register, one: Variant, tag: str, key: str) -> None:
    """Repeat the request until its answer is definite."""
    headers = {"authorization": f"Bearer {one.secret}", "if-match": tag, "idempotency-key": key}
    async with asyncio.timeout(60):
        while True:
            try:
                answer = await client.post(f"{register.path}/review", json=one.body, headers=headers)
            except httpx2.TransportError:
                one.op.doubts += 1
            else:
                code = "" if answer.status_code == 200 else answer.json()["error"]["code"]
                if answer.status_code < 500 and code != "idempotency_in_progress":
                    one.answers.append((answer.status_code, answer.content))
                    if "idempotent-replayed" in answer.headers:
                        one.op.replayed = True
                    return
                assert answer.status_code in {409, 503}, answer.text
            await asyncio.sleep(random.uniform(0.01, 0.1))


def _enter(stage: Stage, one: Variant, verdicts: Verdicts) -> None:
    """Check the answers of the twins of one request, and enter it in the journal as one operation."""
    op = one.op
    statuses = {status for status, _ in one.answers}
    bodies = {body for status, body in one.answers if status == 200}
    replayed, op.replayed = op.replayed, False
    verdicts.replays += len(one.answers) - 1 if replayed else 0
    verdicts.reused += 422 in statuses
    if not statuses <= {200, 412, 422}:
        verdicts.wrong.append(f"{op.id} was answered {statuses}")
    if len(bodies) > 1:
        verdicts.wrong.append(f"{op.id}: twins were shown different bodies")
    if bodies and statuses != {200}:
        verdicts.wrong.append(f"{op.id}: some twins were refused ({statuses}) although it was done")
    for body in bodies:
        state = httpx2.Response(200, content=body).json()
        if state["plan"]["business_question"] != op.id:
            verdicts.wrong.append(f"{op.id} was shown the answer of another request")
        stage.journal.end(op, "ok", 200, revision=state["revision"], answer=body)
        return
    stage.journal.end(op, "fail", min(statuses))


def stored_secrets(stage: Stage) -> list[str]:
    """Raw secrets or refusals that an idempotency record holds: there must be none."""
    secrets = sorted({register.secret for register in stage.registers})
    with psycopg.connect(stage.url, autocommit=True) as connection:
        rows = connection.execute(
            "select i.operation, i.status from idempotency i where i.status >= 300 or exists "
            "(select 1 from unnest(%s::text[]) s(secret) where position(s.secret in convert_from(i.body, 'UTF8')) > 0)",
            (secrets,),
        ).fetchall()
    return [f"{operation} was stored with {status}" for operation, status in rows]
