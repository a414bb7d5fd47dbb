"""The distributions of this tree: each built into a wheel from a copy of the checkout, and installed alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = {"fencework-core": ".", "fencework": "packaging/fencework", "fencework-runner": "packaging/runner"}
"""The folder of each, as one installs it from a checkout."""
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
PIP_THERE = [*PIP, "--quiet", "--python"]
"""The pip of the tests at work in another environment, whose Python comes next."""


def copied_checkout(target: Path) -> Path:
    """A copy of what is under version control, but for the tests: builds leave files in the folder of their source."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        file = ROOT / name
        if name and not name.startswith("tests/") and (file.is_symlink() or file.is_file()):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / name, follow_symlinks=False)
    return target


def build(checkout: Path, wheels: Path, name: str, **env: str) -> Path:
    """Build the wheel of a distribution, offline."""
    command = [
        *PIP,
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "-w",
        wheels,
        checkout / FOLDERS[name],
    ]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **env})
    [wheel] = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel


def new_environment(at: Path) -> Path:
    """An environment without any package, which the pip of the tests installs into. Returns its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", at], check=True)
    return at / "bin" / "python"


def install(python: Path, *given: str | Path) -> None:
    """Install as pip does it; bytecode of packages is nothing that a test looks at."""
    subprocess.run([*PIP_THERE, python, "install", "--no-compile", *given], check=True, capture_output=True)


def metadata_of(wheel: Path) -> str:
    """The text of METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def packages_of(python: Path) -> Path:
    """The folder of the packages of an environment."""
    return next(python.parents[1].glob("lib/python3*/site-packages"))


def installed_in(python: Path) -> set[str]:
    """The names of what is installed there."""
    return {one.metadata["Name"].lower() for one in metadata.distributions(path=[str(packages_of(python))])}


def size_of(python: Path) -> int:
    """Bytes of all its packages."""
    return sum(file.stat().st_size for file in packages_of(python).rglob("*") if file.is_file())
