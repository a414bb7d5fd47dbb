"""What Sentry's own code groups the events and their twins by. `python -m scripts.foreign.reference` computes it anew.

An event is hashed as it is. A twin, and the event that it is compared with, are hashed without the causes of their main
exception: a cause is part of the grouping there and of none here, on purpose, so that every SDK makes one case of an
exception, whether or not it tells the causes.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scripts.foreign.samples import SAMPLES, Payload, alone, events
from scripts.foreign.twins import Twin, twins

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".sentry" / "venv" / "bin" / "python"
TARGET = SAMPLES / "reference.json"


class Reference(NamedTuple):
    """Hashes by event, and those before and after each twin's change by kind and event.

    `hashed` is the SHA-256 of all payloads that they were computed of.
    """

    hashed: str
    events: Mapping[str, Sequence[str]]
    twins: Mapping[str, Mapping[str, tuple[Sequence[str], Sequence[str]]]]


def load() -> Reference:
    """Read the stored reference."""
    return Reference(**json.loads(TARGET.read_text()))


def digest(found: Mapping[str, Payload], changed: Iterable[Twin]) -> str:
    """Tell whether events and twins are still those of a reference."""
    seen = hashlib.sha256()
    for payload in _payloads(found, changed):
        seen.update(_line(payload))
    return seen.hexdigest()


def joined(before: Iterable[str], after: Iterable[str]) -> bool:
    """Whether Sentry puts two events into one group: they share a hash."""
    return not set(before).isdisjoint(after)


def compute() -> Reference:
    """Hash events and twins with Sentry's code. Raises CalledProcessError when it fails."""
    found = events()
    changed = list(twins(found))
    lines = b"".join(_line(payload) for payload in _payloads(found, changed))
    program = [PROGRAM, "-W", "ignore", Path(__file__).with_name("sentry_hashes.py")]
    done = subprocess.run(program, input=lines, stdout=subprocess.PIPE, check=True)
    hashes = iter([json.loads(line) for line in done.stdout.splitlines()])
    of_events = {name: next(hashes) for name in found}
    of_twins: dict[str, dict[str, Any]] = {}
    for twin in changed:
        of_twins.setdefault(twin.kind, {})[twin.name] = (next(hashes), next(hashes))
    assert next(hashes, None) is None
    return Reference(digest(found, changed), of_events, of_twins)


def write(reference: Reference) -> None:
    """Store a reference, with an event or twin on each line."""
    kinds = ",\n".join(f'"{kind}": {_listed(hashes)}' for kind, hashes in reference.twins.items())
    text = f'{{"hashed": "{reference.hashed}",\n"events": {_listed(reference.events)},\n"twins": {{\n{kinds}}}}}\n'
    TARGET.write_text(text)


def _listed(hashes: Mapping[str, Any]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(told)}" for name, told in hashes.items()) + "\n}"


def _payloads(found: Mapping[str, Payload], changed: Iterable[Twin]) -> Iterable[Payload]:
    """Everything that is hashed, in order: the events, then each twin's event before and after."""
    yield from found.values()
    for twin in changed:
        yield alone(twin.before)
        yield alone(twin.after)


def _line(payload: Payload) -> bytes:
    return json.dumps(payload, sort_keys=True).encode() + b"\n"


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit("`make yardstick` installs Sentry's code and starts this.")
    write(compute())
