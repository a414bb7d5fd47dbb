"""What a start loads: each library that the first answer does not need costs every start, and every process memory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import procrastinate
import pytest

from service.eventstore.log.sequencer import TODO
from tests.support.server import ENCRYPTION_KEY, SIGNING_KEY, clean_environment

# Loaded with the first use of each: source maps, OTLP in protobuf, payment, connected providers; and never by a process
# that serves: output for terminals.
LATER = {"google.protobuf", "httpx2", "opentelemetry.proto", "pydantic", "rich", "stripe", "symbolic"}
# What the API and the worker are copies of. Litestar loads pydantic where it is installed: not with the service.
LOADED = ("import service.process.serving; from service.process.apiserver import load; load()", LATER - {"pydantic"})
# Before the supervisor has begun its child, that is: the others of its modules load beside it.
SUPERVISING = (
    "import service.cli.serve, service.process.supervisor",
    LATER | {"litestar", "multiprocessing", "procrastinate", "psycopg", "statemachines"},
)
RUNTIME = Path(__file__).parents[3] / "requirements" / "runtime.txt"
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


def test_pydantic_is_not_installed_with_the_service() -> None:
    assert not re.search(r"^pydantic\b", RUNTIME.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_status_of_a_job_that_waits_is_the_librarys() -> None:
    assert procrastinate.jobs.Status.TODO.value == TODO
