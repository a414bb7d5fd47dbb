"""Fixtures that every test may use, and the servers' logs beside a failure."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import (  # noqa: F401 (fixtures are found by name)
    any_cluster,
    any_database_url,
    cluster,
    cluster_15,
    database_url,
    empty_database_url,
)
from tests.support.server import ServerFactory, ServerHandle, server, server_factory  # noqa: F401

LOG_CHARACTERS = 6000
TESTS = Path(__file__).parent
ALONE = (TESTS / "torture", TESTS / "faults", TESTS / "service" / "process")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what kills processes or measures them: everything else shares the machine with a second worker."""
    for item in items:
        if any(folder in item.path.parents for folder in ALONE):
            item.add_marker(pytest.mark.alone)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of the logs of the servers that a failed test used."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            servers = value.started if isinstance(value, ServerFactory) else [value]
            for used in servers:
                if isinstance(used, ServerHandle):
                    report.sections.append((f"log of {used.base_url}", used.log()[-LOG_CHARACTERS:]))
    return report
