"""The rooms have the same areas under the same names, and a resource has one name in all of them (design, 2)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from service.registry import machines, read_models

ROOT = Path(__file__).parents[1]

AREAS = {
    "accounts",
    "projects",
    "provider",
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
    "notifications",
    "alerts",
    "publications",
    "discovery",
    "mcp",
    "events",
    "audit",
}
MACHINERY = {
    "schemas": {"kernel"},
    "statemachines": {"kernel"},
    "projections": {"kernel"},
    "service": {
        "archives",
        "auth",
        "cli",
        "conformance",
        "console",
        "copy",
        "demo",
        "egress",
        "embedded",
        "eventstore",
        "fairness",
        "history",
        "http",
        "ingest",
        "jobs",
        "process",
        "runner",
        "tlog",
        "testing",
        "witness",
    },
    "service/http": {"answer", "body", "declare", "document", "edge", "measure", "waiting"},
}
BESIDE = {
    "browser",
    "clients",
    "foreign",
    "deploy",
    "support",
    "docs",
    "faults",
    "failover",
    "e2e",
    "torture",
    "golden",
    "scripts",
}
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


@pytest.mark.parametrize("room", ["schemas", "statemachines", "projections"])
def test_a_module_of_a_pure_room_is_an_area_or_its_machinery(room: str):
    """An area is a module of the room, or a folder of it where it is larger, and never both."""
    modules = {file.stem for file in (ROOT / room).glob("*.py")} - {"__init__"}
    assert modules - AREAS - MACHINERY[room] == set()
    assert modules & folders(ROOT / room) == set()


def test_the_tests_mirror_the_rooms():
    """A folder of tests stands for a folder or a module of the same name; what is beside the rooms is listed."""
    rooms = {room for room in MACHINERY if "/" not in room}
    assert folders(ROOT / "tests") - rooms == BESIDE
    for room in rooms:
        tests = ROOT / "tests" / room
        inner = {file.parent.relative_to(ROOT / "tests") for file in tests.rglob("*.py")}
        there = {path for path in inner if (ROOT / path).is_dir() or (ROOT / f"{path}.py").is_file()}
        assert inner - there == set()


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
    """A machine of an area has its rows in the module of this area: projections/<area>.py."""
    _, area, *_ = machines()[kind].evolve.__module__.split(".")
    rows = {found.fold.__module__ for found in read_models().values() if kind in found.kinds}
    assert rows <= {f"projections.{area}"}


CODE = ("schemas", "statemachines", "projections", "service", "scripts")
MOST_FILES = 20


def code_folders() -> Iterator[Path]:
    """Every folder with code of ours."""
    for room in CODE:
        for folder in (ROOT / room, *(ROOT / room).rglob("*")):
            if folder.is_dir() and any(folder.glob("*.py")):
                yield folder


def test_no_folder_is_too_large_to_look_through() -> None:
    """At most twenty files of Python, beside the one that makes it a package."""
    sizes = {folder: sum(file.name != "__init__.py" for file in folder.glob("*.py")) for folder in code_folders()}
    assert {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > MOST_FILES} == {}


def imports(file: Path) -> set[str]:
    """The modules that a file imports, by their dotted names; of `from a import b` both `a` and `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, *(f"{module}.{name.name}" for name in names)}
    return found


def uses(files: Iterable[Path], folder: Path, *, itself: bool) -> bool:
    """Whether one of the files imports a module of the folder; with `itself` only one that lies right in it."""
    room = ".".join(folder.relative_to(ROOT).parts)
    own = {f"{room}.{file.stem}" for file in folder.glob("*.py")}
    wanted = {name for file in files for name in imports(file)}
    return bool(wanted & own) if itself else any(name == room or name.startswith(f"{room}.") for name in wanted)


def test_no_folder_goes_in_a_circle_with_its_parent() -> None:
    """The files of a folder rest on those of a folder in it, or these on them, and not both."""
    circles = []
    for inner in code_folders():
        outer = inner.parent
        beside = [file for file in outer.glob("*.py") if file.name != "__init__.py"]
        # The floors of the service are a contract, and so are the areas of the other rooms.
        if outer in {ROOT, *(ROOT / room for room in CODE)} or "product" in inner.parts:
            continue
        if uses(beside, inner, itself=False) and uses(inner.rglob("*.py"), outer, itself=True):
            circles.append(str(inner.relative_to(ROOT)))
    assert circles == [], circles


def test_every_module_of_the_service_is_on_a_floor() -> None:
    """The contract of floors names each, so that nothing is imported from anywhere unseen."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = next(contract for contract in contracts if contract["name"].startswith("Floors"))
    named = {name.strip() for floor in floors["layers"] for name in re.split("[|:]", floor)}
    modules = {f"service.{path.stem}" for path in (ROOT / "service").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert {name for name in modules if not name.split(".")[1].startswith("_")} == named


LONGEST = 600
CRUMB = 80
MOST_CRUMBS = 73


def test_a_module_is_one_window() -> None:
    """No module is longer than one window of an editor takes, and those of a few lines become fewer."""
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text().splitlines())
        for room in MACHINERY
        if "/" not in room
        for file in (ROOT / room).rglob("*.py")
        if file.name != "__init__.py" and "demo" not in file.parts
    }
    assert [place for place, length in lengths.items() if length > LONGEST] == []
    assert sum(length < CRUMB for length in lengths.values()) <= MOST_CRUMBS


SKELETON = {"Status"}


@pytest.mark.parametrize("room", CODE)
def test_no_two_public_classes_of_a_room_share_a_name(room: str) -> None:
    """Whoever reads a name knows which class is meant. Each machine has its Status."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / room).rglob("*.py"):
        if "product" in file.parts or file.is_symlink():
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(str(file.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1 and name not in SKELETON} == {}


def test_a_resource_keeps_its_name_across_rooms() -> None:
    """No room calls something `suppressions` or `member` that is `suppression` or `membership` in another one."""
    found: dict[str, set[str]] = {}
    for room in ("schemas", "statemachines", "projections", "service/http"):
        for file in (ROOT / room).rglob("*.py"):
            area, *_ = file.relative_to(ROOT / room).parts
            if area in AREAS:
                found.setdefault(area, set()).add(file.stem)
    steps = {file.stem for file in (ROOT / "statemachines").glob("*/*/*.py")}  # what is done, not what there is
    twice = {
        (area, one, other)
        for area, names in found.items()
        for one in names - steps
        for other in names - steps
        if other != one and other.startswith(one) and other[len(one)] != "_"
    }
    assert twice == set()


UNJUDGED = {
    "tests/support/seen.py",
    "tests/e2e/worst/reading.py",  # judging would be steps of the loop that it watches
    "tests/deploy/test_monitoring.py",  # speaks to Prometheus
    "tests/clients/test_payments.py",  # to a stand-in for the payment provider
    "tests/service/http/edge/test_pipeline.py",  # to operations of its own, which no document has
    "tests/service/witness/test_cosigning.py",  # to a witness, which is no service of this interface
    "tests/service/witness/test_litewitness.py",
    "tests/service/history/test_upgrades.py",  # to an old database, with answers that an old release stored
}


def test_every_client_judges_what_it_is_answered() -> None:
    """The served schemas are held by all answers of the suite, so clients come from `tests/support/seen.py`."""
    made = re.compile(r"\bhttpx2\.(Async)?Client\(")
    makers = {str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("*.py") if made.search(file.read_text())}
    assert makers == UNJUDGED
