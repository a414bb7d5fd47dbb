"""A database with two projects, and a look into it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.ingest import OTHER, PROJECT, Sql, make_project


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        make_project(connection, PROJECT)
        make_project(connection, OTHER, owner="usr_00000002")
        yield connection
