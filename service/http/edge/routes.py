"""The route table: every endpoint of every module of the edge.

A module takes part by exporting `ENDPOINTS`. Two endpoints for one method and path, or one without principals, stop
the process from starting (threats 2 and 27).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import service.http
from service.http.declare.bound import Bound
from service.http.declare.endpoint import Endpoint
from service.registry import modules


@cache
def all_endpoints() -> tuple[Endpoint, ...]:
    """Every endpoint, in the order of their modules' names."""
    return tuple(endpoint for module in modules(service.http) for endpoint in getattr(module, "ENDPOINTS", ()))


def bind(endpoints: Iterable[Endpoint]) -> list[Bound]:
    """Make endpoints ready. Raises Undeclared, and ValueError for what is declared twice."""
    bound = [Bound(endpoint) for endpoint in endpoints]
    for names in ([(b.operation.method, b.operation.path) for b in bound], [b.operation.operation_id for b in bound]):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"declared twice: {twice}")
    return bound
