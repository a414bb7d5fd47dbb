"""Litestar is used as its documentation shows it: its routes answer, and nothing private of it is touched."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

import service
from service.http.edge.app import create_app
from service.http.edge.routes import all_endpoints
from tests.service.http.edge.fakes import FakeStore, fake_services

ROOT = Path(service.__file__).parents[1]
FILES = [file for file in sorted((ROOT / "service").rglob("*.py")) if "litestar" in file.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def handlers() -> dict[str, HTTPRouteHandler]:
    """The route handlers of the application, by their names."""
    edge = create_app(lambda: fake_services(FakeStore()))
    routes = [route for route in edge.app.routes if isinstance(route, HTTPRoute)]
    return {handler.name or "": handler for route in routes for handler in route.route_handlers}


def test_every_operation_is_a_route_handler_of_its_own(handlers: dict[str, HTTPRouteHandler]) -> None:
    """Under its name, with its method, and with its declaration where guards and middleware find it."""
    for endpoint in all_endpoints():
        operation = endpoint.operation
        handler = handlers[operation.operation_id]
        assert operation.method in handler.http_methods
        assert handler.opt["bound"].operation is operation
    assert len(handlers) == len(all_endpoints()) + 1, "and one answers OPTIONS on all paths"


def imported(tree: ast.Module) -> Iterator[str]:
    """The dotted names of Litestar's that a module imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name.partition(".")[0] == "litestar")
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] == "litestar":
                yield from (f"{module}.{name.name}" for name in names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_nothing_private_of_it_is_imported_or_overridden(file: Path) -> None:
    """No module, no name, and no member of a class of it that begins with an underscore."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert not [name for name in imported(tree) if any(part.startswith("_") for part in name.split("."))]
    theirs = {name.rpartition(".")[2]: name for name in imported(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id in theirs:
                    module, _, name = theirs[base.id].rpartition(".")
                    members = dir(getattr(importlib.import_module(module), name))
                    ours = [one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
                    private = [one for one in ours if one.startswith("_") and not one.startswith("__")]
                    assert not set(private) & set(members), f"{node.name} overrides what is private in {base.id}"
