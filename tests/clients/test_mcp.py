"""The official conformance suite of MCP, on the service and on its protocol layer with the suite's fixtures (G-168)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.mcp_fixtures import fixtures, relay
from tests.clients.test_generators import INSTALLED, MODULES, run
from tests.support.accounts import sign_in
from tests.support.server import ServerHandle
from tests.support.snippets.programs import node

HERE = Path(__file__).parent
SUITE = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
REVISION = "2026-07-28"
HANDSHAKE = ("server-initialize", "ping", "tools-list")
"""Scenarios of the revision before, as far as the service declares their features."""

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not (INSTALLED / ".installed").exists(), reason="`make clients` installs the suite"),
]


def judge(folder: Path, url: str, *which: str) -> str:
    """Run the suite; it fails on a check outside of the list, and on one in the list that passes."""
    return run(folder, node(), SUITE, "server", "--url", url, "-o", folder, *which)


def test_the_service_conforms_in_what_it_declares(server: ServerHandle, tmp_path: Path) -> None:
    """With tools alone. The list names every scenario of a feature that it does not declare, with the reason."""
    with server.client() as client:
        key = sign_in(client, server.internal_token, "mcp-suite")
    with relay(server.base_url, key) as url:
        judge(tmp_path, url, "--requirements", REVISION, "--expected-failures", str(HERE / "mcp-service.yaml"))
        for scenario in HANDSHAKE:
            judge(tmp_path, url, "--scenario", scenario, "--spec-version", "2025-11-25")


def test_the_protocol_layer_conforms_with_the_fixtures(tmp_path: Path) -> None:
    """Every scenario that the revision requires, but for streams: it answers in one JSON object."""
    with fixtures() as url:
        said = judge(tmp_path, url, "--requirements", REVISION, "--expected-failures", str(HERE / "mcp-fixtures.yaml"))
    assert "server-stateless: 25 passed, 0 failed" in said
