"""A process gives back what it has freed (P25)."""

from __future__ import annotations

import asyncio
import random

import pytest

from service.http.measure import memory
from service.http.measure.memory import GROWN_BYTES, give_back, resident_bytes

PIECES = 10_000


async def test_what_was_freed_between_pieces_that_are_held_goes_back(monkeypatch: pytest.MonkeyPatch):
    """Without being asked the allocator keeps it for as long as one of its neighbours is held."""
    monkeypatch.setattr(memory, "LOOK_SECONDS", 0.02)
    task = asyncio.create_task(give_back())
    await asyncio.sleep(0.1)
    before = resident_bytes()
    held, freed = list[bytes](), list[bytes]()
    while (most := resident_bytes()) <= before + 8 * GROWN_BYTES:  # It may have had some left of what came before.
        for number in range(PIECES):
            (freed if number % 20 else held).append(bytes(random.randrange(600, 8000)))
    freed.clear()
    async with asyncio.timeout(10):
        while resident_bytes() > before + (most - before) // 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
    assert len(held) >= PIECES // 20
    task.cancel()
