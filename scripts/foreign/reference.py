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
from typing import NamedTuple

from scripts.foreign.samples import SAMPLES, Payload, alone, events
from scripts.foreign.twins import with_twins

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".sentry" / "venv" / "bin" / "python"
TARGET = SAMPLES / "reference.json"


class Reference(NamedTuple):
    """The hashes of each event by its name, and of each event and twin without causes by its label.

    `hashed` is the SHA-256 of all payloads that they were computed of.
    """

    hashed: str
    events: Mapping[str, Sequence[str]]
    alone: Mapping[str, Sequence[str]]


def load() -> Reference:
    """Read the stored reference."""
    return Reference(**json.loads(TARGET.read_text()))


def digest(labelled: Mapping[str, Payload]) -> str:
    """The SHA-256 of events and twins: another one than a reference has means that it is of other payloads."""
    return hashlib.sha256(b"".join(map(_line, labelled.values()))).hexdigest()


def joined(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether Sentry puts two events into one group: they share a hash."""
    return not set(one).isdisjoint(other)


def compute() -> Reference:
    """Hash events and twins with Sentry's code, in about a minute. Raises CalledProcessError when it fails."""
    found = events()
    labelled = with_twins(found)
    whole = {name: _line(payload) for name, payload in found.items()}
    without_causes = {label: _line(alone(payload)) for label, payload in labelled.items()}
    lines = list(dict.fromkeys([*whole.values(), *without_causes.values()]))
    program = [PROGRAM, Path(__file__).with_name("sentry_hashes.py")]
    done = subprocess.run(program, input=b"".join(lines), stdout=subprocess.PIPE, check=True)
    hashes = dict(zip(lines, map(json.loads, done.stdout.splitlines()), strict=True))
    return Reference(
        digest(labelled),
        {name: hashes[line] for name, line in whole.items()},
        {label: hashes[line] for label, line in without_causes.items()},
    )


def write(reference: Reference) -> None:
    """Store a reference, with an event on each line."""
    TARGET.write_text(
        f'{{"hashed": "{reference.hashed}",\n'
        f'"events": {_listed(reference.events)},\n'
        f'"alone": {_listed(reference.alone)}}}\n'
    )


def _listed(hashes: Mapping[str, Sequence[str]]) -> str:
    return "{\n" + ",\n".join(f"{json.dumps(label)}: {json.dumps(told)}" for label, told in hashes.items()) + "\n}"


def _line(payload: Payload) -> bytes:
    return json.dumps(payload, sort_keys=True).encode() + b"\n"


if __name__ == "__main__":
    if not PROGRAM.exists():
        sys.exit("`make yardstick` installs Sentry's code and starts this.")
    write(compute())
