"""Write anew what the interface answers to bad requests, for tests/golden/answers: read the difference before a commit.

Every operation is sent some hundred bad requests and one in order, to a real server after a tour of the interface.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.embedded.layout import temporary_directory  # noqa: E402
from tests.support.cluster import TestCluster  # noqa: E402
from tests.support.recorded.keeping import keep  # noqa: E402
from tests.support.recorded.recording import record  # noqa: E402


def main() -> None:
    """Record, and keep it."""
    directory = temporary_directory("answers-")
    cluster = TestCluster(directory / "data")
    try:
        keep(record(cluster, directory))
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
