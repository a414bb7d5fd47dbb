"""The rooms have the same areas under the same names, and a resource has one name in all of them (design, 2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.registry import machines, read_models

ROOT = Path(__file__).parents[1]

AREAS = {
    "accounts",
    "projects",
    "credentials",
    "onboarding",
    "install",
    "deploys",
    "cases",
    "analytics",
    "contracts",
    "runs",
    "reports",
    "deletion",
    "billing",
    "webhooks",
    "alerts",
    "publications",
    "discovery",
    "audit",
}
MACHINERY = {
    "schemas": {"kernel"},
    "statemachines": {"kernel"},
    "projections": {"kernel"},
    "service": {
        "auth",
        "cli",
        "console",
        "demo",
        "embedded",
        "eventstore",
        "fairness",
        "http",
        "ingest",
        "jobs",
        "mcp",
        "process",
    },
    "service/http": {"edge"},
}
BESIDE = {"clients", "deploy", "support", "docs", "faults", "e2e", "torture", "golden", "scripts"}
"""The folders of tests that mirror no room."""


def folders(path: Path) -> set[str]:
    """The names of the folders with modules in them, below a folder."""
    return {inner.name for inner in path.iterdir() if any(inner.rglob("*.py"))} if path.is_dir() else set()


def singular(name: str) -> str:
    """One of what a folder's name is the plural of."""
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


@pytest.mark.parametrize("room", MACHINERY)
@pytest.mark.parametrize("mirror", ["", "tests"])
def test_a_room_has_areas_and_its_machinery_and_nothing_else(mirror: str, room: str):
    """The room itself, and the tests that mirror it."""
    assert folders(ROOT / mirror / room) - AREAS - MACHINERY[room] == set()


def test_the_tests_mirror_the_rooms():
    """A folder of tests stands for a folder of the same name; what is beside the rooms is listed."""
    rooms = {room for room in MACHINERY if "/" not in room}
    assert folders(ROOT / "tests") - rooms == BESIDE
    for room in rooms:
        tests = ROOT / "tests" / room
        inner = {file.parent.relative_to(ROOT / "tests") for file in tests.rglob("*.py")}
        assert {str(path) for path in inner if not (ROOT / path).is_dir()} == set()


def test_no_file_repeats_the_name_of_its_folder():
    """cases/case.py is what the folder holds; cases/cases.py or cases/case_rules.py would say it twice."""
    repeating = set()
    for room in ("schemas", "statemachines", "projections", "service", "tests"):
        for file in (ROOT / room).rglob("*.py"):
            name, folder = file.stem.removeprefix("test_"), file.parent.name
            if name == folder or name.startswith((f"{folder}_", f"{singular(folder)}_")):
                repeating.add(str(file.relative_to(ROOT)))
    assert repeating == set()


@pytest.mark.parametrize("kind", machines())
def test_a_read_model_stands_where_its_machine_does(kind: str):
    """A machine in statemachines/<area>/<name>.py has its row in projections/<area>/<name>.py, if it has one."""
    _, *place = machines()[kind].evolve.__module__.split(".")
    rows = {found.fold.__module__ for found in read_models().values() if kind in found.kinds}
    assert rows <= {".".join(["projections", *place])}
