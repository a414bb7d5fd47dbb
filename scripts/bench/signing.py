"""The rows of the signed log: what it costs at the full rate, how late it is, and how fast it is verified.

Pairs of loads, with and without the thread that signs, take turns on one database. Three witnesses cosign. Times are
read afterwards from the database: from the commit of an event to the commit of the checkpoint that has it, and to the
second cosignature of one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from scripts import verify_proof
from scripts.bench.figures import Figures, console
from scripts.load import worlds
from service.tlog.notes import KeyPair
from service.tlog.signing import LOG_DOMAIN
from tests.support.outsiders.logs import make_log
from tests.support.outsiders.signing import signer

# The signed log under the full rate of transitions, for `make bench`: what it costs, and how late it is.

PAIRS = 5
CLIENTS = 16
WITNESSES = 3
_LATE = """
select percentile_cont(0.99) within group (order by extract(epoch from x.at - pg_xact_commit_timestamp(e.xmin)) * 1000)
from log_index i join events e on e.seq = i.seq cross join lateral ({}) x(at)
where i.position > %s and x.at is not null
"""
_SIGNED = "select min(pg_xact_commit_timestamp(c.xmin)) from log_checkpoints c where c.size >= i.position"
_COSIGNED = """
select min(s.at) from (
    select w.size, (array_agg(w.cosigned_at order by w.cosigned_at))[2] as at from log_cosignatures w group by w.size
) s where s.size >= i.position
"""


class SigningCosts(NamedTuple):
    """Rates of pairs of loads, and milliseconds at the 99th percentile."""

    plain: list[float]
    signed: list[float]
    checkpoint: float
    cosigned: float

    @property
    def ratio(self) -> float:
        """Median of the pairs."""
        return median(one / other for one, other in zip(self.signed, self.plain, strict=True))


def measure(world: worlds.World, seconds: float) -> SigningCosts:
    """Measure on the world's database."""
    world.remember_commits()
    key = secrets.token_hex(32)
    with world.api(SERVICE_SIGNING_KEY=key):
        pass  # It migrates, and makes a person.
    [[origin]] = world.query("select origin from log_origins order by number desc limit 1")
    pair = KeyPair.derive(bytes.fromhex(key), LOG_DOMAIN)
    plain, signed, start = [], [], 0
    with _witnesses([one.vkey for one in pair.as_log(origin)]) as policy:
        settings = {"SERVICE_SIGNING_KEY": key, "SERVICE_WITNESS_POLICY": str(policy)}
        for turn in range(PAIRS):
            for signs in (False, True) if turn % 2 else (True, False):
                with world.api(signs=signs, SERVICE_WITNESS_ALLOW_PRIVATE="1", **settings):
                    projects = [world.create_project(f"bench {n}") for n in range(CLIENTS)]
                    world.catch_up()
                    if signs:
                        world.wait_for_none(
                            "select (select size from log_state) - coalesce(max(size), 0) from log_checkpoints", 300
                        )
                        [[start]] = world.query("select size from log_state")
                    stats = world.load(
                        lambda n, projects=projects: worlds.replacing_plans(world.owner_key, projects[n]),  # type: ignore[misc]
                        CLIENTS,
                        seconds,
                    )
                    (signed if signs else plain).append(stats.rate)
                    if signs:
                        world.catch_up()
                        world.wait_for_none("select (select size from log_state) - max(size) from log_checkpoints", 60)
                        world.settle()
                        late = [_late(world, query, start) for query in (_SIGNED, _COSIGNED)]
    return SigningCosts(plain, signed, *late)


def _late(world: worlds.World, query: str, start: int) -> float:
    [[milliseconds]] = world.query(_LATE.format(query), start)
    return float(milliseconds)


@contextmanager
def _witnesses(logs: list[str]) -> Iterator[Path]:
    """Run witnesses for a log; yields the file of a policy about them."""
    directory = Path(tempfile.mkdtemp(prefix="bench-witnesses-"))
    arguments = [word for vkey in logs for word in ("--log", vkey)]
    lines = []
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        for number in range(WITNESSES):
            common = ["--state", str(directory / f"w{number}"), "--name", f"w{number}.example"]
            command = [sys.executable, "-m", "service", "witness"]
            told = subprocess.run([*command, "keys", *common], capture_output=True, text=True, check=True)
            port = worlds.free_port()
            process = subprocess.Popen(
                [*command, "serve", *common, *arguments, "--port", str(port)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ},
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            key = told.stdout.split()[1]
            lines.append(f"witness w{number} {key} http://{worlds.HOST}:{port}")
        policy = directory / "policy"
        policy.write_text("\n".join([*lines, "group g 2 w0 w1 w2", "quorum g", ""]))
        yield policy


def measure_signing(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Transitions with the signed log beside those without, and how late checkpoints and cosignatures are."""
    costs = measure(world, seconds)
    console.print(f"  without {[round(rate) for rate in costs.plain]}, with {[round(rate) for rate in costs.signed]}")
    figures.add("transitions with the signed log, median of 5 pairs", costs.ratio, "", yardstick=1, promised=0.9)
    figures.add("commit to signed checkpoint, p99", costs.checkpoint, "ms", yardstick=250, promised=1, most=True)
    figures.add("commit to 2 of 3 cosignatures, p99", costs.cosigned, "ms", yardstick=1500, promised=1, most=True)


# How fast an outsider verifies a log: the stand-alone verifier over a made-up export, with a checkpoint.

EVENTS = 50_000


def verifying_rates() -> list[float]:
    """Verify an export of 50,000 events with the command, its start and the signatures included; events a second."""
    log, keys = make_log(EVENTS, streams=500), (signer(1), signer(6))
    rates = []
    with tempfile.TemporaryDirectory() as folder:
        exported, kept = Path(folder) / "log.jsonl", Path(folder) / "checkpoint"
        exported.write_bytes(log.export())
        kept.write_bytes(log.checkpoint(*keys))
        words = [sys.executable, "-I", verify_proof.__file__, str(exported), "--checkpoint", str(kept)]
        words += [word for key in keys for word in ("--key", key.vkey)]
        for _ in range(3):
            began = time.perf_counter()
            done = subprocess.run(words, capture_output=True, check=False)
            rates.append(EVENTS / (time.perf_counter() - began))
            assert done.returncode == 0, done.stdout + done.stderr
    return rates


def measure_verifying(figures: Figures) -> None:
    """Verify a whole export as an outsider does, beside a plain number: 10,000 events a second."""
    rates = verifying_rates()
    console.print(f"  {', '.join(f'{rate:,.0f}' for rate in rates)} events/s")
    figures.add(f"verifier over an export of {EVENTS:,} events", median(rates), "ev/s", yardstick=10_000, promised=1)
