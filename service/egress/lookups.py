"""Look-ups of names in threads of their own: a hanging DNS server stops nobody else (G-150).

A look-up cannot be stopped, and the system's resolver may take half a minute. So each has a daemon thread, and whoever
asked waits LOOKUP_SECONDS. A thread that takes longer gives its place to the next look-up and counts as stuck until it
is done: an account has few of these, and most of them only for names that were never late before. Nobody starts a
second thread for a name that is being looked up. The hosts in the operator's settings have threads of their own.
"""

import asyncio
import socket
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from service.egress.exchange import Ip
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import ReadNotDone

LOOKUP_SECONDS: Final = 2.0
"""For one look-up, the wait for its turn included."""
THREADS = 8
THREADS_OF_ACCOUNT = 2
WAITING = 16
"""Look-ups of one account that wait for their turn."""
MANY = 64
"""Threads, stuck ones included, from which on no account gets a second one; with twice as many, none gets any."""
MOST_OF_ACCOUNT = 8
"""Threads of one account, stuck ones included."""
SUSPECTS_OF_ACCOUNT = 4
"""Threads of one account from which on no name is looked up that was late before."""
MOST_SUSPECTS = 10_000
"""Names that were late at their last look-up. The one that was late longest ago is forgotten first."""
OF_OPERATOR: Final = None
"""In place of an account: for a host in the operator's settings."""

Resolve = Callable[[str], Iterable[str]]
"""Finds the addresses of a name, in a thread. Raises OSError or ValueError when there are none."""


class NameTooSlow(Exception):
    """The name was not resolved in time, or is being looked up in vain already."""


def resolve(host: str) -> list[str]:
    """Ask the system's resolver."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Lookups:
    """The look-ups of one event loop: for accounts, and apart from these for the hosts of the operator."""

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._accounts = _Threads(resolve)
        self._hosts = _Threads(resolve)

    async def find(self, account: str | None, host: str) -> tuple[Ip, ...]:
        """Find every address of a name, for an account or OF_OPERATOR. None if it does not resolve.

        Raises NameTooSlow after LOOKUP_SECONDS, and ReadNotDone when too many wait.
        """
        threads, tenant = (self._hosts, host) if account is OF_OPERATOR else (self._accounts, account)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await threads.find(tenant, host)
        except TimeoutError:
            raise NameTooSlow from None


class _LookUp:
    """A name that is being looked up for a tenant."""

    __slots__ = ("found", "key", "stuck")

    def __init__(self, key: tuple[str, str], found: asyncio.Future[tuple[Ip, ...]]) -> None:
        self.key = key
        self.found = found
        self.stuck = False


class _Threads:
    """THREADS look-ups at once, THREADS_OF_ACCOUNT of one tenant, tenants in turn, and stuck ones beside."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        places = FairBounds(SHARE.of(THREADS, least=2), per_tenant=SHARE.of(THREADS_OF_ACCOUNT))
        self._turns = FairSemaphore(places, waiting=WAITING)
        self._running: dict[tuple[str, str], _LookUp] = {}
        self._of_tenant: Counter[str] = Counter()
        self._suspects: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def find(self, tenant: str, host: str) -> tuple[Ip, ...]:
        key = tenant, host
        if key not in self._running:
            self._check_room(key)
            await self._turns.enter(tenant)
            try:
                self._begin(key)
            except (NameTooSlow, ReadNotDone):
                self._turns.leave(tenant)
                raise
        running = self._running[key]
        if running.stuck:
            raise NameTooSlow
        return await asyncio.shield(running.found)

    def _check_room(self, key: tuple[str, str]) -> None:
        """Raise NameTooSlow for a name that may not take a thread now."""
        mine = self._of_tenant[key[0]]
        most = SUSPECTS_OF_ACCOUNT if key in self._suspects else MOST_OF_ACCOUNT
        if mine >= most or len(self._running) >= (MANY if mine else 2 * MANY):
            raise NameTooSlow

    def _begin(self, key: tuple[str, str]) -> None:
        """Start the thread of a name. Raises NameTooSlow, and ReadNotDone when the machine gives none."""
        if key in self._running:  # Somebody else has begun it meanwhile.
            self._turns.leave(key[0])
            return
        self._check_room(key)
        loop = asyncio.get_running_loop()
        look_up = _LookUp(key, loop.create_future())
        thread = threading.Thread(target=self._look, args=(look_up, loop), name="service-lookup", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise ReadNotDone from error
        self._running[key] = look_up
        self._of_tenant[key[0]] += 1
        late = loop.call_later(LOOKUP_SECONDS, self._set_aside, look_up)
        look_up.found.add_done_callback(lambda _: self._end(look_up, late))

    def _set_aside(self, look_up: _LookUp) -> None:
        """Give the place of a thread that takes too long to the next look-up."""
        look_up.stuck = True
        self._suspects[look_up.key] = None
        self._suspects.move_to_end(look_up.key)
        if len(self._suspects) > MOST_SUSPECTS:
            self._suspects.popitem(last=False)
        self._turns.leave(look_up.key[0])

    def _end(self, look_up: _LookUp, late: asyncio.TimerHandle) -> None:
        late.cancel()
        del self._running[look_up.key]
        tenant = look_up.key[0]
        self._of_tenant[tenant] -= 1
        if not self._of_tenant[tenant]:
            del self._of_tenant[tenant]
        if not look_up.stuck:
            self._suspects.pop(look_up.key, None)
            self._turns.leave(tenant)

    def _look(self, look_up: _LookUp, loop: asyncio.AbstractEventLoop) -> None:
        try:
            addresses = tuple(dict.fromkeys(map(ip_address, self._resolve(look_up.key[1]))))
        except (OSError, ValueError):  # a UnicodeError too
            addresses = ()
        with suppress(RuntimeError):  # The loop has ended meanwhile.
            loop.call_soon_threadsafe(look_up.found.set_result, addresses)
