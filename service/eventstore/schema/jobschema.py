"""The SQL of procrastinate, the job library: read from the installed package, never copied here.

A fresh database gets the library's whole schema. A database that has an older one gets the library's own steps in
between, so that raising the version in requirements/ needs no migration of ours.

It stands outside of the numbered order of our own files, and is applied after them. The number in its name is what
databases have recorded since the first release; a file of ours may have a lower number and be newer.
"""

from __future__ import annotations

import re
from importlib import metadata, util
from pathlib import Path

NAME = "0090_procrastinate"
STEP = re.compile(r"(\d+)\.(\d+)\.(\d+)_.*\.sql")


def version() -> str:
    """The installed version."""
    return metadata.version("procrastinate")


def schema() -> str:
    """SQL that makes the whole schema in an empty database."""
    return (_directory() / "schema.sql").read_text(encoding="utf-8")


def steps(after: str) -> str:
    """SQL of the library's steps that came after version `after`, in their order; possibly empty."""
    found = []
    for file in (_directory() / "migrations").iterdir():
        matched = STEP.fullmatch(file.name)
        if matched and tuple(map(int, matched.groups())) > _numbers(after):
            found.append((file.name, file.read_text(encoding="utf-8")))
    return "\n;\n".join(text for _, text in sorted(found)) or "select 1"


def is_older(one: str, other: str) -> bool:
    """Whether version `one` came before `other`."""
    return _numbers(one) < _numbers(other)


def _directory() -> Path:
    """Where the library keeps its SQL. Importing it to ask would make each start a tenth of a second longer."""
    spec = util.find_spec("procrastinate")
    assert spec is not None, "installed, as its version is known"
    assert spec.origin is not None, "an ordinary package"
    return Path(spec.origin).parent / "sql"


def _numbers(written: str) -> tuple[int, ...]:
    """A version as numbers to compare; the empty text comes before every version."""
    return tuple(int(part) for part in re.findall(r"\d+", written)[:3])
