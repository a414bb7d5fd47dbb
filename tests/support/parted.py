"""A database whose tables belong to one role; in it another one serves, a third one reads and a fourth one queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

from service.cli.shared.auditing import reader
from service.eventstore.schema import roles
from tests.support.cluster import TestCluster

OWNER, SERVING, AUDITOR = "parted_owner", "parted_serving", "parted_auditor"
QUERIES = roles.QUERYING.format(SERVING)


class Parted(NamedTuple):
    """The addresses of the database by what one may do there, and what the reader was granted."""

    owner: str
    serving: str
    auditor: str
    granted: list[str]


@contextmanager
def parted_database(cluster: TestCluster) -> Iterator[Parted]:
    """Make the roles and the database for a block, migrated as its owner."""
    with cluster.database("template0") as url, psycopg.connect(cluster.admin_url(url), autocommit=True) as admin:
        name = conninfo_to_dict(url)["dbname"]
        try:
            for role in (OWNER, SERVING, AUDITOR):
                admin.execute(f"create role {role} login".encode())
            admin.execute(f"create role {QUERIES}; grant {QUERIES} to {SERVING}".encode())
            admin.execute(f'alter database "{name}" owner to {OWNER}'.encode())
            owner, serving, auditor = (cluster.url(str(name), role) for role in (OWNER, SERVING, AUDITOR))
            roles.bring_forward(serving, owner)
            with psycopg.connect(owner, autocommit=True) as connection:
                granted = roles.let_read(connection, AUDITOR, reader())
            yield Parted(owner, serving, auditor, granted)
        finally:
            admin.execute(f"drop owned by {OWNER}, {SERVING}, {AUDITOR}, {QUERIES} cascade".encode())
            admin.execute(f'alter database "{name}" owner to service'.encode())
            admin.execute(f"drop role if exists {OWNER}, {SERVING}, {AUDITOR}, {QUERIES}".encode())
