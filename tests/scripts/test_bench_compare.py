"""Two revisions are measured in turns, each by its own bench in its own environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench import compare
from scripts.bench.__main__ import PARTS
from scripts.bench.compare import RowValue
from scripts.bench.figures import Figures

MAKEFILE = "setup:\n\t@mkdir -p .venv/bin && ln -sf $(PYTHON) .venv/bin/python\n"
BENCH = """
import pathlib, sys
with pathlib.Path({log!r}).open("a") as log:
    print({side!r}, *sys.argv[1:], file=log)
print("  fenced transitions over HTTP, 64 clients: {rate} /s, ratio 1.20 (>= 1.8)")
print("  p99 against p50, 16 clients: {late} ms, ratio 7.00 (<= 5)")
sys.exit(1)
"""


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits, whose benches tell other figures, and the environment of the second one."""
    root, log = tmp_path / "repository", str(tmp_path / "log")
    bench = root / "scripts" / "bench"
    bench.mkdir(parents=True)
    git(root, "init", "--quiet")
    (root / "Makefile").write_text(MAKEFILE)
    (root / ".gitignore").write_text(".venv\n")
    for side, rate, late in (("old", "1,000.0", "10.0"), ("new", "800.0", "5.0")):
        (bench / "__main__.py").write_text(BENCH.format(log=log, side=side, rate=rate, late=late))
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", side)
    subprocess.run(["make", "--silent", "setup", f"PYTHON={sys.executable}"], cwd=root, check=True)
    return root


def test_both_sides_run_in_turns_and_their_ratios_are_printed(
    repository: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = ["--rows", "transitions-64", "tail", "start"]
    assert compare.main(["HEAD~1", *rows, "--turns", "2", "--seconds", "0.5"], repository) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "transitions-64 1,000.0 800.0 0.80",
        f"warning: transitions-64 is at 0.80 of {lines[0].split()[1]} {lines[0].split()[2]}, below 0.85",
        "tail 10.0 5.0 2.00",
        "start not measured by both",
    ]
    called = (tmp_path / "log").read_text().splitlines()
    assert called == [f"{side} transitions start --seconds 0.5" for side in ("old", "new") * 2]
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_the_last_tag_is_compared_when_there_is_one(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert compare.main([], repository) == 0
    assert capfd.readouterr().out == "bench-compare: there is no tag to compare with; skipped\n"
    git(repository, "tag", "v1", "HEAD~1")
    assert compare.main(["--turns", "1"], repository) == 0
    assert capfd.readouterr().out.splitlines()[0].split()[1] == "v1"


def test_a_bench_without_the_rows_ends_the_comparison(repository: Path) -> None:
    with pytest.raises(SystemExit, match="measured none of chains"):
        compare.main(["HEAD~1", "--rows", "chains"], repository)
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_figures_are_read_as_the_bench_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    figures = Figures()
    figures.add(compare.ROWS["errors"].begin + ", to an echo", 1234.56, "/s", yardstick=2000, promised=0.5)
    figures.add(compare.ROWS["memory"].begin + " (PSS)", 99.0, "MB", yardstick=1, promised=140, most=True)
    figures.add(compare.ROWS["rebuild"].begin + ", 10 of a core", 7, "% of a core", yardstick=7, promised=1)
    found = compare.read(capsys.readouterr().out, list(compare.ROWS))
    assert found == {"errors": RowValue(1234.6, False), "memory": RowValue(99.0, True), "rebuild": RowValue(7.0, False)}


def test_each_row_has_a_part() -> None:
    assert {row.part for row in compare.ROWS.values()} <= PARTS.keys()
