"""What is installed to run is part of what is tested, and comes with its licences."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from scripts.pages.licences import TARGET, document, pins
from service.discovery.pages import LEFT_OUT

ROOT = Path(__file__).parent.parent
RUNTIME = ROOT / "requirements" / "runtime.txt"


def test_what_runs_is_what_is_tested() -> None:
    """Each package of the runtime lock has the version of the whole lock, and no tool of the tests is among them."""
    runtime, whole = pins(RUNTIME), pins(ROOT / "requirements" / "lock.txt")
    assert runtime.items() <= whole.items()
    assert not {"pytest", "mypy", "ruff", "schemathesis", "dbos", "sqlalchemy", "hypothesis"} & runtime.keys()


def test_locks_name_no_index() -> None:
    """A lock pins by hash; where the files come from is the installer's choice."""
    locks = sorted(RUNTIME.parent.glob("*.txt"))
    tools = {"bugsink", "charts", "chdb", "clients", "patroni", "redbot", "sentry"}
    assert {lock.stem for lock in locks} == tools | {"lock", "runtime"}
    assert [lock.name for lock in locks if "://" in lock.read_text()] == []


def test_the_licences_are_told() -> None:
    """The table names each package with its version and licence, as the packages themselves state it."""
    assert TARGET.read_text() == document()
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_the_pages_are_installed(tmp_path: Path) -> None:
    """A wheel of the checkout has every page of the documentation, every text, and finds them (G-166)."""
    checkout, wheels, installed = tmp_path / "checkout", tmp_path / "wheels", tmp_path / "installed"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name and not name.startswith("tests/") and (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        wheels,
        checkout,
    ]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "BUILD_COMMIT": "a1" * 20})
    [wheel] = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    folders = ("tutorial", "how-to", "reference", "explanation")
    pages = [file.relative_to(ROOT / "docs") for name in folders for file in (ROOT / "docs" / name).rglob("*.md")]
    assert [page for page in pages if not (installed / "service_docs" / page).is_file()] == []
    texts = [file.relative_to(ROOT) for file in (ROOT / "service/discovery/texts").rglob("*") if file.is_file()]
    assert [text for text in texts if not (installed / text).is_file()] == []
    code = "from service import release; print(release.version(), release.commit())"
    told = subprocess.run([sys.executable, "-c", code], cwd=installed, capture_output=True, text=True, check=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert told.stdout.split() == [version, "a1" * 20], "what is installed tells the commit of its build"
    code = "from service.discovery import pages; print(pages.__file__, len(pages.load()))"
    found = subprocess.run([sys.executable, "-c", code], cwd=installed, capture_output=True, text=True, check=True)
    file, count = found.stdout.split()
    assert Path(file).is_relative_to(installed)
    assert int(count) == len([page for page in pages if page.name not in LEFT_OUT])
