"""The row of large errors, beside an echo of the same validated body.

An event is what an SDK sends of an exception in a web product: a stack of 30 to 60 frames with source lines and some
local variables, breadcrumbs, tags, the request. Stacks come again, values do not: each event has numbers of its own in
its message, its variables and its breadcrumbs. Bodies are laid out before anything is timed and only their numbers
change then, so that the generator of the load takes as little of the machine for a large event as for a small one.
"""

from __future__ import annotations

import json
from statistics import median
from typing import Any, NamedTuple

import psutil

from scripts.bench.figures import Figures, console, seconds_of, seconds_of_api
from scripts.load import loadgen, worlds
from service.ingest.items import LOGS

# What a large error costs, beside an echo of the same validated body: its rate, and the processor time of each side.

CLIENTS = 64
STACKS = 40  # of different stacks: errors come again
NUMBER = "0123456789"  # stands in a body where each event has a number of its own
_WORDS = ("orders", "billing", "accounts", "search", "reports", "webhooks", "sessions", "exports")


class RequestCost(NamedTuple):
    """Answers per second, and microseconds of processor time of each: of the API process and of the database's."""

    rate: float
    api: float
    database: float

    @property
    def processor(self) -> float:
        """Microseconds of both."""
        return self.api + self.database


def event(stack: int) -> dict[str, Any]:
    """One error of about 15 kB, of one of STACKS stacks; the placeholder stands where events differ."""
    return {
        "level": "error",
        "message": f"Order {NUMBER} failed: the provider answered 402 after {NUMBER} ms",
        "environment": "production",
        "release": "shop@2026.11.2",
        "user": {"id": f"user-{NUMBER}", "email": f"u{NUMBER}@shop.example", "plan": "pro"},
        "tags": {"region": "eu-west", "service": "checkout", "server": f"web-{stack % 7}", "runtime": "python 3.12.4"},
        "extra": {
            "exception": {
                "type": f"PaymentDeclined{stack}",
                "value": f"card declined for order {NUMBER}",
                "frames": [_frame(stack, depth) for depth in range(30 + stack * 30 // (STACKS - 1))],
            },
            "breadcrumbs": [_breadcrumb(stack, n) for n in range(54 - stack * 30 // (STACKS - 1))],
            "request": {
                "method": "POST",
                "url": f"https://shop.example/orders/{NUMBER}/pay?attempt=2",
                "headers": {
                    "accept": "application/json",
                    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101",
                },
            },
            "contexts": {"os": {"name": "Linux", "version": "6.8.0"}, "process": {"pid": 41, "threads": 12}},
        },
    }


def _frame(stack: int, depth: int) -> dict[str, Any]:
    word = _WORDS[(stack + depth) % len(_WORDS)]
    ours = depth % 3 == 0
    frame: dict[str, Any] = {
        "file": f"app/{word}/step_{(stack * depth) % 97}.py" if ours else f"site-packages/web/{word}/layer_{depth}.py",
        "line": 10 + (7 * stack + 13 * depth) % 900,
        "function": f"handle_{word}_{(stack * depth) % 61}",
        "in_app": ours,
        "code": f"    result = await self.{word}.charge(order, amounts[{depth % 13}], order.currency)",
    }
    if ours:
        frame["vars"] = {"order": f"<Order {NUMBER}>", "amount": f"{NUMBER} EUR", "retries": str(depth % 4)}
    return frame


def _breadcrumb(stack: int, n: int) -> dict[str, Any]:
    word = _WORDS[(stack + n) % len(_WORDS)]
    return {
        "category": ("http", "query", "navigation")[n % 3],
        "message": f"{word}: GET /api/v1/{word}/{NUMBER} answered 200",
        "level": "info",
        "milliseconds": n * 37 % 411,
    }


def bodies() -> list[bytes]:
    """The event of each stack as JSON, with the placeholder in it."""
    return [json.dumps(event(stack), separators=(",", ":")).encode() for stack in range(STACKS)]


def sending(dsn: str, path: str, number: int, texts: list[bytes]) -> loadgen.Client:
    """Report errors of all stacks in turn; `number` keeps apart what clients send."""
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    count = number * 10_000_000
    while True:
        count += 1
        yield ("POST", path, headers, texts[count % len(texts)].replace(NUMBER.encode(), b"%010d" % count))


def spent(world: worlds.World) -> tuple[float, float]:
    """Seconds of processor time that the API processes have used so far, and those of their database."""
    pid_file = world.data_dir / "postgres" / "postmaster.pid"
    postmaster = psutil.Process(int(pid_file.read_text().splitlines()[0]))
    return seconds_of_api(), seconds_of(postmaster.children())


def measure(world: worlds.World, turns: int, seconds: float) -> dict[str, RequestCost]:
    """Let the echo and the intake take so many short turns after one to warm up; returns the medians of each."""
    dsn = world.create_project("large events")["dsn"]
    texts = bodies()
    found: dict[str, list[RequestCost]] = {"/v1/bench-echo": [], LOGS.split()[1]: []}
    for _ in range(1 + turns):
        for path, costs in found.items():
            costs.append(_turn(world, dsn, path, texts, seconds))
    return {path: RequestCost(*map(median, zip(*costs[1:], strict=True))) for path, costs in found.items()}


def _turn(world: worlds.World, dsn: str, path: str, texts: list[bytes], seconds: float) -> RequestCost:
    before = spent(world)
    stats = world.load(lambda n: sending(dsn, path, n, texts), CLIENTS, seconds)
    assert set(stats.statuses) == {202}, stats.statuses
    used = (1e6 * (after - was) / len(stats.latencies) for after, was in zip(spent(world), before, strict=True))
    return RequestCost(stats.rate, *used)


TURNS = 8


def measure_large_events(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Store errors of 15 kB, beside an echo of the same validated body; and what each costs of processor time."""
    found = measure(world, TURNS, seconds / TURNS)
    echo, stored = found.values()
    for path, cost in found.items():
        console.print(
            f"  {path}: processor time of the API process {cost.api:.0f} us, of the database {cost.database:.0f}"
        )
    name = "errors of 15 kB, durable and in their cases, to an echo"
    figures.add(name, stored.rate, "/s", yardstick=echo.rate, promised=0.4)
    name = "processor time of an error of 15 kB, to an echo"
    figures.add(name, stored.processor, "us", yardstick=echo.processor, promised=2.5, most=True)
