"""What is found by importing the rooms is what was there before: no part goes missing with a module nobody finds."""

from __future__ import annotations

from pathlib import Path

import pytest

import projections
import service
import statemachines
from scripts.golden import NAMES, found, kept

FOUND = found()


@pytest.mark.parametrize("kind", FOUND)
def test_what_is_found_is_what_the_golden_file_names(kind: str) -> None:
    """`scripts/golden.py` adds a new name; one that is gone is taken out by hand."""
    assert FOUND[kind] == kept(kind)


def test_every_kind_has_its_file() -> None:
    """No file is left over, and none is missing."""
    assert {path.stem for path in NAMES.iterdir()} == set(FOUND)


@pytest.mark.parametrize("room", [service, statemachines, projections], ids=lambda room: room.__name__)
def test_every_folder_with_modules_is_a_package(room: object) -> None:
    """The scanners go into packages: a folder without `__init__.py` would be passed over."""
    [path] = room.__path__  # type: ignore[attr-defined]
    folders = {module.parent for module in Path(path).rglob("*.py")}
    assert {folder for folder in folders if not (folder / "__init__.py").exists()} <= {
        Path(service.__path__[0]) / "demo" / "product"  # stands for a customer's code base
    }
