"""Statements for many deliveries at once: while one runs, the next gathers (G-159).

Hundreds of deliveries a second begin and end. A statement and a commit for each of these would cost more than all else.
With little to do, a statement is for one delivery, and waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from service.eventstore.connect.facts import Facts

MOST = 32
"""Deliveries of one statement."""
KEY = ("project_id", "webhook_id", "position")


class _Asked(NamedTuple):
    values: Mapping[str, Any]
    waiter: asyncio.Future[tuple[Any, ...] | None]


class DeliveryNotes:
    """The statements of one kind. They take each column as an array, and return the key of a delivery first."""

    def __init__(self, facts: Facts, query: str, columns: Sequence[str]) -> None:
        self._facts = facts
        self._query = query.encode()
        self._columns = (*KEY, "epoch", *columns)
        self._gathered: list[_Asked] = []
        self._running: asyncio.Task[None] | None = None

    async def note(self, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Run the statement for one delivery, beside others. Returns its row without the key, if there is one.

        Raises what NOT_WRITTEN names.
        """
        waiter: asyncio.Future[tuple[Any, ...] | None] = asyncio.get_running_loop().create_future()
        self._gathered.append(_Asked(values, waiter))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await waiter

    async def stop(self) -> None:
        """Give up the statement under way."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._gathered:
                some, self._gathered = self._gathered[:MOST], self._gathered[MOST:]
                await self._carry_out(some)
        finally:
            self._running = None

    async def _carry_out(self, some: Sequence[_Asked]) -> None:
        try:
            columns = {name: [asked.values[name] for asked in some] for name in self._columns}
            async with self._facts.connection() as connection:
                rows = await (await connection.execute(self._query, columns)).fetchall()
        except Exception as error:  # noqa: BLE001 - each that waits hears of it
            for asked in some:
                if not asked.waiter.done():
                    asked.waiter.set_exception(error)
            return
        found = {row[: len(KEY)]: row[len(KEY) :] for row in rows}
        for asked in some:
            if not asked.waiter.done():
                asked.waiter.set_result(found.get(tuple(asked.values[name] for name in KEY)))
