"""What is said beside answers to people whose account is near or over its quota (R-BILL-11, R-BILL-12, G-072).

An account's days, and who pays for a project, are read at most twice a minute in a process, whatever its keys ask;
where they cannot be read, the answer goes without the notice, and unlocked, rather than later or not at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
import psycopg

from service.billing import show
from service.billing.quota import month_of
from service.billing.reads import account_of
from service.billing.standing import standing_in
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone
from service.settingvalues import Terms
from service.weighted import Weighted

T = TypeVar("T")

FRESH_SECONDS: Final = 30.0
READ_SECONDS: Final = 0.5
MAX_BYTES: Final = 4 * 1024 * 1024
_ENTRY_BYTES: Final = 200  # of an account of which nothing is said


class Told(NamedTuple):
    """What an account's quota does to answers: the notice as JSON, empty while there is nothing to say, and the lock.

    `locked` closes the operations that read raw data (R-BILL-14).
    """

    notice: bytes
    locked: bool


NOTHING: Final = Told(b"", locked=False)


class Notices:
    """What is said of accounts in one process."""

    def __init__(self, store: EventStore, terms: Terms) -> None:
        self._store = store
        self._terms = terms
        self._accounts = _Recent(self._read, NOTHING, lambda told: len(told.notice))
        self._payers = _Recent(lambda project_id: account_of(store, project_id), "", len)

    async def of(self, project_id: str | None, user_id: str | None) -> Told:
        """What stands at most 30 s ago of the account that pays for a project, else of a person. Raises nothing.

        Nothing where no account has a cap.
        """
        if self._terms.self_hosted:
            return NOTHING
        account = user_id if project_id is None else await self._payers.of(project_id)
        return await self._accounts.of(account) if account else NOTHING

    async def _read(self, account_id: str) -> Told:
        now = await self._store.now()
        standing = await standing_in(self._store, self._terms, account_id, month_of(now), now)
        said = show.notice(standing)
        return Told(b"" if said is None else msgspec.json.encode(said), standing.locked)


class _Known(NamedTuple, Generic[T]):
    until: float  # of the process's own clock, which is asked about age alone
    value: T


class _Recent(Generic[T]):
    """Values by name, each read at most twice a minute, once for all who ask meanwhile."""

    def __init__(self, read: Callable[[str], Awaitable[T]], unknown: T, weigh: Callable[[T], int]) -> None:
        self._read = read
        self._unknown = unknown
        self._known: Weighted[str, _Known[T]] = Weighted(
            lambda known: _ENTRY_BYTES + weigh(known.value), max_bytes=MAX_BYTES
        )
        self._reading: dict[str, asyncio.Task[T]] = {}

    async def of(self, name: str) -> T:
        known = self._known.get(name)
        if known is not None and time.monotonic() < known.until:
            return known.value
        task = self._reading.get(name)
        if task is None:
            task = self._reading[name] = asyncio.create_task(self._look(name))
            task.add_done_callback(lambda _: self._reading.pop(name, None))
        return await asyncio.shield(task)

    async def _look(self, name: str) -> T:
        value = self._unknown
        try:
            async with asyncio.timeout(READ_SECONDS):
                value = await self._read(name)
        except (CommandNotDone, TimeoutError, psycopg.Error):
            pass  # asked again after the same while, so that a busy database is not asked more
        self._known.put(name, _Known(time.monotonic() + FRESH_SECONDS, value))
        return value


def beside(body: bytes, notice: bytes) -> bytes:
    """Add a notice to an answer that is a JSON object; any other body stays as it is."""
    if not notice or not body.startswith(b"{"):
        return body
    joint = b"" if body == b"{}" else b","
    return body[:-1] + joint + b'"billing_notice":' + notice + b"}"
