"""Several reads of one page at a time, a few of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

AT_ONCE = 4
T = TypeVar("T")


async def together(reads: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of reads in their order, AT_ONCE of them at a time."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(read: Coroutine[Any, Any, T]) -> T:
        async with free:
            return await read

    return await asyncio.gather(*(one(read) for read in reads))
