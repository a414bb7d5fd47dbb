"""Fixtures that every test may use."""

from tests.support.cluster import (  # noqa: F401 (fixtures are found by name)
    any_cluster,
    any_database_url,
    cluster,
    cluster_15,
    database_url,
    empty_database_url,
)
from tests.support.server import server, server_factory  # noqa: F401
