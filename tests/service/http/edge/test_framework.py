"""Litestar is used as its documentation shows it: its routes answer, and nothing private of it is touched."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest
from litestar.handlers import ASGIRouteHandler, HTTPRouteHandler
from litestar.routes import ASGIRoute, HTTPRoute

import service
from service.console import door
from service.http.app import create_app, schema_documents
from service.http.document.openapi import SchemaDocuments
from service.http.edge.framework import Admission, Authentication, may_ask_now, may_reach
from service.http.edge.routes import all_endpoints
from service.http.edge.steps import (
    ADMISSION,
    ADMISSION_ANEW,
    ADMISSION_INSIDE,
    CHECKS,
    CHECKS_ANEW,
    authenticate,
    charge,
    count_in,
    find_project,
    introduce,
    name_ignored,
    recall,
)
from tests.service.http.edge.fakes import FakeStore, fake_services

ROOT = Path(service.__file__).parents[1]
FILES = [file for file in sorted((ROOT / "service").rglob("*.py")) if "litestar" in file.read_text(encoding="utf-8")]


Handler = HTTPRouteHandler | ASGIRouteHandler


@pytest.fixture(scope="module")
def handlers() -> dict[str, Handler]:
    """The route handlers of the operations, by their names."""
    edge = create_app(lambda: fake_services(FakeStore()))
    found: dict[str, Handler] = {}
    for route in edge.app.routes:
        match route:
            case HTTPRoute(route_handlers=several):
                found |= {one.name: one for one in several if one.name is not None}
            case ASGIRoute(route_handler=one) if one.name is not None:
                found[one.name] = one
    return found


def test_every_operation_is_a_route_handler_of_its_own(handlers: dict[str, Handler]) -> None:
    """Under its name, with its method, and with its declaration where guards and middleware find it."""
    for endpoint in all_endpoints():
        operation = endpoint.operation
        handler = handlers[operation.operation_id]
        assert handler.opt["bound"].operation is operation
        if isinstance(handler, HTTPRouteHandler):
            assert operation.method in handler.http_methods
            assert handler.fn is endpoint.handler, "Litestar calls what stands under the declaration"
    assert len(handlers) == len(all_endpoints())


def test_doors_of_the_intake_alone_are_asgi_handlers(handlers: dict[str, Handler]) -> None:
    """They are called for each record. Under a path with parameters Litestar finds no such handler."""
    doors = {name for name, handler in handlers.items() if isinstance(handler, ASGIRouteHandler)}
    assert doors == {
        endpoint.operation.operation_id
        for endpoint in all_endpoints()
        if (endpoint.operation.rate, endpoint.operation.method) == ("ingest", "POST")
        and "{" not in endpoint.operation.path
    }
    assert "record_log" in doors


def test_the_schema_document_is_made_of_the_routes() -> None:
    """An application of three operations documents these three, and no page of the console."""
    few = all_endpoints()[:3]
    served = [*few, *door.ENDPOINTS]
    documents = create_app(lambda: fake_services(FakeStore()), served).app.plugins.get(SchemaDocuments)
    assert [one.operation for one in documents.operations] == [endpoint.operation for endpoint in few]
    assert len(schema_documents().operations) == len(all_endpoints())


def test_the_steps_have_the_order_of_the_rules(handlers: dict[str, Handler]) -> None:
    """In Litestar they are middleware, guards and a dependency; a request without the router passes the same list."""
    for handler in handlers.values():
        if isinstance(handler, ASGIRouteHandler):
            continue
        assert [getattr(one, "middleware", one) for one in handler.resolve_middleware()] == [Authentication, Admission]
        assert handler.resolve_guards() == [may_reach, may_ask_now]
        assert handler.resolve_before_request() is not None
        assert set(handler.resolve_dependencies()) == {"call", "params"}
        assert copy(handler) is handler, "no guard pays for a copy"
    assert (introduce, authenticate, find_project, charge) == CHECKS
    assert CHECKS[:-1] == CHECKS_ANEW
    assert set(ADMISSION_INSIDE) < set(ADMISSION)
    assert [one for one in ADMISSION_ANEW if one is not recall] == [
        one for one in ADMISSION if one not in {name_ignored, count_in}
    ]


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
