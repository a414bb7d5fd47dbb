"""The hosts of a list in SERVICE_DATABASE_URL: which of them takes writes, and the end of sessions on others (G-201).

libpq finds the primary when it connects, and never looks again. A session may outlive the primary's role: the host was
stopped, or cut off, and another one was promoted meanwhile. Such a session waits for ever at its COMMIT, or reads what
is old. So a thread for each host asks it once a second. The primary is the host out of recovery with the highest
timeline, because a promotion begins a new one. When it changes, sessions on other hosts are cut from outside: whoever
waits on one gets psycopg.OperationalError, and connects to the new primary. A silent primary is cut off as well.

A process that names one host has no such thread.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakSet

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from service.sql import load_query

log = structlog.get_logger()

AnyConnection = psycopg.BaseConnection[tuple[Any, ...]]

# A host that disappears without closing its connections is noticed after about five seconds; the kernel alone takes a
# quarter of an hour. (milliseconds for tcp_user_timeout, else seconds)
NOTICE_SILENCE: dict[str, Any] = {
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
CONNECT_SECONDS = 2
LOOK_SECONDS = 1.0
SILENT_SECONDS = 4.0
"""A host that answers later than this is silent: its sessions are cut. Statements of writers end in 3 seconds."""
DEFAULT_PORT = "5432"

_STANDING = load_query("eventstore", "standing_of_host")
REPLICATED = load_query("eventstore", "replicated")
"""Lets the commit of a transaction, and so whoever waits for it, wait for a standby."""


def cut(connection: AnyConnection) -> None:
    """End a connection under whoever waits on it, who then gets psycopg.OperationalError."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def answering_within(connection: AnyConnection, seconds: float) -> Iterator[None]:
    """Cut a connection unless the block is over in time, however silent its server is."""
    watch = threading.Timer(seconds, cut, [connection])
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


class Host(NamedTuple):
    """A host of the list: a name, address or socket directory, and a port."""

    name: str
    port: str

    def __str__(self) -> str:
        return f"{self.name}:{self.port}"


class Role(Enum):
    """What a host was last found to be."""

    PRIMARY = "primary"
    STANDBY = "standby"
    AWAY = "does not accept connections"
    SILENT = "does not answer"


class HostStanding(NamedTuple):
    """The role of a host, its timeline (0: unknown), and the end of its log in bytes, as a standby has received it."""

    role: Role
    timeline: int = 0
    end: int = 0


@cache
def hosts_of(conninfo: str) -> tuple[Host, ...]:
    """The hosts that a libpq string or URL lists; none when it names one."""
    if "," not in conninfo and "%2c" not in conninfo.lower():
        return ()
    parts = conninfo_to_dict(conninfo)
    names = str(parts.get("host") or parts.get("hostaddr") or "").split(",")
    if len(names) == 1:
        return ()
    ports = str(parts.get("port") or DEFAULT_PORT).split(",")
    if len(ports) == 1:
        ports *= len(names)
    return tuple(Host(name, port or DEFAULT_PORT) for name, port in zip(names, ports, strict=True))


def host_alone(conninfo: str, host: Host) -> str:
    """The same address with one host of its list, whatever that host's role is."""
    parts = conninfo_to_dict(conninfo)
    addresses = dict(zip(hosts_of(conninfo), str(parts.get("hostaddr") or "").split(","), strict=False))
    return make_conninfo(
        conninfo,
        host=host.name if parts.get("host") else None,
        hostaddr=addresses.get(host) or None,
        port=host.port,
        target_session_attrs="any",
    )


def host_of(connection: AnyConnection) -> Host:
    """The host that a connection was made to."""
    return Host(connection.info.host, str(connection.info.port))


def standing(connection: psycopg.Connection[Any]) -> HostStanding:
    """Ask the host of a connection in autocommit mode. Raises psycopg.Error."""
    [[recovers, timeline, end]] = connection.execute(_STANDING).fetchall()
    return HostStanding(Role.STANDBY if recovers else Role.PRIMARY, int(timeline), int(end))


class PrimaryWatch:
    """Finds the primary among the hosts of an address, and cuts the sessions of this process on any other.

    Thread-safe. `primary` is None before the first look, and while the last one is silent.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._standings = dict.fromkeys(hosts_of(conninfo), HostStanding(Role.AWAY))
        self._sessions: WeakSet[AnyConnection] = WeakSet()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.primary: Host | None = None
        self.users = 0

    def start(self) -> None:
        """Start a thread for each host."""
        for host in self._standings:
            threading.Thread(target=self._main, args=(host,), name=f"service-host-{host}", daemon=True).start()

    def stop(self) -> None:
        """End the threads, each after its present look."""
        self._stopping.set()

    @property
    def standings(self) -> Mapping[Host, HostStanding]:
        """What each host was last found to be."""
        with self._lock:
            return dict(self._standings)

    def address(self) -> str:
        """The address with the primary as its first host: another one that is silent would be waited for each time."""
        primary = self.primary
        return self._conninfo if primary is None else _beginning_with(self._conninfo, primary)

    def add(self, connection: AnyConnection) -> None:
        """Take a session in charge, until it is closed."""
        with self._lock:
            self._sessions.add(connection)
            left = self.primary is not None and host_of(connection) != self.primary
        if left:
            cut(connection)

    def _main(self, host: Host) -> None:
        connection: psycopg.Connection[Any] | None = None
        while not self._stopping.is_set():
            asked = time.monotonic()
            try:
                if connection is None:
                    connection = psycopg.connect(
                        host_alone(self._conninfo, host),
                        autocommit=True,
                        application_name="service-hosts",
                        connect_timeout=CONNECT_SECONDS,
                        **NOTICE_SILENCE,
                    )
                with answering_within(connection, SILENT_SECONDS):
                    found = standing(connection)
            except psycopg.Error as error:
                late = time.monotonic() - asked >= SILENT_SECONDS
                silent = late or isinstance(error, psycopg.errors.ConnectionTimeout)
                found = HostStanding(Role.SILENT if silent else Role.AWAY)
                if connection is not None:
                    connection.close()
                    connection = None
            self._note(host, found)
            self._stopping.wait(LOOK_SECONDS)
        if connection is not None:
            connection.close()

    def _note(self, host: Host, found: HostStanding) -> None:
        """Take in what a host was found to be, and cut the sessions that have to go."""
        with self._lock:
            before = self.primary
            self._standings[host] = found
            self.primary = self._choose()
            primary = self.primary
            leaving = [one for one in self._sessions if _is_left(one, primary, self._standings)]
        if primary is None and before is not None:
            log.error("primary_silent", host=str(before))
        elif primary is not None and primary != before:
            log.warning("primary_found", host=str(primary), timeline=found.timeline, before=before and str(before))
        for connection in leaving:
            cut(connection)

    def _choose(self) -> Host | None:
        """The primary by all that is known: of several, the one with the highest timeline, else the present one."""
        found = [host for host, one in self._standings.items() if one.role is Role.PRIMARY]
        if found:
            return max(found, key=lambda host: (self._standings[host].timeline, host == self.primary))
        if self.primary is not None and self._standings[self.primary].role is Role.SILENT:
            return None
        return self.primary


def _is_left(connection: AnyConnection, primary: Host | None, standings: Mapping[Host, HostStanding]) -> bool:
    """Whether a session has to go: its host is not the primary, or there is none and it is silent."""
    if connection.closed:
        return False
    host = host_of(connection)
    if primary is not None:
        return host != primary
    return host in standings and standings[host].role is Role.SILENT


def _beginning_with(conninfo: str, first: Host) -> str:
    parts = conninfo_to_dict(conninfo)
    hosts = hosts_of(conninfo)
    order = sorted(range(len(hosts)), key=lambda place: hosts[place] != first)
    lists: dict[str, Any] = {"port": ",".join(hosts[place].port for place in order)}
    for name in ("host", "hostaddr"):
        if parts.get(name):
            values = str(parts[name]).split(",")
            lists[name] = ",".join(values[place] for place in order)
    return make_conninfo(conninfo, **lists)


_WATCHES: dict[str, PrimaryWatch] = {}
_WATCHES_LOCK = threading.Lock()


def watch(conninfo: str) -> None:
    """Watch the hosts of an address in this process, until as many calls of `unwatch`. Nothing for one host."""
    if not hosts_of(conninfo):
        return
    with _WATCHES_LOCK:
        found = _WATCHES.get(conninfo)
        if found is None:
            found = _WATCHES[conninfo] = PrimaryWatch(conninfo)
            found.start()
        found.users += 1


def unwatch(conninfo: str) -> None:
    """End what a call of `watch` began."""
    with _WATCHES_LOCK:
        found = _WATCHES.get(conninfo)
        if found is None:
            return
        found.users -= 1
        if not found.users:
            _WATCHES.pop(conninfo).stop()


def watch_of(conninfo: str) -> PrimaryWatch | None:
    """The watch over the hosts of an address, where there is one."""
    return _WATCHES.get(conninfo) if _WATCHES else None


def describe(conninfo: str) -> str | None:
    """Say which host takes writes, as far as this process knows. None for one host."""
    found = watch_of(conninfo)
    if found is None:
        return None
    primary, standings = found.primary, found.standings
    if primary is None:
        return f"none of {len(standings)} hosts is known to take writes"
    if standings[primary].role is not Role.PRIMARY:
        return f"{primary} {standings[primary].role.value}, and no other host takes writes yet"
    return f"{primary} takes writes, on timeline {standings[primary].timeline}"
