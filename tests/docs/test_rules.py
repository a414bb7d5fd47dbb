"""docs/reference/rules.md explains every rule, promise and threat that the code names, and links tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("service", "statemachines", "projections", "schemas", "tests", "scripts")
SUFFIXES = {".py", ".sql", ".mjs"}

MAX_RULE = 150
MAX_ROW = 200  # without the links

RULE = re.compile(r"\b(R-[A-Z]+-|[CG]-)(\d+)(?:(?:\s+to\s+|\.\.)(?:R-[A-Z]+-|[CG]-)?(\d+))?\b")
PROMISE = re.compile(r"\bP(\d{1,2})\b")
THREAT = re.compile(r"\bthreats? (\d+)(?: and (\d+))?\b")
ROW = re.compile(r"^\| ((?:R-[A-Z]+-|[CG]-|P|threat )\d+) \| (.+) \| (.+) \|$")
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


def ids_in(text: str) -> Iterator[str]:
    """Every id that a text names; a range names each id in it."""
    for prefix, first, last in RULE.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}{number:0{len(first)}d}"
    for number in PROMISE.findall(text):
        yield f"P{number}"
    for numbers in THREAT.findall(text):
        yield from (f"threat {number}" for number in numbers if number)


@cache
def named_ids() -> set[str]:
    files = (path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES)
    return {found for path in files for found in ids_in(path.read_text())}


LINES = (ROOT / "docs" / "reference" / "rules.md").read_text().splitlines()
ROWS = [match.groups() for match in map(ROW.match, LINES) if match]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Names of the test functions of a file, and `Class::method` of its test classes."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef))
            found.update(f"{node.name}::{method.name}" for method in methods)
    return frozenset(found)


def homes_of(test: str) -> list[str]:
    """Files that hold a test of this name: where a link that broke should lead."""
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py") if test in names_in(path))


def test_a_range_names_every_id_in_it() -> None:
    """Written out, shortened, over the end of a line, and in a list."""
    assert list(ids_in("R-AUT-20 to R-AUT-22")) == ["R-AUT-20", "R-AUT-21", "R-AUT-22"]
    assert list(ids_in("R-AUT-38..40, G-105..G-106")) == ["R-AUT-38", "R-AUT-39", "R-AUT-40", "G-105", "G-106"]
    assert list(ids_in("G-025\nto G-026, R-AUT-30, P5, threats 1 and 2")) == [
        "G-025", "G-026", "R-AUT-30", "P5", "threat 1", "threat 2",
    ]  # fmt: skip
    assert list(ids_in("R-AUT, R-ERR-*, PLR2004")) == []


def test_every_id_that_the_code_names_is_explained_once() -> None:
    """No id is missing, none is there twice, and none is there that nothing names any more."""
    listed = [name for name, _, _ in ROWS]
    named = named_ids()
    assert sorted(named - set(listed)) == [], "name them in docs/reference/rules.md"
    assert sorted(set(listed) - named) == [], "nothing names them any more: take them out of docs/reference/rules.md"
    assert sorted(name for name in set(listed) if listed.count(name) > 1) == []


def test_every_line_of_a_table_is_a_row() -> None:
    """A line that the pattern does not read would not be checked."""
    tables = [line for line in LINES if line.startswith("|") and not line.startswith(("| Id ", "| --- "))]
    assert [line for line in tables if not ROW.match(line)] == []


def test_every_rule_is_held_by_tests_that_exist() -> None:
    """A row links tests and says nothing else; a link names a file and a test in it, and leads to that file."""
    for name, _, held in ROWS:
        links = LINK.findall(held)
        assert links, name
        assert set(LINK.sub("", held)) <= {",", " "}, f"{name}: what no test holds belongs into no row"
        for shown, target in links:
            path, _, test = shown.partition("::")
            assert target == f"../../{path}", name
            assert (ROOT / path).is_file(), f"{name}: {path} is not there, but {homes_of(test)}"
            assert test in names_in(ROOT / path), f"{name}: {shown} is not there, but {homes_of(test)}"


def test_a_rule_is_a_short_sentence() -> None:
    for name, rule, held in ROWS:
        assert len(rule) <= MAX_RULE, name
        assert len(name + rule + LINK.sub("", held)) <= MAX_ROW, name
        assert rule.endswith("."), name
