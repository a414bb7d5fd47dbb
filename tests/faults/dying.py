"""A notary in a process of its own that kills itself at a point: `python -m tests.faults.dying POINT URL LEDGER`.

The points lie one after another on the way of a log into a signed checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.tlog import signing, tree
from service.tlog.signing import Notary, Signer
from service.tlog.tree import CheckpointFile
from tests.support.trees import SECRET

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def die(*_: Any) -> Any:
    """End as the kernel ends a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def _in_the_second_step() -> None:
    """Tiles of level 0 go in one by one, and it dies with the second one added and not committed."""
    add, grow_once, seen = tree._add, tree.grow_once, list[int]()

    def add_and_die(connection: Any, level: int, first: int, upto: int, hashes: Any) -> None:
        add(connection, level, first, upto, hashes)
        seen.append(upto)
        if len(seen) > 1:
            die()

    tree._add = add_and_die
    signing.grow_once = lambda connection: grow_once(connection, most=1)


def _once_grown() -> None:
    signing.judge_with_root = die


def _once_signed() -> None:
    CheckpointFile.write = die  # type: ignore[method-assign]


def _once_beside() -> None:
    write = CheckpointFile.write

    def write_and_die(self: CheckpointFile, note: str) -> None:
        write(self, note)
        die()

    CheckpointFile.write = write_and_die  # type: ignore[method-assign]


POINTS: dict[str, Callable[[], None]] = {
    "entering": _in_the_second_step,
    "grown": _once_grown,
    "signed": _once_signed,
    "beside": _once_beside,
}


def run_until_killed(point: str, url: str, ledger: Path) -> None:
    """Run one until it has killed itself."""
    command = [sys.executable, "-m", "tests.faults.dying", point, url, str(ledger)]
    process = subprocess.run(command, cwd=ROOT, timeout=PATIENCE, check=False, capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


def main(point: str, url: str, ledger: str) -> None:
    """Sign until the point is reached."""
    POINTS[point]()
    Notary(url, Signer(SECRET, CheckpointFile(Path(ledger)))).start()
    time.sleep(PATIENCE)


if __name__ == "__main__":
    main(*sys.argv[1:])
