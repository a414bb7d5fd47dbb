"""The worker for `make bench`, with or without the thread that signs the log: what signing costs is told beside it.

`python -m scripts.load.bench_worker <parent pid> signs|unsigned` with the service's own environment.
"""

from __future__ import annotations

import sys
from typing import Any

from service.process import worker
from service.process.children import die_with_parent


class Unsigned:
    """Stands where the notary would, and does nothing."""

    def __init__(self, *_: Any) -> None:
        pass

    def start(self) -> None:
        """Start nothing."""

    def wake(self) -> None:
        """Wake nobody."""

    def stop(self) -> None:
        """Stop nothing."""


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    if sys.argv[2] == "unsigned":
        worker.Notary = Unsigned  # type: ignore[assignment,misc]
    worker.main()
