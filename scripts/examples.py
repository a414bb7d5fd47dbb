"""Write anew the examples of the schema document: real exchanges of a tour with a real server.

An example stays as it is while its shape is still that of the exchange, so that only a changed interface changes files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.embedded.layout import temporary_directory  # noqa: E402
from service.http.document.described import (  # noqa: E402
    EXAMPLES,
    Examples,
    area_of,
)
from service.http.edge.routes import all_endpoints, bind  # noqa: E402
from tests.support.cluster import TestCluster  # noqa: E402
from tests.support.shown.collecting import Json, chosen, differences  # noqa: E402
from tests.support.shown.walk import walk  # noqa: E402


def main() -> None:
    """Walk, and write the pages whose examples have changed."""
    directory = temporary_directory("examples-")
    cluster = TestCluster(directory / "data")
    try:
        found = chosen(walk(cluster, directory))
    finally:
        cluster.close()
    shown = Examples()
    pages: dict[str, dict[str, Json]] = {}
    for bound in bind(all_endpoints()):
        if bound.name in found:
            old, new = shown.of(bound.name), found[bound.name]
            kept = old is not None and not list(differences(old, new)) and not list(differences(new, old))
            pages.setdefault(area_of(bound), {})[bound.name] = old if kept and old is not None else new
    for area, page in pages.items():
        text = json.dumps(dict(sorted(page.items())), indent=1, ensure_ascii=False)
        (EXAMPLES / f"{area}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
