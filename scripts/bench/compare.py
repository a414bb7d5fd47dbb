"""`make bench-compare REV=…`: rows of the bench at another revision and at this one, in turns on one machine.

The other revision gets a worktree in a temporary directory and an environment of its own, by `make setup`. Each side
runs its own bench. The sides take turns, the first of them at the other revision, and the median turn of each counts. A
ratio above 1 is a gain, also of figures of which less is better.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from service.embedded.layout import temporary_directory

ROOT = Path(__file__).parents[2]
LEAST = 0.85
"""A ratio below is a warning."""
_FIGURE = re.compile(r"  (?P<name>.+): (?P<value>[\d,.]+) (?:\S+ )*?\S*, ratio [\d.]+ \((?P<sign>[<>])= [\d.]+\)")


class ComparedRow(NamedTuple):
    """A figure of the bench: the part that measures it, and how its name begins."""

    part: str
    begin: str


class RowValue(NamedTuple):
    """A value of a row, and whether less of it is better."""

    value: float
    less: bool


ROWS = {
    "transitions-16": ComparedRow("transitions", "fenced transitions over HTTP, 16 clients"),
    "transitions-64": ComparedRow("transitions", "fenced transitions over HTTP, 64 clients"),
    "tail": ComparedRow("transitions", "p99 against p50, 16 clients"),
    "errors": ComparedRow("ingest", "errors of 300 B, durable and in their cases"),
    "large-errors": ComparedRow("large", "errors of 15 kB, durable and in their cases"),
    "batches": ComparedRow("batches", "batched records, durable and in their cases"),
    "otlp": ComparedRow("batches", "OpenTelemetry records, durable and in their cases"),
    "chains": ComparedRow("chains", "self-healing chains"),
    "rebuild": ComparedRow("rebuild", "rebuild"),
    "start": ComparedRow("start", "start to first 2xx"),
    "memory": ComparedRow("start", "idle API process"),
}
FEW = ("transitions-16", "transitions-64", "batches", "otlp")
"""What is compared when no row is named: whole loads. A turn of both sides at two seconds a load takes a minute."""


def read(output: str, rows: Sequence[str]) -> dict[str, RowValue]:
    """The values of rows in the output of a bench. One that it does not have is left out."""
    found: dict[str, RowValue] = {}
    for line in output.splitlines():
        if (figure := _FIGURE.fullmatch(line.rstrip())) is not None:
            value = RowValue(float(figure["value"].replace(",", "")), figure["sign"] == "<")
            found.update((name, value) for name in rows if figure["name"].startswith(ROWS[name].begin))
    return found


def run(tree: Path, rows: Sequence[str], seconds: float) -> dict[str, RowValue]:
    """Run the bench of a tree once. Raises SystemExit for one that measures none of the rows."""
    parts = list(dict.fromkeys(ROWS[name].part for name in rows))
    command = [str(tree / ".venv/bin/python"), "-m", "scripts.bench", *parts, "--seconds", f"{seconds:g}"]
    done = subprocess.run(command, cwd=tree, env=_environment(), stdout=subprocess.PIPE, text=True, check=False)
    found = read(done.stdout, rows)
    if not found:
        raise SystemExit(f"the bench in {tree} measured none of {', '.join(rows)}:\n{done.stdout}")
    return found


@contextmanager
def built(root: Path, revision: str) -> Iterator[Path]:
    """A worktree of a revision with its environment, for a block. Raises CalledProcessError."""
    directory = temporary_directory("bench-compare-")  # PostgreSQL's user has to pass through it
    tree = directory / "tree"
    try:
        _git(root, "worktree", "add", "--quiet", "--detach", str(tree), revision)
        command = ["make", "--silent", "setup", f"PYTHON={sys.executable}"]
        subprocess.run(command, cwd=tree, env=_environment(), check=True, stdout=sys.stderr)
        yield tree
    finally:
        shutil.rmtree(directory)
        _git(root, "worktree", "prune")


def compared(
    before: Sequence[Mapping[str, RowValue]], now: Sequence[Mapping[str, RowValue]], rows: Sequence[str]
) -> dict[str, tuple[float, float, float]]:
    """Of each row both medians, and the ratio of now to before. One that a side does not have is left out."""
    found = {}
    for name in rows:
        values = [[turn[name] for turn in side if name in turn] for side in (before, now)]
        if all(values):
            then, here = (median(one.value for one in side) for side in values)
            found[name] = (then, here, then / here if values[1][0].less else here / then)
    return found


def last_tag(root: Path) -> str | None:
    """The last tag before the present commit."""
    command = ["git", "describe", "--tags", "--abbrev=0"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def _environment() -> dict[str, str]:
    """That of this process, without what makes a nested make or Python another one."""
    left_out = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Compare; 0 also where something became slower, which is a line that begins with `warning`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?", help="default: the last tag; without any nothing is compared")
    parser.add_argument("--rows", nargs="+", choices=sorted(ROWS), default=list(FEW))
    parser.add_argument("--turns", type=int, default=3, help="of each side")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each load")
    asked = parser.parse_args(arguments)
    revision = asked.revision or last_tag(root)
    if revision is None:
        print("bench-compare: there is no tag to compare with; skipped")
        return 0
    name = f"{revision} ({_git(root, 'rev-parse', '--short', f'{revision}^{{commit}}')})"
    before, now = [], []
    with built(root, revision) as tree:
        for turn in range(asked.turns):
            print(f"turn {turn + 1} of {asked.turns}", file=sys.stderr)
            before.append(run(tree, asked.rows, asked.seconds))
            now.append(run(root, asked.rows, asked.seconds))
    ratios = compared(before, now, asked.rows)
    print(f"{'row':<16}{name:>24}{'now':>14}{'ratio':>8}")
    for row in asked.rows:
        if row not in ratios:
            print(f"{row:<16}not measured by both")
            continue
        then, here, ratio = ratios[row]
        print(f"{row:<16}{then:>24,.1f}{here:>14,.1f}{ratio:>8.2f}")
        if ratio < LEAST:
            print(f"warning: {row} is at {ratio:.2f} of {name}, below {LEAST}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
