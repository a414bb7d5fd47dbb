"""How fast a large project is deleted, and what its neighbours notice of it.

The project has telemetry and events by the hundred thousand, written past the intake: their contents and hashes are
made up, their sizes are usual ones. It is deleted by a process of its own, as a worker does, while another tenant's
owner replaces plans over HTTP; in turn with that it is stopped, and the same load runs alone.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from scripts.bench.figures import Figures
from scripts.load import loadgen, worlds
from service.auth.authority import carry_out
from service.deletion import removal
from service.deletion.advancing import Advancer
from service.eventstore.store import EventStore
from service.ids import new_id
from service.registry import registry
from statemachines.deletion.removal import AskForDeletion

CLIENTS = 8
EVENTS_A_STREAM = 200
TURN_SECONDS = 0.5

_LOGS = """
insert into log_events (project_id, received_at, id, level, message, environment, tags, extra, case_id, fingerprint)
select %s, extract(epoch from service_now())::bigint - n %% 3000, 'log_' || n, 'error', 'Payment declined: ' || n,
    'production', '{"region": "eu"}', jsonb_build_object('trace', repeat(md5(n::text), 8)), 'case_' || n %% 500, 'f'
from generate_series(1, %s) n
"""
_ANALYTICS = """
insert into analytics_events (project_id, received_at, id, event, distinct_id, properties)
select %s, extract(epoch from service_now())::bigint - n %% 3000, 'ev_' || n, 'checkout', 'user_' || n %% 9000,
    jsonb_build_object('plan', 'pro', 'path', '/checkout/' || n) from generate_series(1, %s) n
"""
_EVENTS = f"""
insert into events (project_id, stream_id, revision, kind, topic, payload, event_id, command_id, actor_kind, actor_id,
    request_id, correlation_id, causation_id, recorded_at, salt, payload_hash, leaf, chain)
select %s, 'case_' || (n - 1) / {EVENTS_A_STREAM}, 1 + (n - 1) %% {EVENTS_A_STREAM}, 'case', 'case.regressed.v1',
    jsonb_build_object('regressed_at', n, 'why', md5(n::text)), 'event_' || n, 'cmd_' || n, 'dsn', 'proj', 'req', 'req',
    '', now(), decode(md5(n::text), 'hex'), sha256(n::text::bytea), sha256('a'), sha256('b')
from generate_series(1, %s) n
"""


class Ended(NamedTuple):
    """Rows and payloads a second, and another tenant's p95 in milliseconds: alone, and meanwhile."""

    rate: float
    alone: float
    meanwhile: float


def measure(world: worlds.World, rows: int, events: int) -> Ended:
    """Delete a project of so many rows and events beside another tenant."""
    doomed, other = world.create_project("doomed"), [world.create_project(f"other {n}") for n in range(CLIENTS)]
    with psycopg.connect(world.database_url, autocommit=True) as sql:
        sql.execute(_LOGS, (doomed["id"], rows // 2))
        sql.execute(_ANALYTICS, (doomed["id"], rows - rows // 2))
        sql.execute(_EVENTS.encode(), (doomed["id"], events))
        sql.execute("vacuum analyze")  # else it comes by itself, in the middle of one figure or the other
    world.settle()

    def client(number: int) -> loadgen.Client:
        return worlds.replacing_plans(world.owner_key, other[number])

    def turn(into: loadgen.Stats) -> None:
        into.latencies += world.load(client, CLIENTS, TURN_SECONDS).latencies

    world.load(client, CLIENTS, 2.0)
    alone, meanwhile, held = loadgen.Stats(), loadgen.Stats(), 0.0
    with tempfile.TemporaryDirectory() as directory:
        arguments = [sys.executable, "-m", "scripts.bench.deletion", world.database_url, directory, doomed["id"]]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdin.close()
        while process.poll() is None:
            turn(meanwhile)
            # Turn by turn, so that whatever else the machine does falls on both figures.
            began = time.monotonic()
            process.send_signal(signal.SIGSTOP)
            turn(alone)
            process.send_signal(signal.SIGCONT)
            held += time.monotonic() - began if process.poll() is None else 0.0
        seconds = float(process.stdout.read()) - held
    return Ended((rows + events) / seconds, alone.percentile(0.95), meanwhile.percentile(0.95))


async def delete(database_url: str, directory: Path, project_id: str) -> float:
    """Delete a project to its end, as a worker does that has been told; returns the seconds from fence to receipt."""
    store = EventStore(database_url, registry())
    await store.start()
    print("ready", flush=True)
    sys.stdin.read()
    began = time.monotonic()
    wish: Any = AskForDeletion("project", project_id, "usr_bench", "0" * 64)
    row = await carry_out(store, "bench", "delete", removal.fence_project(wish, new_id("del")))
    advancer = Advancer(store, directory / "erasures.jsonl")
    while row.phase != "deleted":
        row = await advancer.advance(row, 1.0)
    seconds = time.monotonic() - began
    await store.stop()
    return seconds


def measure_deletion(figures: Figures, world: worlds.World, rows: int) -> None:
    """Delete a project with so many rows of telemetry, and a fifth as many events, beside another tenant."""
    ended = measure(world, rows, rows // 5)
    figures.add(f"rows deleted, of {rows + rows // 5:,}", ended.rate, "/s", yardstick=30_000, promised=1)
    figures.add(
        "p95 of another tenant meanwhile", ended.meanwhile, "ms", yardstick=ended.alone, promised=1.5, most=True
    )


if __name__ == "__main__":
    print(asyncio.run(delete(sys.argv[1], Path(sys.argv[2]), sys.argv[3])))
