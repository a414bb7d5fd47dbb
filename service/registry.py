"""Every machine and every read model, found by importing their rooms: a module that exists is a module that counts.

Modules in folders count like those beside them, at any depth.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import projections
import statemachines
from projections.kernel import AnyProjection, Projection
from service.eventstore.state.unit import Registry
from statemachines.kernel.machine import StateMachine
from statemachines.kernel.topics import check_topics


def modules(room: ModuleType) -> Iterator[ModuleType]:
    """Import every module below a package, in the order of their names. An import that fails stops the start."""
    for name in sorted(found.name for found in pkgutil.walk_packages(room.__path__, room.__name__ + ".", _raise)):
        yield importlib.import_module(name)


def _raise(_: str) -> None:
    """Let a package that cannot be imported stop the start: walk_packages would leave its modules out."""
    raise  # noqa: PLE0704 - called while the error is handled


@cache
def machines() -> dict[str, StateMachine[Any]]:
    """Return the machines by stream kind. Two of one kind are a bug that stops the start."""
    found: dict[str, StateMachine[Any]] = {}
    for module in modules(statemachines):
        for value in vars(module).values():
            if isinstance(value, StateMachine):
                assert found.setdefault(value.kind, value) is value, f"two machines write {value.kind} streams"
    return dict(sorted(found.items()))


@cache
def read_models() -> dict[str, AnyProjection]:
    """Return the projections by table name. Two over one table are a bug that stops the start."""
    found: dict[str, AnyProjection] = {}
    for module in modules(projections):
        for value in vars(module).values():
            if isinstance(value, Projection):
                assert found.setdefault(value.name, value) is value, f"two projections write {value.name}"
    return dict(sorted(found.items()))


@cache
def registry() -> Registry:
    """Return what the command loop needs: machines, and inline projections by stream kind.

    Raises TopicFault when the declared versions of an event do not reach from the first to the latest.
    """
    check_topics()
    inline: dict[str, tuple[AnyProjection, ...]] = {}
    for projection in read_models().values():
        for kind in projection.kinds:
            inline[kind] = (*inline.get(kind, ()), projection)
    return Registry(machines(), inline)
