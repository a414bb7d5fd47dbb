"""Figures of the docstrings, by folder, and the ceilings they must stay under.

`python -m scripts.docstrings` lowers each ceiling to the figure of today, and never raises one.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("service", "statemachines", "projections", "schemas")
FILE = ROOT / "tests" / "docs" / "docstrings.txt"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
CLAUSE = re.compile(r"\b(?:that|which|what|who|whose|whom)\b", re.IGNORECASE)


class Density(NamedTuple):
    """Semicolons and relative clauses of docstrings, per 1,000 words."""

    semicolons: float
    clauses: float


GOAL = Density(6.0, 32.0)
"""Density any folder may reach, whatever its ceilings."""


def measure(text: str) -> Density:
    """The figures of a text. One without words has none."""
    words = max(len(WORD.findall(text)), 1)
    return Density(round(1000 * text.count(";") / words, 1), round(1000 * len(CLAUSE.findall(text)) / words, 1))


def folders() -> dict[str, list[Path]]:
    """The Python files of each folder, by its path."""
    found: dict[str, list[Path]] = defaultdict(list)
    for room in ROOMS:
        for file in (ROOT / room).rglob("*.py"):
            found[file.parent.relative_to(ROOT).as_posix()].append(file)
    return found


def figures() -> dict[str, Density]:
    """The figures of each folder with Python files, by its path."""
    return {folder: figure(files) for folder, files in folders().items()}


def figure(files: Iterable[Path]) -> Density:
    """The figures of some files."""
    return measure("\n".join(text for file in files for text in _docstrings(file)))


def ceilings() -> dict[str, Density]:
    """The recorded ceilings, by folder."""
    rows = (line.split() for line in FILE.read_text(encoding="utf-8").splitlines())
    return {folder: Density(float(semicolons), float(clauses)) for folder, semicolons, clauses in rows}


def lowered(recorded: dict[str, Density], measured: dict[str, Density]) -> dict[str, Density]:
    """The lower of both, never below the goal, for folders above it. A folder without a ceiling gets none."""
    found = {}
    for folder, now in measured.items():
        old = recorded.get(folder, GOAL)
        kept = Density(
            max(min(old.semicolons, now.semicolons), GOAL.semicolons), max(min(old.clauses, now.clauses), GOAL.clauses)
        )
        if kept != GOAL:
            found[folder] = kept
    return found


def _docstrings(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, DOCUMENTED):
            yield ast.get_docstring(node) or ""


def write(kept: dict[str, Density]) -> None:
    """Write the ceilings, a folder a line: its path, semicolons, clauses."""
    lines = [f"{folder} {semicolons} {clauses}\n" for folder, (semicolons, clauses) in sorted(kept.items())]
    FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    write(lowered(ceilings(), figures()))
