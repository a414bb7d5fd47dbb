"""The example suite of the docs runs as it stands, and Hypothesis is needed here alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from service.testing import HttpDriver, OnboardingModel, StepAnswer, error_reports, forward_steps, product_events, steps
from service.testing.walks import OnboardingWalk, Shown
from tests.support.guides import blocks
from tests.support.server import ServerHandle

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "test-a-runner.md"
LINES = 35

pytestmark = pytest.mark.shares_server


def example() -> str:
    """The suite of the page."""
    [text] = [block.text for block in blocks(PAGE.read_text()) if block.language == "python"]
    return text


def run_suite(server: ServerHandle, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a suite with pytest, as its reader does."""
    (folder / "test_service.py").write_text(text)
    told = {
        "SERVICE_URL": server.base_url,
        "SERVICE_INTERNAL_TOKEN": server.internal_token,
        "SERVICE_TEST_TOKEN": server.test_token,
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        "test_service.py",
    ]
    return subprocess.run(command, cwd=folder, env={**os.environ, **told}, capture_output=True, text=True, check=False)


def test_the_suite_of_the_docs_passes(shared_server: ServerHandle, tmp_path: Path) -> None:
    assert len(example().splitlines()) <= LINES
    done = run_suite(shared_server, tmp_path, example())
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_a_walk_finds_a_service_that_departs_from_the_model() -> None:
    """A driver that takes every step, and shows nothing, fails at once."""

    class Yes:
        def perform(self, step: object) -> StepAnswer:
            return StepAnswer(200)

        def exercise(self) -> None: ...

        def expire(self) -> None: ...

        def show(self) -> Shown:
            return Shown()

    class Walk(OnboardingWalk):
        def begin(self) -> Yes:
            return Yes()

    from hypothesis.stateful import run_state_machine_as_test

    with pytest.raises(AssertionError, match="StepAnswer"):
        run_state_machine_as_test(Walk, settings=settings(max_examples=50, database=None))


def test_forward_steps_are_accepted_where_the_model_says_so() -> None:
    begun = OnboardingModel()
    assert {begun.after(step)[1].status for step in begun.steps()} == {201, 404, 412}

    @given(forward_steps(begun))
    def forward(step: object) -> None:
        assert step in begun.steps()

    @given(steps(begun))
    def anything(step: object) -> None:
        assert step in begun.steps()

    forward()
    anything()


@pytest.fixture(scope="module")
def shop(shared_server: ServerHandle) -> Iterator[HttpDriver]:
    with shared_server.client() as client:
        yield HttpDriver(client, shared_server.internal_token, shared_server.test_token)


def test_every_drawn_body_is_accepted_and_kept_once(shop: HttpDriver) -> None:
    numbers = iter(range(10_000))

    @settings(max_examples=15)
    @given(error_reports(), product_events())
    def sent(report: dict[str, object], event: dict[str, object]) -> None:
        key = f"drawn-{next(numbers)}"
        assert shop.report(report, key)["id"] == shop.report(report, key)["id"]
        assert shop.capture(event, key)["id"] == shop.capture(event, key)["id"]

    sent()


def test_without_hypothesis_the_extra_is_named() -> None:
    program = "import sys; sys.modules['hypothesis'] = None; from service.testing import OnboardingWalk"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install '.[testing]'" in done.stderr


def test_hypothesis_is_imported_here_alone() -> None:
    """The service itself runs without it."""
    importers = set()
    for room in ("service", "statemachines", "projections", "schemas"):
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if any(name.split(".")[0] == "hypothesis" for name in names):
                    importers.add(file.parent.relative_to(ROOT).as_posix())
    assert importers == {"service/testing"}
