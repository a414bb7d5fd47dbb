"""What scrubbing costs of a whole event, by its size: processor time of the one beside that of the other (G-135).

The whole is what the API process spends on an event that is sent over HTTP and stored, its threads included; what the
database does comes on top and is left out. Scrubbing is timed by itself, over events made in the same way. Processor
time, and not the clock's, so that a busy machine changes both alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from scripts.load import loadgen, processors, worlds
from service.ingest.items import LOGS
from service.ingest.scrubbing import Findings, Scrubber

CLIENTS = 16
TIMED = 1000
STACKS = 40  # of different stacks: errors come again
TOLD = 10  # of so many events, one has something to hide
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
FRAMES = {"300 B": 0, "2 kB": 9, "14 kB": 82}


class ScrubCost(NamedTuple):
    """Processor time of an event in microseconds: scrubbing alone, and everything that the API process does."""

    bytes: int
    scrubbing: float
    whole: float


def event(number: int, frames: int, *, fresh: bool = False) -> dict[str, Any]:
    """One error, of a stack with so many frames; with `fresh` no frame was ever there before."""
    # Of letters: what differs in digits alone is not new to the look that passes over what it has seen.
    stack, salt = number % STACKS, f"_{number:x}".translate(_LETTERS) if fresh else ""
    made: dict[str, Any] = {
        "level": "error",
        "message": f"Order {number} failed: the provider answered 402",
        "environment": "production",
        "release": "2026.11.2",
        "user": {"id": f"user-{number % 500}"},
        "tags": {"region": "eu-west", "service": "checkout", **({"token": "t"} if number % TOLD == 0 else {})},
    }
    if frames:
        made["extra"] = {
            "request": {"method": "POST", "path": f"/orders/{number}/pay", "milliseconds": number % 977},
            "exception": {
                "type": f"PaymentDeclined{stack}",
                "frames": [
                    {
                        "file": f"app/orders/step_{(stack + frame) % 97}/handlers.py",
                        "line": 10 + (7 * stack + frame) % 400,
                        "function": f"handle_{(stack * frame) % 61}{salt}",
                        "code": f"result = await self.provider.charge(order, amounts[{frame % 13}], order.currency)",
                    }
                    for frame in range(frames)
                ],
            },
        }
    return made


def _sending(dsn: str, worker: int, frames: int, *, fresh: bool) -> loadgen.Client:
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    number = worker * 1_000_000
    while True:
        number += 1
        yield ("POST", LOGS.split()[1], headers, json.dumps(event(number, frames, fresh=fresh)).encode())


def _scrubbing(frames: int, *, fresh: bool) -> Iterator[float]:
    """Seconds of processor time that scrubbing takes of each of TIMED events, after as many to warm up."""
    scrubber = Scrubber()
    texts = [json.dumps(event(number, frames, fresh=fresh)).encode() for number in range(2 * TIMED)]
    values = [msgspec.json.decode(text) for text in texts]
    for text, value in zip(texts, values, strict=True):
        began = time.process_time()
        suspicion = scrubber.look(text)
        if suspicion:
            counts = Findings()
            scrubber.text(value["message"], suspicion, counts)
            for part in ("user", "tags", "extra"):
                scrubber.tree(value.get(part, {}), suspicion, counts)
        yield time.process_time() - began


def measure(world: worlds.World, frames: int, seconds: float, *, fresh: bool = False) -> ScrubCost:
    """Measure events with stacks of so many frames."""
    dsn = world.create_project(f"scrubbing {frames} {fresh}")["dsn"]
    world.load(lambda n: _sending(dsn, n, frames, fresh=fresh), CLIENTS, seconds / 4)
    before = processors.of_api()
    stats = world.load(lambda n: _sending(dsn, 100 + n, frames, fresh=fresh), CLIENTS, seconds)
    whole = (processors.of_api() - before) / len(stats.latencies)
    scrubbing = sum(islice(_scrubbing(frames, fresh=fresh), TIMED, None)) / TIMED
    return ScrubCost(len(json.dumps(event(1, frames, fresh=fresh))), 1e6 * scrubbing, 1e6 * whole)
