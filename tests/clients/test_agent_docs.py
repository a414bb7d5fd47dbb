"""A checker of documentation for agents finds no fault in the pages that a service serves (G-166)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.test_generators import INSTALLED, MODULES, run
from tests.support.server import ServerHandle
from tests.support.snippets.programs import node

PAGES = 40
WARNED = {
    "content-start-position",  # a short page begins with the head of every page
    "markdown-link-portability",  # a page in memory serves any host, so its links name none
}
"""Checks that may warn, each with its reason."""

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not (INSTALLED / ".installed").exists(), reason="`make clients` installs the checker"),
]


def test_agents_find_their_way(server: ServerHandle, tmp_path: Path) -> None:
    """From the list of texts to each page as Markdown, none too long, and each with the way back."""
    said = run(
        tmp_path,
        *(node(), MODULES / "afdocs" / "bin" / "afdocs.mjs", "check", f"{server.base_url}/docs", "--format", "json"),
        *("--quiet", "--sampling", "deterministic", "--max-links", str(PAGES), "--request-delay", "0"),
    )
    found = json.loads(said[said.index("{") : said.rindex("}") + 1])
    statuses = {check["id"]: check["status"] for check in found["results"]}
    assert len(statuses) > 20
    assert {name for name, status in statuses.items() if status in {"fail", "error"}} == set()
    assert {name for name, status in statuses.items() if status == "warn"} <= WARNED
