"""Add new files to tests/golden: an example of each event, the names of what is found by import, and the interface.

`python -m scripts.golden answers` writes anew what the interface answers to bad requests: every operation is sent some
hundred of them and one in order, by a real server after a tour of the interface. Read the difference before a commit.

A golden event is what the released code has written: it may be in somebody's history, and must stay readable. There is
one file for each version of a topic, and this only ever adds files: when an event gets another version, with a step
that lifts the older one, the file of the older one stays and is read through that step.

Machines, read models, endpoints, tasks and topics are found wherever a module declares them. A module that is not found
would take its part along without a word, so names too are only ever added here: one that goes is taken out by hand.
What the schema document promises is kept as it is now, unless it took back something that was promised before.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scripts import interface, permissions  # noqa: E402
from service.embedded.layout import temporary_directory  # noqa: E402
from service.eventstore.read.stored import canonical  # noqa: E402
from service.http.edge.routes import all_endpoints  # noqa: E402
from service.jobs import declared  # noqa: E402
from service.registry import machines, read_models  # noqa: E402
from statemachines.kernel.machine import Event  # noqa: E402
from statemachines.kernel.topics import EVENTS, LIFTS, Lift  # noqa: E402
from tests.golden.recorded.keeping import keep  # noqa: E402
from tests.golden.recorded.recording import record  # noqa: E402
from tests.support.cluster import TestCluster  # noqa: E402

GOLDEN = ROOT / "tests" / "golden" / "events"
NAMES = ROOT / "tests" / "golden" / "names"
MOMENT = 1_800_000_000
SHA256 = "0123456789abcdef" * 4


def events() -> dict[str, type[Event]]:
    """Every event of the product by topic."""
    machines()  # Imports every module that declares some.
    return {topic: event for topic, event in sorted(EVENTS.items()) if event.__module__.startswith("statemachines.")}


def lifted() -> dict[str, Lift]:
    """Every older version of an event of the product by topic, with the step that lifts it."""
    machines()  # Imports every module that declares some.
    return {topic: step for topic, step in sorted(LIFTS.items()) if step.__module__.startswith("statemachines.")}


def versions(latest: Iterable[str], older: Mapping[str, Lift]) -> set[str]:
    """Every topic under which a history may hold an event: each has its golden file."""
    return {*latest, *older}


def found() -> dict[str, set[str]]:
    """The declared names of the rooms, by kind."""
    tasks, reactions = declared()
    endpoints = (endpoint.operation for endpoint in all_endpoints())
    return {
        "machines": set(machines()),
        "read_models": set(read_models()),
        "endpoints": {f"{operation.method} {operation.path} {operation.operation_id}" for operation in endpoints},
        "permissions": permissions.lines(),
        "freshness": permissions.freshness(),
        "tasks": {task.name for task in tasks} | {f"on {topic}" for topic in reactions},
        "topics": versions(events(), lifted()),
    }


def kept(kind: str) -> set[str]:
    """The names of a kind as they are in its golden file."""
    path = NAMES / f"{kind}.txt"
    return set(path.read_text().splitlines()) if path.exists() else set()


def example(kind: Any, name: str) -> Any:
    """Make a JSON value of a type: never empty, derived from the field's name."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        return example(next(option for option in arguments if option is not types.NoneType), name)
    if origin is Literal:
        return arguments[0]
    if origin in {list, tuple, set, frozenset}:
        return [example(arguments[0], name.removesuffix("s"))]
    if origin is dict:
        return {"key": example(arguments[1], name)}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.encode_name: example(field.type, field.name) for field in msgspec.structs.fields(kind)}
    return plain_example(kind, name)


def plain_example(kind: Any, name: str) -> Any:
    """Make a scalar value."""
    text = SHA256 if name.endswith(("hash", "sha256", "digest")) else f"{name}_1"
    number = MOMENT if name.endswith(("_at", "_until")) else 1
    values = {bool: True, int: number, str: text, Any: {"key": name}}
    assert kind in values, f"no example for {kind!r}"
    return values[kind]


def record_answers() -> None:
    """Record the answers to bad requests, and keep them."""
    directory = temporary_directory("answers-")
    cluster = TestCluster(directory / "data")
    try:
        keep(record(cluster, directory))
    finally:
        cluster.close()


def main() -> None:
    """Write the missing files, and print their names. Or record answers."""
    if sys.argv[1:] == ["answers"]:
        record_answers()
        return
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for topic, event in events().items():
        path = GOLDEN / f"{topic}.json"
        if not path.exists():
            made = msgspec.convert(example(event, ""), event)
            path.write_bytes(canonical(made))
            print(f"added {path.relative_to(ROOT)}")
    NAMES.mkdir(parents=True, exist_ok=True)
    for kind, names in found().items():
        new = names - kept(kind)
        (NAMES / f"{kind}.txt").write_text("".join(f"{name}\n" for name in sorted(names | kept(kind))))
        print(*(f"added {kind} {name}" for name in sorted(new)), sep="\n", end="\n" if new else "")
    promised = interface.promised()
    faults = interface.broken(interface.kept(), promised)
    if faults:
        sys.exit("\n".join(["The interface takes back what it promised:", *faults]))
    interface.write(promised)


if __name__ == "__main__":
    main()
