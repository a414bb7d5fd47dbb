"""A cut of `make failover`: three failovers under load, on three hosts of PostgreSQL under Patroni."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.failover.clients import Tally, at_machine, tally
from tests.failover.drill import Drill, Failover, Outcome, judge, percentile, table, unable
from tests.failover.nemeses import NEMESES
from tests.support.cluster import POSTGRES_15

ROOT = Path(__file__).parents[2]
CUT = ("kill", "restart", "etcd")
"""Those that take seconds; a stopped or isolated host is noticed when its lock has run out, after twenty."""


@pytest.mark.release
@pytest.mark.timeout(240)
async def test_nothing_acknowledged_is_lost_when_a_host_dies(tmp_path: Path) -> None:
    """Three failovers: 0 acknowledged writes and reports lost, 0 doubled, and chains and tree verify afterwards."""
    if (reason := unable()) is not None:
        pytest.skip(reason)
    outcome = await Drill(tmp_path).run([NEMESES[name] for name in CUT])
    assert judge(outcome) == []
    assert all(tallied.acknowledged > 0 for tallied in outcome.tallies)


@pytest.mark.release
@pytest.mark.timeout(120)
def test_a_drill_that_is_ended_leaves_nothing_running() -> None:
    """Patroni starts PostgreSQL as a daemon, which outlives it."""
    if (reason := unable()) is not None:
        pytest.skip(reason)
    with subprocess.Popen(
        [sys.executable, "-m", "scripts.failover"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as drill:
        assert drill.stdout is not None
        assert "three hosts" in drill.stdout.readline()
        drill.send_signal(signal.SIGTERM)
        said = drill.stdout.read()
    assert drill.returncode == 1
    assert "interrupted" in said
    _, _, directory = said.strip().rpartition("see ")
    running = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    assert [command for command in running if directory in command] == []


def test_a_tally_counts_what_is_not_there_and_what_is_there_twice() -> None:
    """Those of its span of time alone."""
    found = [(1.0, "a", 1), (2.0, "b", 0), (3.0, "c", 2), (9.0, "d", 0)]
    assert tally(found, 0, 9) == Tally(3, ["b"], ["c"])


def test_a_drill_is_judged_by_losses_doubles_and_the_time_until_writes_are_back() -> None:
    """And its table has a line for each nemesis and one for all."""
    kill, stop = NEMESES["kill"], NEMESES["stop"]
    failovers = [Failover(kill, 0, 1, 4.0), Failover(kill, 1, 2, 16.0), Failover(stop, 2, 3, 30.0)]
    outcome = Outcome(failovers, [Tally(5), Tally(6, ["x"]), Tally(7, [], ["y"])])
    assert judge(outcome) == [
        "kill: writes are back after 16.0 s (p95), not within 15 s",
        "kill: lost x",
        "stop: doubled y",
    ]
    assert table(outcome).splitlines()[2:] == [
        "| kill | 2 | 11 | 1 | 0 | 4.0 s | 16.0 s |",
        "| stop | 1 | 7 | 0 | 1 | 30.0 s | 30.0 s |",
        "| all | 3 | 18 | 1 | 1 | 16.0 s | 30.0 s |",
    ]
    assert judge(Outcome([Failover(kill, 0, 1)], [Tally(1)])) != [], "one that never came back is late"


@pytest.mark.parametrize(("share", "found"), [(0.5, 5), (0.95, 10), (1.0, 10)])
def test_a_percentile_is_one_of_the_values(share: float, found: float) -> None:
    assert percentile([float(one) for one in range(10, 0, -1)], share) == found
    assert percentile([math.inf], share) == math.inf


def test_a_dsn_leads_to_another_machine() -> None:
    dsn = "http://key@127.0.0.1:8000/4711"
    assert at_machine(dsn, "http://127.0.0.1:9000") == "http://key@127.0.0.1:9000/4711"


def test_the_oldest_postgres_is_drilled_too() -> None:
    """`make failover ARGS="--postgres 15"` takes Debian's programs, which have what Patroni needs."""
    if POSTGRES_15.is_dir():
        assert all((POSTGRES_15 / name).exists() for name in ("pg_basebackup", "pg_rewind", "pg_ctl", "pg_controldata"))
