"""Archives are counted by how their making ended, with their time and bytes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from service.archives.making import BROKEN, GIVEN_UP, MADE, ArchiveCounts
from service.archives.spool import Spool


@pytest.mark.parametrize(("error", "outcome"), [(None, MADE), (OSError, BROKEN), (asyncio.CancelledError, GIVEN_UP)])
def test_each_outcome_is_counted(tmp_path: Path, error: type[BaseException] | None, outcome: str) -> None:
    """What was written counts in any case: the disk had it."""
    counts, spool = ArchiveCounts(), Spool(tmp_path, 1 << 20)

    def make() -> None:
        with counts.counting(spool):
            spool.add("a", b"text")
            if error is not None:
                raise error

    if error is None:
        make()
    else:
        with pytest.raises(error):
            make()
    spool.close()
    assert counts.ended == {MADE: 0, BROKEN: 0, GIVEN_UP: 0} | {outcome: 1}
    assert (counts.bytes, counts.seconds > 0) == (1024, True)
