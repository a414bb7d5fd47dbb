"""What happens to the hosts: five ways to lose a primary, and the way back of each.

A nemesis strikes and says when; the writes have to be back before it is healed, so each time another host takes over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.failover.hosts import LOOK_SECONDS, Host, Hosts

WAIT_SECONDS = 20.0
WAITING = "select count(*) > 0 from pg_stat_activity where wait_event = 'SyncRep' and application_name like 'service-%'"


class Nemesis(NamedTuple):
    """A way to lose the primary: what it does, and after how many seconds at most writes are back (p95)."""

    name: str
    text: str
    within_seconds: float
    strike: Callable[[Hosts], Iterator[float]]
    """Yields the moment at which the primary is lost, and heals when it is asked on."""


def kill(hosts: Hosts) -> Iterator[float]:
    """Patroni starts what was killed as a standby of the next primary."""
    hosts.primary().kill_postmaster()
    yield time.monotonic()


def stop(hosts: Hosts) -> Iterator[float]:
    """The whole host stands still, and goes on as the primary it believes to be."""
    host = hosts.primary()
    host.pause()
    yield time.monotonic()
    host.resume()


def restart(hosts: Hosts) -> Iterator[float]:
    """The primary comes back before another one is promoted, with commits that no standby has, and is lost for good.

    A restarted server shows what it had written, also what waited for a standby. Whoever looks a command up there and
    believes it acknowledges what the promotion drops.
    """
    host = hosts.primary()
    host.pause(patroni_alone=True)
    host.sql_link.cut()
    _wait_for_waiting_commits(host)
    host.kill_postmaster()
    host.restart_postgres()
    _wait_for_waiting_commits(host)
    host.kill_postmaster()
    host.resume()
    yield time.monotonic()
    host.sql_link.mend()


def etcd(hosts: Hosts) -> Iterator[float]:
    """The keepers of the leader's lock lose their own leader in the moment in which they are asked."""
    host = hosts.primary()
    member = hosts.etcd.kill_leader()
    host.kill_postmaster()
    yield time.monotonic()
    hosts.etcd.revive(member)


def partition(hosts: Hosts) -> Iterator[float]:
    """The primary hears neither standbys nor etcd, and clients still reach it."""
    host = hosts.primary()
    host.cut_off()
    yield time.monotonic()
    host.mend()


def _wait_for_waiting_commits(host: Host) -> None:
    """Wait until the service waits there for a standby: its commit is written, and nobody else has it."""
    give_up = time.monotonic() + WAIT_SECONDS
    while host.sql(WAITING, "service") != [(True,)]:
        assert time.monotonic() < give_up, "no commit waits for a standby"
        time.sleep(LOOK_SECONDS)


NEMESES = {
    one.name: one
    for one in (
        Nemesis("kill", "kill -9 of the primary's postmaster", 15, kill),
        Nemesis("stop", "SIGSTOP of all processes of the primary's host", 45, stop),
        Nemesis("restart", "kill -9, restart with commits that no standby has, kill -9 again", 15, restart),
        Nemesis("etcd", "kill -9 of the etcd leader and of the primary's postmaster", 15, etcd),
        Nemesis("partition", "the primary's host cut off from standbys and etcd, not from clients", 45, partition),
    )
}


@contextmanager
def struck(nemesis: Nemesis, hosts: Hosts) -> Iterator[float]:
    """Strike, give the moment, and heal at the end of the block, also after a failure in it."""
    steps = nemesis.strike(hosts)
    at = next(steps)
    try:
        yield at
    finally:
        next(steps, None)
