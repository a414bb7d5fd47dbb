"""One server behind a front for all snippets, and a list of those that run otherwise than their readers run them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.foreign.runs import Behind, serving
from tests.support.cluster import TestCluster
from tests.support.snippets.programs import NOT_AS_READERS


@pytest.fixture(scope="session")
def behind(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[Behind]:
    """A server that calls itself by the address of its front. Each test makes a project of its own."""
    with serving(tmp_path_factory.mktemp("snippets"), cluster) as found:
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what could not be run as readers run it, where snippets ran."""
    told = [report for kind in ("passed", "failed", "error") for report in terminalreporter.stats.get(kind, ())]
    for language, reason in NOT_AS_READERS.items():
        if any("test_snippets.py" in report.nodeid and f"[{language}]" in report.nodeid for report in told):
            terminalreporter.write_line(f"snippet for {language}, not run as its readers run it: {reason}")
