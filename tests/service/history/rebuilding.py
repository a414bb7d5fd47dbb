"""A rebuild in a process of its own, which kills itself (-9) after so many pages: `… URL TABLE ROWS_A_PAGE PAGES`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from service.history import rebuild as rebuild_module
from tests.support import toy

ROOT = Path(__file__).parents[3]


def rebuild_until_killed(url: str, table: str, *, rows_a_page: int, pages: int) -> None:
    """Run one and assert that it was killed."""
    arguments = [sys.executable, "-m", "tests.service.history.rebuilding", url, table, str(rows_a_page), str(pages)]
    finished = subprocess.run(arguments, cwd=ROOT, check=False)
    assert finished.returncode == -signal.SIGKILL


def main(url: str, table: str, rows_a_page: str, pages: str) -> None:
    """Rebuild, and kill itself in the middle."""
    left = int(pages)

    def count_down(*_: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    rebuild_module.WRITE_EVERY = int(rows_a_page)
    [projection] = [p for p in toy.PROJECTIONS if p.name == table]
    rebuild_module.rebuild(url, projection, count_down)


if __name__ == "__main__":
    main(*sys.argv[1:])
