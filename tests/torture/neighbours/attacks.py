"""The shapes of P25 from the attacker's side; each runs in a process of its own, which gives way to others.

    python -m tests.torture.neighbours.attacks SHAPE < holdings.json

Each sends as fast as it is answered, with what one key, one DSN or a stranger may send. Prints what it was answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec

from scripts.load.loadgen import Request, Response
from tests.torture.neighbours import doors, readers, sdks, strange
from tests.torture.neighbours.attacker import Attacker, Holdings

NICE = 10  # the attacker's own work is not the service's: on a machine of its own it would take nothing from anybody
MOST_BODY = 1 << 20
MOST_PLAN = 480 * 1024
MOST_TARGETS = MOST_PLAN // 37
MOST_RECORD = 256 * 1024 - 512
BEGUN = "begun"
MOST_WEBHOOKS = 20
STALE = 412


def plan_of(plan: dict[str, Any], number: int, targets: int = 1) -> dict[str, Any]:
    """Make a plan that no other equals of one, with so many places in the source."""
    places = [{"file": f"{place:05}.py", "anchor": "x"} for place in range(targets)]
    question = f"How many pay? {number} {secrets.token_hex(4)}"
    wish = plan | {"business_question": question, "deploy": plan["deploy"] | {"targets": places}}
    return {"intent": "start", "plan": wish}


def _error(**more: object) -> dict[str, object]:
    return {"level": "error", "message": "Order failed.", "environment": "production", **more}


async def history(attacker: Attacker) -> None:
    """The longest histories: each is loaded cold, and goes on growing by as much as one request may carry."""
    tags = {f"/v1/projects/{project}/onboarding": '"onb:1"' for project in attacker.holdings.long}
    paths, body = list(tags), json.dumps(plan_of(attacker.holdings.plan, 0, MOST_TARGETS))

    def make(number: int) -> Request:
        path = paths[number % len(paths)]
        return attacker.post(path, body.replace("many pay? 0", f"many pay? {number}").encode(), if_match=tags[path])

    def hear(request: Request, answer: Response) -> None:
        if b"etag" in answer[1]:
            tags[request[1]] = answer[1][b"etag"].decode()
        elif answer[0] == STALE:
            tags[request[1]] = json.loads(answer[2])["error"]["details"]["current_etag"]

    await attacker.repeat(make, 8, hear)


async def fences(attacker: Attacker) -> None:
    """Sixteen fences at once on the contract with the longest history."""
    path = f"/v1/projects/{attacker.holdings.shop}/automation-contract/pause"
    await attacker.repeat(lambda n: attacker.post(path, {"reason": f"pause {n}"}), 16)


async def names(attacker: Attacker) -> None:
    """Records of 256 KB with as many names as fit in."""
    user = {"id": "u"} | {f"{number:05x}": 1 for number in range(MOST_RECORD // 10)}
    body = json.dumps(_error(user=user), separators=(",", ":")).encode()
    await attacker.repeat(lambda _: attacker.post("/v1/logs/", body, attacker.holdings.dsn), 8)


async def lists(attacker: Attacker) -> None:
    """Twelve of the slowest lists at once: many cases, and filters that hardly one passes."""
    cases = f"/v1/projects/{attacker.holdings.shop}/cases?limit=200&status=all"
    slow = [f"{cases}&environment=rare", f"{cases}&release=0.0.7", f"{cases}&since=1", f"{cases}&environment=made"]
    await attacker.repeat(lambda n: attacker.get(slow[n % len(slow)]), 12)


async def bodies(attacker: Attacker) -> None:
    """Sixty-four of the largest bodies at once, each to be parsed and refused."""
    filler = ["x" * 1000 for _ in range(MOST_PLAN // 1004)]
    path = f"/v1/projects/{attacker.holdings.shop}/onboarding"
    body = json.dumps({"intent": "start", "plan": {"milestones": filler}}).encode()
    await attacker.repeat(lambda _: attacker.post(path, body), attacker.many(64))


async def errors(attacker: Attacker) -> None:
    """Errors that are all different: each would be a case of its own."""

    def make(_: int) -> Request:
        kind = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(12))
        error = _error(message=f"{kind} broke", extra={"exception": {"type": f"{kind.title()}Error"}})
        return attacker.post("/v1/logs/", error, attacker.holdings.dsn)

    await attacker.repeat(make, 32)


async def silent(attacker: Attacker) -> None:
    """Fifteen hundred connections that say nothing."""
    standing = []
    for _ in range(attacker.many(1500)):
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                standing.append(await asyncio.open_connection(attacker.holdings.host, attacker.holdings.port))
    attacker.tally.opened = len(standing)
    await asyncio.sleep(max(0.0, attacker.until - time.monotonic()))
    for _, writer in standing:
        writer.close()


async def strangers(attacker: Attacker) -> None:
    """Five hundred bodies of a mebibyte at once, without any credential."""
    body = b'{"automation_id": "' + b"x" * (MOST_BODY - 64) + b'"}'
    path = f"/v1/projects/{attacker.holdings.shop}/automation-triggers/issue"
    await attacker.repeat(lambda _: attacker.post(path, body, "none"), attacker.many(500))


async def keys(attacker: Attacker) -> None:
    """Four thousand idempotency keys, as fast as they are taken."""

    def make(number: int) -> Request:
        body = _error(message="Order failed again.")
        key = f"{number % 4000}-{attacker.holdings.seconds}"
        return attacker.post("/v1/logs/", body, attacker.holdings.dsn, idempotency_key=key)

    await attacker.repeat(make, 32)


async def rivals(attacker: Attacker) -> None:
    """Thirty-two rivals for one stream, each with the newest tag that anybody has seen."""
    path = f"/v1/projects/{attacker.holdings.rival}/onboarding"
    tags = [""]

    def make(number: int) -> Request:
        if number % 4 == 0 or not tags[0]:
            return attacker.get(path)
        return attacker.post(path, plan_of(attacker.holdings.plan, number), if_match=tags[0])

    def hear(_: Request, answer: Response) -> None:
        tags[0] = answer[1].get(b"etag", tags[0].encode()).decode()

    await attacker.repeat(make, 32, hear)


async def query(attacker: Attacker) -> None:
    """Twelve of the most expensive reads at once: every event of the project, counted by name and by person."""
    path = f"/v1/projects/{attacker.holdings.shop}/query-blueprints"
    whole = {"params": {"days": 30, "limit": 200}, "limit": 10_000}
    one = {"params": {"event": "made 7", "days": 90}}

    def make(number: int) -> Request:
        if number % 4:
            return attacker.post(f"{path}/event-count/run", one)
        return attacker.post(f"{path}/top-events/run", whole, accept="text/csv" if number % 8 else "application/json")

    await attacker.repeat(make, 12)


async def looks(attacker: Attacker) -> None:
    """Twelve looks for work at once, each over all open cases."""
    path = f"/v1/projects/{attacker.holdings.shop}/automation-triggers/issue"
    await attacker.repeat(lambda _: attacker.post(path, {"automation_id": attacker.holdings.automation}), 12)


async def webhook(attacker: Attacker) -> None:
    """As many receivers of webhooks as a project may have that never answer, and a deploy for each to be told of."""
    standing: list[asyncio.StreamWriter] = []

    async def listen(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        standing.append(writer)  # and not a byte in return

    receiver = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = receiver.sockets[0].getsockname()[1]
    path = f"/v1/projects/{attacker.holdings.shop}/webhooks"
    wish = {"url": f"http://127.0.0.1:{port}/never", "events": ["*"]}

    def make(number: int) -> Request:
        if number < MOST_WEBHOOKS:
            return attacker.post(path, wish)
        deploy = {"version": str(number), "environment": "production"}
        return attacker.post("/v1/deploys/", deploy, attacker.holdings.dsn)

    await attacker.repeat(make, 4)
    attacker.tally.opened = len(standing)
    receiver.close()
    for writer in standing:
        writer.close()


async def waits(attacker: Attacker) -> None:
    """Two thousand requests that wait for one run, while its runner moves it on as fast as it can."""
    holdings = attacker.holdings
    path = f"/v1/automation-runs/{holdings.run}"
    seen = [1]

    def move(number: int) -> Request:
        if number % 2 == 0:
            return attacker.get(path)
        token = {"state_revision": seen[0], "lease_epoch": holdings.epoch}
        charge = token | {"turns": 0, "cost_usd": 0.000001, "runtime_seconds": 0}
        key = f"{seen[0]}-{secrets.token_hex(4)}"
        return attacker.post(f"{path}/usage", charge, holdings.runner, idempotency_key=key)

    def hear(_: Request, answer: Response) -> None:
        seen[0] = json.loads(answer[2]).get("state_revision", seen[0])

    waiting = attacker.repeat(lambda _: attacker.get(f"{path}?wait=3"), attacker.many(2000))
    await asyncio.gather(waiting, attacker.repeat(move, 1, hear))


SHAPES: dict[str, Callable[[Attacker], Awaitable[None]]] = {
    shape.__name__: shape
    for shape in (
        *(history, query, looks, fences, names, lists, bodies, errors, silent, strangers, keys, rivals, webhook, waits),
        *sdks.SHAPES,
        *strange.SHAPES,
        *readers.SHAPES,
        *doors.SHAPES,
    )
}


def main() -> None:
    """Run one shape on the holdings that stand on standard input; says BEGUN, and at last what it was answered."""
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    attacker = Attacker(msgspec.json.decode(sys.stdin.read(), type=Holdings))
    print(BEGUN, flush=True)
    asyncio.run(_carry_out(SHAPES[sys.argv[1]], attacker))
    attacker.tally.statuses = dict(attacker.counted)
    print(msgspec.json.encode(attacker.tally).decode())


async def _carry_out(shape: Callable[[Attacker], Awaitable[None]], attacker: Attacker) -> None:
    await shape(attacker)


if __name__ == "__main__":
    main()
