"""Counts of archives in one process: outcomes, seconds and bytes."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from service.archives.spool import Spool

MADE, BROKEN, GIVEN_UP = "made", "broken", "given_up"


class ArchiveCounts:
    """Counts, taken when the making of an archive ends.

    A whole file is MADE, even without a reader to the end. After an error it is BROKEN, and without a reader GIVEN_UP.
    """

    def __init__(self) -> None:
        self.ended = Counter({MADE: 0, BROKEN: 0, GIVEN_UP: 0})
        self.seconds = 0.0
        self.bytes = 0

    @contextmanager
    def counting(self, spool: Spool) -> Iterator[None]:
        """Count an archive around its making."""
        began, outcome = time.monotonic(), BROKEN
        try:
            yield
            outcome = MADE
        except asyncio.CancelledError:
            outcome = GIVEN_UP
            raise
        finally:
            self.ended[outcome] += 1
            self.seconds += time.monotonic() - began
            self.bytes += spool.size
