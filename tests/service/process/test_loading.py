"""What a start loads: each library that the first answer does not need costs every start, and every process memory."""

from __future__ import annotations

import subprocess
import sys

import procrastinate
import pytest

from service.eventstore.log.sequencer import TODO
from tests.support.server import ENCRYPTION_KEY, SIGNING_KEY, clean_environment

# Loaded with the first use of each: source maps, OTLP in protobuf, payment, connected providers; and never by a process
# that serves: output for terminals.
LATER = {"google.protobuf", "httpx2", "opentelemetry.proto", "pydantic", "rich", "stripe", "symbolic"}
# What the API and the worker are copies of.
LOADED = ("import service.process.serving; from service.process.apiserver import load; load()", LATER)
# Before the supervisor has begun its child, that is: the others of its modules load beside it.
SUPERVISING = (
    "import service.cli.serve, service.process.supervisor",
    LATER | {"litestar", "multiprocessing", "procrastinate", "psycopg", "statemachines"},
)
SETTINGS = {
    "SERVICE_DATABASE_URL": "postgresql:///none",
    "SERVICE_ENCRYPTION_KEY": ENCRYPTION_KEY,
    "SERVICE_SIGNING_KEY": SIGNING_KEY,
    "SERVICE_INTERNAL_TOKEN": "none",
}


@pytest.mark.parametrize(("code", "unwanted"), [LOADED, SUPERVISING], ids=["loaded", "supervisor"])
def test_a_start_loads_what_it_needs(code: str, unwanted: set[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        env=clean_environment(**SETTINGS),
        capture_output=True,
        text=True,
        check=True,
    )
    assert unwanted & set(shown.stdout.split()) == set()


def test_the_status_of_a_job_that_waits_is_the_librarys() -> None:
    assert procrastinate.jobs.Status.TODO.value == TODO
