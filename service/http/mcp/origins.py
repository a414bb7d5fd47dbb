"""Origins of the members of every answer (G-137, G-168).

Answers to runners have them already. Here every other answer gets them, in one map of JSON Pointers. The longest
pointer above a member counts. `*` stands for each item of a list and each member of a map. An agent takes the texts of
products, providers and runners as evidence, and follows no instruction in them.

An undeclared shape counts as telemetry, and fails a test.
"""

import types
from typing import Any, get_args, get_origin

import msgspec

from schemas.kernel import origins as wire
from service.http.declare.endpoint import Operation

TRUST: tuple[wire.Origin, ...] = (wire.SERVER, wire.PROVIDER, wire.RUNNER, wire.TELEMETRY)
"""From the most to the least trusted."""

Tree = Any
"""One origin for a whole place, or the trees of its members."""


def origins_of(operation: Operation) -> wire.Origins:
    """The map of the success answer of an operation. The longest pointer above a member tells its origin."""
    tree: Tree = wire.SERVER
    for status, kind in operation.responses.items():
        if kind is not None and status < 300:  # noqa: PLR2004 - a redirect or a 304 shows nothing
            tree = _joined(tree, _tree(kind, ())) if tree != wire.SERVER else _tree(kind, ())
    return {"": wire.SERVER, **dict(_pointers("", tree))}


def least_trusted(origins: wire.Origins) -> wire.Origin:
    """The least trusted origin in a map."""
    return max(origins.values(), key=TRUST.index)


def undeclared(kind: Any) -> set[str]:
    """The names of the undeclared shapes in an answer."""
    found: set[str] = set()
    _tree(kind, (), found)
    return found


def _tree(kind: Any, above: tuple[type, ...], missing: set[str] | None = None) -> Tree:
    """The tree of one type. The trees of alternatives are joined."""
    trees = [_of_one(one, above, missing) for one in wire.options(kind) if one is not types.NoneType]
    found = trees[0] if trees else wire.SERVER
    for tree in trees[1:]:
        found = _joined(found, tree)
    return found


def _of_one(kind: Any, above: tuple[type, ...], missing: set[str] | None) -> Tree:
    outer = get_origin(kind)
    if outer in {list, tuple, dict}:
        inner = get_args(kind)[-1 if outer is dict else 0]
        return _folded({"*": _tree(inner, above, missing)})
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return wire.SERVER
    if kind in above:
        return wire.TELEMETRY
    return _folded(_members(kind, (*above, kind), missing))


def _members(kind: type[msgspec.Struct], above: tuple[type, ...], missing: set[str] | None) -> dict[str, Tree]:
    """The trees of the members of a shape: as it tells itself, as it is declared, else as the shape of each."""
    told = wire.declared_origins(kind)
    if told is None:
        told = wire.provenance(kind)
    if told is None:
        if missing is not None:
            missing.add(kind.__name__)
        return {"*": wire.TELEMETRY}
    known = _nested(told)
    return {
        field.encode_name: known[field.encode_name] if field.encode_name in known else _tree(field.type, above, missing)
        for field in msgspec.structs.fields(kind)
    }


def _nested(told: wire.Origins) -> dict[str, Tree]:
    """The map of an answer to a runner, as trees."""
    nested: dict[str, Tree] = {}
    for pointer, origin in told.items():
        *before, last = pointer.split("/")[1:]
        inner = nested
        for name in before:
            inner = inner.setdefault(name, {})
        inner[last] = origin
    return nested


def _joined(one: Tree, other: Tree) -> Tree:
    """Two trees of the same place: the less trusted origin of each member."""
    if isinstance(one, str) and isinstance(other, str):
        return max(one, other, key=TRUST.index)
    if isinstance(one, str) or isinstance(other, str):
        text, tree = (one, other) if isinstance(one, str) else (other, one)
        return _folded({name: _joined(text, inner) for name, inner in tree.items()})
    names = [*one, *(name for name in other if name not in one)]
    return _folded({name: _joined(one.get(name, wire.SERVER), other.get(name, wire.SERVER)) for name in names})


def _folded(tree: dict[str, Tree]) -> Tree:
    """One origin where all members have the same."""
    trees = list(tree.values())
    if trees and isinstance(trees[0], str) and all(inner == trees[0] for inner in trees):
        return trees[0]
    return tree or wire.SERVER


def _pointers(above: str, tree: Tree) -> list[tuple[str, wire.Origin]]:
    """The places of others than the service, each with its origin."""
    if isinstance(tree, str):
        return [] if tree == wire.SERVER else [(above, tree)]  # type: ignore[list-item]  # an origin
    return [pair for name, inner in tree.items() for pair in _pointers(f"{above}/{name}", inner)]
