"""Idempotency records are kept as long as G-008 says, and no longer."""

from types import SimpleNamespace
from typing import Any, cast

import psycopg

from service.jobs import forget_records

RECORD = (
    "insert into idempotency (project_id, principal, operation, key, fingerprint, command_id, client_key, status, "
    "created_at) values ('proj_a', 'key:k', %s, %s, 'f', 'cmd', %s, 200, service_now() - %s::interval)"
)
KEPT = [
    ("POST /v1/projects/proj_a/onboarding", True, "23 hours"),
    ("POST /v1/projects/proj_a/onboarding", False, "50 minutes"),
    ("POST /v1/projects/proj_a/credentials", True, "300 days"),
    ("POST /v1/projects/proj_a/automation-contract/enable", True, "300 days"),
    ("POST /v1/projects/proj_a/automation-runs", True, "300 days"),
    ("POST /v1/automation-runs/run_a/cancel", True, "300 days"),
    ("DELETE /v1/projects/proj_a", True, "20 days"),
    ("POST /v1/auth/self_delete", True, "20 days"),
]
FORGOTTEN = [
    ("POST /v1/projects/proj_a/onboarding", True, "25 hours"),
    ("POST /v1/projects/proj_a/credentials", False, "2 hours"),
    ("POST /v1/automation-runs/run_a/usage", True, "25 hours"),
]


async def test_records_are_forgotten_in_time(database_url: str) -> None:
    """What can still be repeated stays; the rest goes, and a second look finds nothing."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number, (operation, client_key, age) in enumerate([*KEPT, *FORGOTTEN]):
            connection.execute(RECORD, (operation, str(number), client_key, age))
        services = cast("Any", SimpleNamespace(settings=SimpleNamespace(database_url=database_url)))
        for _ in range(2):
            await forget_records(services, {})
        left = connection.execute("select operation, client_key from idempotency order by key::int").fetchall()
    assert left == [(operation, client_key) for operation, client_key, _ in KEPT]
