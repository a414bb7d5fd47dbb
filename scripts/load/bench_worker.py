"""The worker without the thread that signs the log, for `make bench`: what signing costs is told beside it.

`python -m scripts.load.bench_worker <parent pid>` with the service's own environment.
"""

from __future__ import annotations

import sys
from typing import Any

from service.process import worker


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
    worker.Notary = Unsigned  # type: ignore[assignment,misc]
    worker.main(int(sys.argv[1]))
