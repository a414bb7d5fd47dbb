"""How a process holds its memory: what it has freed goes back to the system, so its size follows what it holds (P25).

What was freed between pieces that are still held stays with the process: an attack that was over for long could be told
by its size. The allocator gives such pages back when it is asked to.
"""

import asyncio
import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path

GC_THRESHOLDS = (50_000, 20, 20)  # allocations before a young pass; passes of one generation before the next
SWITCH_SECONDS = 0.0005  # how long a busy thread may keep the interpreter from one that waits for it
LOOK_SECONDS = 10.0
GROWN_BYTES = 8 * 1024 * 1024
"""How much a process has to have grown since it was last asked; each time costs some milliseconds of one thread."""

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = 4096

Trim = Callable[[int], int]


def suit_the_interpreter() -> None:
    """Let the garbage collector pass over what lives as long as the process, and threads take turns more often.

    Requests leave few cycles behind, and a full pass of the collector stops everybody for as long as the whole heap
    takes. The threads that write wait for the interpreter after every answer of the database, while requests are busy.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)


async def give_back() -> None:
    """Give back what is free, for ever, in a thread whenever the process has grown; nothing where that is not known."""
    trim: Trim | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:  # another C library than glibc
        return
    least = resident_bytes()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now = resident_bytes()
        if now >= least + GROWN_BYTES:
            await asyncio.to_thread(trim, 0)
            now = resident_bytes()
            least = now
        least = min(least, now)


def resident_bytes() -> int:
    """How much memory the process has."""
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES
