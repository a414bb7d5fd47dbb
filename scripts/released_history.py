"""Keep the history of a release, and what it folded to: what every later release must still read in the same way.

`python -m scripts.released_history tests/golden/releases/NAME` runs the demo from the present sources and writes

    history.jsonl.gz   its log, as `service events export` writes it
    folded.jsonl.gz    every state, row and decision that the log folds to, each with its digest
    schemas.json       the JSON Schema of what is stored under each topic, as `service events schemas --json` prints it

Nothing in it is anybody's: the demo's people, products and secrets are made up, and its keys are gone with it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from service.demo.story import tell  # noqa: E402
from service.demo.theatre.scene import Scene  # noqa: E402
from service.demo.theatre.stage import Stage  # noqa: E402
from service.demo.theatre.world import World  # noqa: E402
from service.eventstore.read.stored import LogEvent, canonical  # noqa: E402
from service.registry import machines, read_models  # noqa: E402
from service.testing.installation import find_node  # noqa: E402
from statemachines.kernel.machine import replay  # noqa: E402
from statemachines.kernel.topics import schemas  # noqa: E402
from statemachines.runs.materiality import MaterialityDecision, decide_materiality  # noqa: E402

RELEASES = ROOT / "tests" / "golden" / "releases"


class Result(NamedTuple):
    """Something that a history folds to: what it is, and its value (None: a stream without a row)."""

    what: str  # state <kind> <stream>, row <table> <stream>, decision <stream> <member>
    value: Any


class Kept(msgspec.Struct, frozen=True):
    """A result as it was kept: `digest` is the hex SHA-256 of the canonical `value`."""

    what: str
    digest: str
    value: Any


def parse(line: bytes) -> LogEvent:
    """Read an exported event back as it was stored."""
    fields: dict[str, Any] = msgspec.json.decode(line)
    payload = fields["payload"]
    hashes = {name: bytes.fromhex(fields[name]) for name in ("salt", "payload_hash", "leaf", "chain")}
    changed = {
        "payload": None if payload is None else canonical(payload).decode(),
        "recorded_at": datetime.fromisoformat(fields["recorded_at"]),
    }
    return LogEvent(**{**fields, **hashes, **changed})


def by_stream(events: Iterable[LogEvent]) -> dict[tuple[str, str], list[LogEvent]]:
    """Sort a log by streams, each in its order."""
    streams: dict[tuple[str, str], list[LogEvent]] = {}
    for event in events:
        streams.setdefault((event.project_id, event.stream_id), []).append(event)
    return streams


def fold(events: Iterable[LogEvent]) -> Iterator[Result]:
    """Fold a log into everything that it determines: without a database, by the machines and read models alone."""
    for (_, stream_id), history in by_stream(events).items():
        machine = machines()[history[0].kind]
        recorded = [event.recorded() for event in history]
        state = replay(machine, (one.event for one in recorded))
        yield Result(f"state {machine.kind} {stream_id}", state)
        for projection in read_models().values():
            if machine.kind in projection.kinds:
                row = None
                for one in recorded:
                    row = projection.fold(row, one)
                yield Result(f"row {projection.name} {stream_id}", row)
        yield from decisions(stream_id, state)


def decisions(stream_id: str, state: msgspec.Struct) -> Iterator[Result]:
    """Decide again, from the recorded inputs, whatever a state records as decided by policy.

    That is the materiality of a case at issue and at start. Records of another kind are to be decided again here too.
    """
    for name in state.__struct_fields__:
        found = getattr(state, name)
        if isinstance(found, MaterialityDecision):
            yield Result(
                f"decision {stream_id} {name}", decide_materiality(found.inputs, found.thresholds, found.decided_at)
            )


def plain(value: Any, kept: Any = None) -> Any:
    """Lay a value out as JSON.

    With a `kept` one only the members of structs that it had: what a later release has added is no difference.
    """
    match value:
        case msgspec.Struct():
            members = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
            if isinstance(kept, dict):
                members = {name: member for name, member in members.items() if name in kept}
            return _each(members, kept)
        case Mapping():
            return _each({str(key): member for key, member in value.items()}, kept)
        case set() | frozenset():
            return sorted(map(plain, value), key=json.dumps)
        case list() | tuple():
            before = kept if isinstance(kept, list) else []
            return [plain(item, old) for item, old in list(zip_longest(value, before))[: len(value)]]
        case Enum():
            return value.value
    return msgspec.to_builtins(value)


def _each(members: Mapping[str, Any], kept: Any) -> dict[str, Any]:
    before = kept if isinstance(kept, dict) else {}
    return {name: plain(member, before.get(name)) for name, member in members.items()}


def digest(value: Any) -> str:
    """Return the hex SHA-256 of a plain value in canonical form."""
    return hashlib.sha256(canonical(value)).hexdigest()


def differences(kept: Iterable[Kept], found: Iterable[Result]) -> list[str]:
    """Name what a history no longer folds to."""
    now = {result.what: result.value for result in found}
    wrong = []
    for one in kept:
        if one.what not in now:
            wrong.append(f"{one.what} is missing")
        elif digest(plain(now[one.what], one.value)) != one.digest:
            wrong.append(f"{one.what} was {one.value}, and is {plain(now[one.what], one.value)}")
    return wrong


def read_history(release: Path) -> list[LogEvent]:
    """Read a kept log, in its order."""
    return [parse(line) for line in gzip.decompress((release / "history.jsonl.gz").read_bytes()).splitlines()]


def read_folded(release: Path) -> list[Kept]:
    """Read what it folded to then."""
    lines = gzip.decompress((release / "folded.jsonl.gz").read_bytes()).splitlines()
    return [msgspec.json.decode(line, type=Kept) for line in lines]


def read_schemas(release: Path) -> dict[str, dict[str, Any]]:
    """Read the JSON Schemas of then by topic."""
    found: dict[str, dict[str, Any]] = json.loads((release / "schemas.json").read_text())
    return found


def export_of_demo() -> bytes:
    """Run the demo to its end; returns its log."""
    with World() as world:
        tell(Scene(Stage(), world, find_node()))
        out = world.directory / "history.jsonl"
        command = [sys.executable, "-m", "service", "events", "export", "--out", str(out)]
        world.run(command, ROOT, SERVICE_DATA_DIR=str(world.directory / "data"))
        return out.read_bytes()


def keep(release: Path, history: bytes) -> None:
    """Write the three files of a release."""
    release.mkdir(parents=True, exist_ok=True)
    results = fold(map(parse, history.splitlines()))
    values = ((what, plain(value)) for what, value in results)
    kept = [Kept(what, digest(value), value) for what, value in values]
    encode: Callable[[Any], bytes] = msgspec.json.encode
    for name, content in (("history", history), ("folded", b"".join(encode(one) + b"\n" for one in kept))):
        (release / f"{name}.jsonl.gz").write_bytes(gzip.compress(content, mtime=0))
    lines = ",\n".join(f"{json.dumps(topic)}: {json.dumps(schema)}" for topic, schema in schemas().items())
    (release / "schemas.json").write_text(f"{{\n{lines}\n}}\n")


def main(path: str) -> None:
    """Run the demo, and keep it."""
    release = Path(path).absolute()
    keep(release, export_of_demo())
    print(f"kept {release.name}: {len(read_history(release))} events, {len(read_folded(release))} results")


if __name__ == "__main__":
    main(sys.argv[1])
