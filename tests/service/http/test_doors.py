"""A door parses, calls one command or read, and renders: what more it did would have to be written again elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import service.http
from service.http.edge.routes import all_endpoints

ROOM = Path(service.http.__file__).parent
COMMON = [ROOM / name for name in ("answer", "body", "declare", "edge", "waiting")]
MODULES = [path for path in sorted(ROOM.glob("*/**/*.py")) if not any(room in path.parents for room in COMMON)]
HANDLERS = {endpoint.handler.__name__: endpoint.handler for endpoint in all_endpoints()}
LONGEST = 20  # lines, without the docstring
SQL = re.compile(r"\b(select|insert into|update|delete from)\s", re.IGNORECASE)


def named(path: Path) -> str:
    return str(path.relative_to(ROOM))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return 0 if not body else (body[-1].end_lineno or 0) - body[0].lineno + 1


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_handler_is_short(path: Path) -> None:
    """Twenty lines at the most."""
    long = {f.name: lines_of(f) for f in functions(path) if f.name in HANDLERS and lines_of(f) > LONGEST}
    assert not long


MOST_DECLARED = 1050


def test_declarations_are_few_lines() -> None:
    """All decorators above all handlers."""
    handlers = [function for path in MODULES for function in functions(path) if function.name in HANDLERS]
    declared = sum(
        (decorator.end_lineno or 0) - decorator.lineno + 1
        for function in handlers
        for decorator in function.decorator_list
    )
    assert 0 < declared <= MOST_DECLARED


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_door_decides_nothing(path: Path) -> None:
    """No function within a function: what runs under the locks belongs to an area's commands."""
    inner = [
        f"{f.name}.{node.name}"
        for f in functions(path)
        for node in ast.walk(f)
        if node is not f and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert not inner


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_a_door_asks_the_database_nothing(path: Path) -> None:
    """Queries belong to an area's reads."""
    docs: set[Any] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            docs.add(getattr(node.body[0], "value", None))
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert not [node.value for node in texts if node not in docs and SQL.match(node.value.lstrip())]
