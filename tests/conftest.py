"""Fixtures that every test may use, and the servers' logs beside a failure."""

import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from tests.support import Asked
from tests.support.cluster import (  # noqa: F401 (fixtures are found by name)
    any_cluster,
    any_database_url,
    cluster,
    cluster_15,
    database_url,
    empty_database_url,
    programs_15,
)
from tests.support.loaded import executed, loaded_service
from tests.support.server import (  # noqa: F401
    ServerFactory,
    ServerHandle,
    clean_environment,
    server,
    server_factory,
    shared_server,
)

LOG_CHARACTERS = 6000
TESTS = Path(__file__).parent
PASSABLE = 0o711
OWN = pytest.StashKey[Path]()
MEMORY = Path("/dev/shm")  # noqa: S108
MEMORY_BYTES = 6 * 1024**3
ALONE = (
    TESTS / "torture",
    TESTS / "failover",
    TESTS / "faults" / "test_receivers.py",
    TESTS / "faults" / "test_silent_database.py",
)
"""Whose seconds another test that computes would change. What only waits, or measures memory, runs beside others."""

EXECUTED = (
    TESTS / "deploy" / "test_units.py",
    TESTS / "torture",
    TESTS / "faults" / "test_restarts.py",
    TESTS / "service" / "eventstore" / "test_roles.py",
    TESTS / "service" / "process" / "test_beats.py",
    TESTS / "service" / "process" / "test_children.py",
    TESTS / "service" / "process" / "test_stopping.py",
)
"""Whose servers and commands are programs of their own, loaded anew, and not copies of one that has loaded them."""

RELEASE = tuple(
    TESTS / path
    for path in (
        "browser",
        "deploy/test_nginx.py",
        "e2e",
        "faults",
        "golden/test_answers.py",
        "scripts/test_verify_mutants.py",
        "service/auth/test_permissions.py",
        "service/cli/test_commands.py",
        "service/cli/test_copies.py",
        "service/conformance",
        "service/console/test_every_form.py",
        "service/console/test_every_route.py",
        "service/console/test_fences.py",
        "service/console/test_form_properties.py",
        "service/console/test_hostile_requests.py",
        "service/console/test_ways.py",
        "service/http/discovery/test_guides.py",
        "service/http/discovery/test_pages.py",
        "service/http/events/test_archive.py",
        "service/http/test_list_plans.py",
        "service/ingest/foreign/test_posthog.py",
        "service/ingest/provided/test_by_the_minute.py",
        "service/ingest/test_patterns.py",
        "service/process/test_beats.py",
        "service/process/test_children.py",
        "service/process/test_ended_sessions.py",
        "service/process/test_full_disk.py",
        "service/process/test_processes_together.py",
        "service/process/test_rest.py",
        "service/process/test_stopping.py",
        "service/process/test_supervisor.py",
        "service/runner/test_attacks.py",
        "service/runner/test_conformance.py",
        "service/runner/test_crashes.py",
        "service/runner/test_merging.py",
        "service/runner/test_proving.py",
        "service/runs/test_public_dsn.py",
        "service/test_embedded.py",
        "service/webhooks/test_silent.py",
        "torture",
    )
)
"""What `make test-release` runs: generated requests, guides, a browser, tours of all operations and pages, stories over
many of them, attacks, processes that end, and storms.

Tests of other files that are marked with `release` are long forms, whose short ones `make test` runs.
"""
LONG_FORMS = ("mark.release", "mark.longer", "long_after(", "few_or_many(", "@given(", ".TestCase")
"""Words of files some of whose tests run longer before a release, or only there."""

FEW_EXAMPLES = 25
"""Examples of a generated test that names no number of its own, in `make test`. `make test-release` tries 100."""

SLOWEST = 10
"""How many of the slowest files a run names at its end."""

LONGEST = tuple(
    TESTS / path
    for path in (
        "e2e/test_tour.py",
        "service/runs/test_verification_provider.py",
        "service/ingest/provided/test_by_the_minute.py",
        "e2e/test_schemathesis.py",
        "e2e/test_tenants.py",
        "e2e/test_worst_texts.py",
        "e2e/test_guides.py",
        "service/conformance/test_runners.py",
        "golden/test_answers.py",
        "e2e/test_nervous_team.py",
        "service/process/test_full_disk.py",
        "service/runner/test_attacks.py",
        "service/http/test_list_plans.py",
        "e2e/test_examples.py",
        "service/console/test_every_route.py",
        "deploy/test_nginx.py",
        "faults/test_restarts.py",
        "faults/test_failover.py",
        "service/process/test_supervisor.py",
        "service/http/events/test_archive.py",
        "service/process/test_beats.py",
        "service/runner/test_loop.py",
        "service/runner/test_merging.py",
        "service/test_embedded.py",
        "service/webhooks/test_silent.py",
        "service/process/test_ended_sessions.py",
        "test_packaging.py",
        "service/conformance/test_command.py",
        "service/cli/test_commands.py",
        "faults/test_silent_commands.py",
        "service/http/cases/test_uploads.py",
        "service/http/analytics/test_connection.py",
        "e2e/test_principals.py",
        "e2e/test_automation_leases.py",
        "service/http/billing/test_payment.py",
        "service/http/document/test_openapi.py",
        "service/http/cases/test_feedback.py",
        "service/runner/test_crashes.py",
        "service/http/cases/test_ingest.py",
        "service/http/cases/test_sentry.py",
        "service/runner/test_git.py",
        "service/http/discovery/test_pages.py",
        "service/ingest/test_patterns.py",
        "e2e/test_onboarding_model.py",
        "e2e/test_automation_stops.py",
        "service/runs/test_schedules.py",
        "service/runs/test_backtesting.py",
        "service/deletion/test_people.py",
        "faults/test_tampering.py",
        "golden/test_events.py",
        "service/http/cases/test_odd_characters.py",
        "service/eventstore/test_loop.py",
        "service/eventstore/test_log.py",
        "service/cli/test_apply.py",
        "service/eventstore/test_recorder.py",
        "service/http/projects/test_named_steps.py",
        "service/history/test_rebuild.py",
        "e2e/test_automation_model.py",
        "e2e/test_automation_races.py",
        "service/console/test_log.py",
        "service/console/test_runs.py",
        "service/runs/test_approval.py",
        "service/deletion/test_purging.py",
        "faults/test_ingest_kills.py",
    )
)
"""Files that take longest, begun first: one that began last would leave the other workers with nothing to do."""

# One for all clients of all tests: each would read every certificate of the machine again, in 25 ms, to speak HTTP.
httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)

# An example that a busy machine makes slow is no failure.
settings.register_profile("many", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", settings.get_profile("many"), max_examples=FEW_EXAMPLES)
settings.load_profile("many")


def in_memory() -> str | None:
    """Where files cost no disk, when there is room: making databases and syncing them took half of the tests' time.

    What a kill may lose is the same there; only a power failure would tell the difference, and no test makes one.
    """
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return str(MEMORY)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep temporary files in memory, and where others can pass: root's databases run as another user.

    pytest's usual place is closed to others, again with each session that begins.
    """
    Asked.long = "not release" not in asked_for(config)
    settings.load_profile("many" if Asked.long else "few")
    if config.option.basetemp is None:
        config.stash[OWN] = directory = Path(tempfile.mkdtemp(prefix="service-tests-", dir=in_memory()))
        directory.chmod(PASSABLE)
        config.option.basetemp = str(directory / "t")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the temporary files: what a failed test has to show is in its report. `--basetemp` keeps them."""
    if directory := config.stash.get(OWN, None):
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """Temporary directories that others can pass, without being able to list them."""
    make = tmp_path_factory.mktemp

    def mktemp(basename: str, *, numbered: bool = True) -> Path:
        made = make(basename, numbered=numbered)
        made.chmod(PASSABLE)
        return made

    if os.geteuid() == 0:
        base = tmp_path_factory.getbasetemp()
        for directory in [base, base.parent] if "PYTEST_XDIST_WORKER" in os.environ else [base]:
            directory.chmod(PASSABLE)  # a worker's lies in that of the session
        tmp_path_factory.mktemp = mktemp  # type: ignore[method-assign]
    return tmp_path_factory


@pytest.fixture(scope="session", autouse=True)
def _bytecode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where bytecode is not to be written, keep it beside the temporary files: servers and commands compile it once.

    Each of the hundreds of processes that the tests start would spend half a second on that.
    """
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            base = tmp_path_factory.getbasetemp()
            shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "bytecode"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _loaded_service(tmp_path_factory: pytest.TempPathFactory, _bytecode: None) -> Iterator[None]:
    """Load the service once for all servers and commands of this worker."""
    with loaded_service(clean_environment(), tmp_path_factory.mktemp("loaded")):
        yield


@pytest.fixture(scope="module", autouse=True)
def _executed(request: pytest.FixtureRequest, _loaded_service: None) -> Iterator[None]:
    """Execute servers and commands where that is what is tested."""
    with executed() if any(request.path.is_relative_to(place) for place in EXECUTED) else nullcontext():
        yield


def is_for_releases(path: Path) -> bool:
    """Whether tests of this file run before a release and in CI, and not in `make test`."""
    return any(path.is_relative_to(place) for place in RELEASE)


def has_long_forms(path: Path) -> bool:
    """Whether single tests of this file run before a release alone."""
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in LONG_FORMS)


def is_generated(item: pytest.Item) -> bool:
    """Whether a test tries as many examples as the profile says: few in `make test`, many in `make test-release`."""
    if not isinstance(item, pytest.Function) or not getattr(item.obj, "is_hypothesis_test", False):
        return False
    own = getattr(item.obj, "_hypothesis_internal_use_settings", None) or getattr(item.cls, "settings", settings())
    return bool(own.max_examples == settings().max_examples)


def stands_alone(path: Path) -> bool:
    """Whether tests of this file measure seconds, so that nothing else may run beside them."""
    return any(path.is_relative_to(place) for place in ALONE)


def asked_for(config: pytest.Config) -> set[str]:
    """The marks of `-m`, each alone or after `not`."""
    return set(config.option.markexpr.split(" and "))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read only the files of the tests that are asked for: each worker spends seconds on reading the others."""
    asked = asked_for(config)
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    alone, whole = stands_alone(collection_path), is_for_releases(collection_path)
    unasked = (
        (alone and "not alone" in asked)
        or (not alone and "alone" in asked)
        or (whole and "not release" in asked)
        or ("release" in asked and not whole and not has_long_forms(collection_path))
    )
    return True if unasked else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Read the files without the collector of cycles: half of that time was its passes over what stays for good."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what measures seconds: everything else shares the machine with other workers. Begin with what takes long."""
    alone = {path for path in {item.path for item in items} if stands_alone(path)}
    places = {path: place for place, path in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        if item.path in alone:
            item.add_marker(pytest.mark.alone)
        if is_for_releases(item.path) or (Asked.long and (item.get_closest_marker("longer") or is_generated(item))):
            item.add_marker(pytest.mark.release)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the slowest files, with the seconds that their tests took on all workers together."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]
    if len(seconds) > SLOWEST:
        terminalreporter.section(f"slowest {SLOWEST} files, of {sum(seconds.values()):.0f} s")
        for name, taken in seconds.most_common(SLOWEST):
            terminalreporter.line(f"{taken:7.1f} s  {name}")


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
