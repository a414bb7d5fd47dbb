"""The route table: every endpoint of every module of the edge, and a place-holder for what is not built.

A module takes part by exporting `ENDPOINTS`. Two endpoints for one method and path, or one without principals, stop
the process from starting (threats 2 and 27).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import service.http
from service.http.edge.declare.bound import Bound
from service.http.edge.declare.endpoint import Endpoint
from service.http.edge.declare.unbuilt import unbuilt_endpoints
from service.registry import modules


def built_endpoints() -> list[Endpoint]:
    """The endpoints that have a handler, in the order of their modules' names."""
    found: list[Endpoint] = []
    for module in modules(service.http):
        found += getattr(module, "ENDPOINTS", [])
    return found


@cache
def all_endpoints() -> tuple[Endpoint, ...]:
    """Every documented or built endpoint."""
    built = built_endpoints()
    return (*built, *unbuilt_endpoints(built))


def bind(endpoints: Iterable[Endpoint]) -> list[Bound]:
    """Make endpoints ready. Raises Undeclared, and ValueError for what is declared twice."""
    bound = [Bound(endpoint) for endpoint in endpoints]
    for names in ([(b.operation.method, b.operation.path) for b in bound], [b.operation.operation_id for b in bound]):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"declared twice: {twice}")
    return bound
