"""What is said beside answers to people whose account is near or over its quota (R-BILL-11, R-BILL-12, G-072).

An account's days are read at most twice a minute in a process, whatever its keys ask; where they cannot be read,
the answer goes without the notice rather than later or not at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
import psycopg

from service.billing import show
from service.billing.quota import month_of
from service.billing.standing import standing_in
from service.eventstore.commands import CommandNotDone
from service.eventstore.store import EventStore
from service.settingvalues import Plan
from service.weighted import Weighted

FRESH_SECONDS: Final = 30.0
READ_SECONDS: Final = 0.5
MAX_BYTES: Final = 4 * 1024 * 1024
_ENTRY_BYTES: Final = 200  # of an account of which nothing is said


class _Known(NamedTuple):
    until: float  # of the process's own clock, which is asked about age alone
    notice: bytes


class Notices:
    """The notices of one process, by account."""

    def __init__(self, store: EventStore, plans: Mapping[str, Plan]) -> None:
        self._store = store
        self._plans = plans
        self._known: Weighted[str, _Known] = Weighted(
            lambda known: _ENTRY_BYTES + len(known.notice), max_bytes=MAX_BYTES
        )
        self._reading: dict[str, asyncio.Task[bytes]] = {}

    async def of(self, account_id: str) -> bytes:
        """The notice of an account as JSON, at most 30 s old; empty while there is nothing to say. Raises nothing."""
        known = self._known.get(account_id)
        if known is not None and time.monotonic() < known.until:
            return known.notice
        task = self._reading.get(account_id)
        if task is None:
            task = self._reading[account_id] = asyncio.create_task(self._read(account_id))
            task.add_done_callback(lambda _: self._reading.pop(account_id, None))
        return await asyncio.shield(task)

    async def _read(self, account_id: str) -> bytes:
        notice = b""
        try:
            async with asyncio.timeout(READ_SECONDS):
                now = await self._store.now()
                said = show.notice(await standing_in(self._store, self._plans, account_id, month_of(now), now))
                notice = b"" if said is None else msgspec.json.encode(said)
        except (CommandNotDone, TimeoutError, psycopg.Error):
            pass  # asked again after the same while, so that a busy database is not asked more
        self._known.put(account_id, _Known(time.monotonic() + FRESH_SECONDS, notice))
        return notice


def beside(body: bytes, notice: bytes) -> bytes:
    """Add a notice to an answer that is a JSON object; any other body stays as it is."""
    if not notice or not body.startswith(b"{"):
        return body
    joint = b"" if body == b"{}" else b","
    return body[:-1] + joint + b'"billing_notice":' + notice + b"}"
