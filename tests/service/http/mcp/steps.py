"""Steps of the event loop, each with the processor time of its thread: other work on the machine counts in none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

LONGEST_STEP = 0.05
"""Seconds of processor time that one step of a loop may take at most."""


@contextmanager
def measured_steps(client: httpx2.AsyncClient) -> Iterator[list[tuple[float, str]]]:
    """The steps of the block, each with its seconds and its name, in the order in which they ended.

    The client, which shares the loop with the service, does not judge the answers of the block: that is dearer than
    they are.
    """
    run, steps = asyncio.Handle._run, list[tuple[float, str]]()
    judging, client.event_hooks = client.event_hooks, {}

    def measured(handle: asyncio.Handle) -> None:
        name, began = repr(getattr(handle._callback, "__self__", handle._callback)), time.thread_time()
        try:
            run(handle)
        finally:
            steps.append((time.thread_time() - began, name))

    asyncio.Handle._run = measured  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        client.event_hooks = judging


def too_long(steps: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The steps of the block that took longer than a step may, the longest first."""
    return sorted((step for step in steps if step[0] > LONGEST_STEP), reverse=True)
