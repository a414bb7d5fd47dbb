"""Each machine's module reads in one order under the same names, and no name in the room means two things."""

from __future__ import annotations

import ast
import inspect
from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import Enum
from functools import cache
from types import ModuleType

import pytest
from msgspec import inspect as inspection
from transitions import Machine

import statemachines
from service.registry import machines, modules
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream
from statemachines.kernel.topics import EVENTS

ORDER = ("stream", "Status", "events", "TABLE", "state", "refusals", "decisions", "evolve", "MACHINE")
"""The parts of a machine's module as they follow one another. What is none of them stands where it is needed."""

SINGLE = ("stream", "Status", "TABLE", "state", "evolve", "MACHINE")
"""The parts that a module has exactly once."""


@cache
def room() -> dict[str, ModuleType]:
    """The modules of the room by name."""
    return {module.__name__: module for module in modules(statemachines)}


def owner(machine: StateMachine) -> str:
    """The module that a machine is made in: its fold stands there too."""
    return machine.evolve.__module__


HOMES = sorted({owner(machine) for machine in machines().values()})


def own_classes() -> Iterator[type]:
    """Every class that the room defines, in the module that defines it."""
    for module in room().values():
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


def part_of(node: ast.stmt, module: ModuleType) -> str | None:
    """Which part of the skeleton a statement is, None for what is none."""
    match node:
        case ast.FunctionDef(name="stream" | "evolve" as name):
            return name
        case ast.FunctionDef(name=name) if name == "decide" or name.startswith("decide_"):
            return "decisions"
        case ast.Assign(targets=targets):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            return next((name for name in names if name in ("TABLE", "MACHINE")), None)
        case ast.ClassDef(name=name):
            return part_of_class(getattr(module, name), module)
        case _:
            return None


def part_of_class(kind: type, module: ModuleType) -> str | None:
    """Which part of the skeleton a class is."""
    if kind.__name__ == "Status":
        return "Status"
    if issubclass(kind, Event):
        return "events"
    if issubclass(kind, Rejection):
        return "refusals"
    return "state" if kind is module.MACHINE.state_type else None


def faults(module: ModuleType) -> list[str]:
    """What keeps a module from the skeleton."""
    missing = [name for name in ("stream", "Status", "TABLE", "evolve", "MACHINE") if name not in vars(module)]
    if missing:
        return [f"it has no {name}" for name in missing]
    machine = module.MACHINE
    parts = [part for node in ast.parse(inspect.getsource(module)).body if (part := part_of(node, module))]
    found = [] if ast.get_docstring(ast.parse(inspect.getsource(module))) else ["it does not say what it is"]
    found += [f"it has {parts.count(name)} of {name}" for name in SINGLE if parts.count(name) != 1]
    if sorted(parts, key=ORDER.index) != parts:
        found.append(f"its parts stand as {list(dict.fromkeys(parts))}")
    if not (isinstance(machine, StateMachine) and machine.table is module.TABLE and isinstance(module.TABLE, Machine)):
        found.append("its TABLE is not that of its MACHINE")
    if machine.evolve is not module.evolve or not issubclass(module.Status, Enum):
        found.append("its evolve or Status is not that of its MACHINE")
    if machine.initial.status not in module.Status:
        found.append("its MACHINE begins outside its Status")
    if inspect.signature(module.stream).return_annotation not in (Stream, "Stream"):
        found.append("its stream() is no Stream")
    others = [name for name, value in vars(module).items() if isinstance(value, StateMachine) and name != "MACHINE"]
    return [*found, *(f"it calls a machine {name}" for name in others)]


@pytest.mark.parametrize("name", HOMES)
def test_a_machine_has_the_skeleton(name: str):
    """stream, Status, events, TABLE, state, refusals, decisions, evolve, MACHINE: each once, in this order."""
    assert faults(room()[name]) == []


def test_no_class_has_the_name_of_another():
    """An event, a state, a refusal, whatever else: only Status is every machine's."""
    modules_of = defaultdict(set)
    for kind in own_classes():
        modules_of[kind.__name__].add(kind.__module__)
    twice = {name: sorted(where) for name, where in modules_of.items() if len(where) > 1 and name != "Status"}
    assert twice == {}


def test_an_event_has_one_topic():
    """A class name stands for one topic, its versions aside."""
    topics = Counter(
        (kind.__name__, topic.rpartition(".v")[0])
        for topic, kind in EVENTS.items()
        if kind.__module__.startswith("statemachines.")
    )
    names = Counter(name for name, _ in topics)
    assert {name for name, count in names.items() if count > 1} == set()


def test_no_event_holds_a_struct_of_the_wire():
    """Storage has shapes of its own, so that a change on the wire cannot change history."""
    held = {
        (topic, cls.__module__) for topic, event in EVENTS.items() for cls in structs_in(inspection.type_info(event))
    }
    assert {(topic, module) for topic, module in held if module.startswith("schemas.")} == set()


def structs_in(found: inspection.Type) -> Iterator[type]:
    """The structs that a type is made of, at any depth."""
    parts: list[inspection.Type] = []
    match found:
        case inspection.StructType(cls=cls, fields=fields):
            yield cls
            parts += [field.type for field in fields]
        case inspection.UnionType(types=types):
            parts += types
        case inspection.TupleType(item_types=types):
            parts += types
        case inspection.ListType(item_type=part) | inspection.VarTupleType(item_type=part):
            parts.append(part)
        case inspection.DictType(key_type=key, value_type=value):
            parts += [key, value]
    for part in parts:
        yield from structs_in(part)
