"""Fixtures that every test may use, and the servers' logs beside a failure."""

from collections.abc import Generator
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
