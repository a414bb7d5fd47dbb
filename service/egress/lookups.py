"""Look-ups of names in threads of their own: a hanging DNS server stops nobody else (G-150).

A look-up cannot be stopped. So each has a daemon thread, and its account
keeps the place until the thread is done, however long ago its caller gave up.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from ipaddress import ip_address

from service.egress.addresses import Ip
from service.fairness.not_done import ReadNotDone
from service.fairness.turns import Turns

THREADS = 8
THREADS_OF_ACCOUNT = 2
WAITING = 16
"""Look-ups of one account that wait for their turn."""

Resolve = Callable[[str], Iterable[str]]
"""Finds the addresses of a name, in a thread. Raises OSError or ValueError when there are none."""


def resolve(host: str) -> list[str]:
    """Ask the system's resolver."""
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Lookups:
    """The look-ups of one event loop: THREADS at once, THREADS_OF_ACCOUNT of one account, accounts in turn."""

    def __init__(self, resolve: Resolve = resolve) -> None:
        self._resolve = resolve
        self._turns = Turns(THREADS, THREADS_OF_ACCOUNT, WAITING)

    async def find(self, account: str, host: str) -> tuple[Ip, ...]:
        """Find every address of a name, none if it does not resolve. Raises ReadNotDone when too many wait."""
        await self._turns.enter(account)
        loop = asyncio.get_running_loop()
        found: asyncio.Future[tuple[Ip, ...]] = loop.create_future()
        found.add_done_callback(lambda _: self._turns.leave(account))
        try:
            threading.Thread(target=self._look, args=(host, loop, found), name="service-lookup", daemon=True).start()
        except RuntimeError as error:  # The machine gives no thread.
            found.cancel()
            raise ReadNotDone from error
        return await asyncio.shield(found)

    def _look(self, host: str, loop: asyncio.AbstractEventLoop, found: asyncio.Future[tuple[Ip, ...]]) -> None:
        try:
            addresses = tuple(dict.fromkeys(map(ip_address, self._resolve(host))))
        except (OSError, ValueError):  # a UnicodeError too
            addresses = ()
        with suppress(RuntimeError):  # The loop has ended meanwhile.
            loop.call_soon_threadsafe(found.set_result, addresses)
