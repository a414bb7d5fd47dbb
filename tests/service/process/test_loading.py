"""What a start loads: each library that the first answer does not need costs every start, and every process memory."""

from __future__ import annotations

import subprocess
import sys

import procrastinate
import pytest

from service.eventstore.log.deferring import TODO

# Loaded with the first use of each: source maps, OTLP in protobuf, payment, connected providers; and never by a process
# that serves: jobs, output for terminals.
LATER = {"google.protobuf", "httpx2", "opentelemetry.proto", "procrastinate", "pydantic", "rich", "stripe", "symbolic"}
SERVING = (
    "import service.process.serving; from service.http.edge.app import create_app; create_app(lambda: None)",
    LATER,
)
WORKING = (
    "import service.process.worker; from service.jobs.declared import declared; declared()",
    LATER - {"procrastinate"},
)
# Before the supervisor has begun its children, that is: the others of its modules load beside them.
SUPERVISING = ("import service.cli.serve, service.process.supervisor", LATER | {"litestar", "psycopg", "statemachines"})


@pytest.mark.parametrize(("code", "unwanted"), [SERVING, WORKING, SUPERVISING], ids=["api", "worker", "supervisor"])
def test_a_start_loads_what_it_needs(code: str, unwanted: set[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert unwanted & set(shown.stdout.split()) == set()


def test_the_status_of_a_job_that_waits_is_the_librarys() -> None:
    assert procrastinate.jobs.Status.TODO.value == TODO
